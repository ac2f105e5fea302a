"""Methods declare the request codes that they serve."""

import pytest

from gantrymq.remoting.serving import handlers_of, serves


class Family:
    @serves(1, 2)
    def one(self):
        return "one"

    @serves(3)
    def other(self):
        return "other"

    def unmarked(self):
        return "nobody asks"


class Grown(Family):
    @serves(4)
    def more(self):
        return "more"


class Doubled(Family):
    @serves(3)
    def again(self):
        return "again"


def test_each_code_has_its_method():
    assert {code: handler() for code, handler in handlers_of(Family()).items()} == {1: "one", 2: "one", 3: "other"}


def test_a_family_that_grew_serves_what_it_did():
    assert sorted(handlers_of(Grown())) == [1, 2, 3, 4]


def test_a_code_that_two_methods_serve_is_refused():
    with pytest.raises(ValueError, match="Doubled serves request code 3 twice, once in other"):
        handlers_of(Doubled())
