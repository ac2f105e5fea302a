"""The filter contract passes a correct filter and detects each kind of fault."""

import pytest

from gantrymq.errors import SubscriptionParseFailed
from gantrymq_testing import FilterContract


class Compiled:
    """Accepts messages whose property ``colour`` is the expression; ``*`` accepts all."""

    needs_message = True
    accepts_all = False

    def __init__(self, colour):
        self.colour = colour
        self.accepts_all = colour == "*"
        self.needs_message = not self.accepts_all

    def match_entry(self, tags_code, ext):
        return True

    def match_message(self, record):
        return self.colour == "*" or record.properties.get("colour") == self.colour


class Colours:
    name = "COLOUR"

    def compile(self, subscription):
        if not subscription.expression.isalpha() and subscription.expression != "*":
            raise SubscriptionParseFailed(f"{subscription.expression!r} is no colour; write letters or *")
        return Compiled(subscription.expression)


class Examples(FilterContract):
    make_filter = Colours
    verdicts = (("*", {}, True), ("red", {"colour": "red"}, True), ("red", {"colour": "blue"}, False))
    refused = ("12", "")


class TestGoodFilter(Examples):
    pass


def wrong(**members):
    return type("Wrong", (Colours,), members)()


def test_a_filter_that_refuses_without_a_reason_is_caught():
    def refuse(self, subscription):
        raise SubscriptionParseFailed("no")

    with pytest.raises(AssertionError):
        Examples().test_refuses_a_bad_expression_with_a_reason(wrong(compile=refuse), "12")


def test_a_filter_that_takes_what_it_cannot_read_is_caught():
    takes_all = wrong(compile=lambda self, subscription: Compiled("*"))
    with pytest.raises(pytest.fail.Exception):
        Examples().test_refuses_a_bad_expression_with_a_reason(takes_all, "12")
    with pytest.raises(AssertionError):
        Examples().test_decides_as_the_example_says(takes_all, ("red", {"colour": "blue"}, False))


def test_a_filter_that_keeps_state_between_messages_is_caught():
    class Once(Compiled):
        asked = 0

        def match_message(self, record):
            self.asked += 1
            return self.asked == 1 and super().match_message(record)

    forgetful = wrong(compile=lambda self, subscription: Once(subscription.expression))
    with pytest.raises(AssertionError):
        Examples().test_asking_again_gives_the_same_answer(forgetful)


def test_a_filter_whose_first_stage_forgets_messages_is_caught():
    class Strict(Compiled):
        def match_entry(self, tags_code, ext):
            return False

    strict = wrong(compile=lambda self, subscription: Strict(subscription.expression))
    with pytest.raises(AssertionError):
        Examples().test_decides_as_the_example_says(strict, ("red", {"colour": "red"}, True))


def test_a_name_that_is_not_exported_says_so():
    with pytest.raises(ImportError, match="NoSuchContract"):
        from gantrymq_testing import NoSuchContract  # noqa: F401
