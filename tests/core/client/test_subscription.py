"""`Subscription.matches` answers as broker and consumer do."""

import pytest

from gantrymq.client import Subscription
from gantrymq.client.message import Message
from gantrymq.client.reading import subscription
from gantrymq.errors import ClientError, FilterFailed, PluginError, SubscriptionParseFailed


class Body:
    """The filter type BODY: the body contains the text; ``raise`` raises."""

    name = "BODY"
    accepts_all = False
    needs_message = True

    def compile(self, asked):
        if not asked.expression:
            raise SubscriptionParseFailed("nothing to look for")
        self.expression = asked.expression.encode()
        return self

    def match_entry(self, tags_code, ext):
        return True

    def match_message(self, record):
        if self.expression == b"raise":
            raise KeyError("colour")
        return self.expression in bytes(record.body)


class Tags:
    """The filter type TAG as a broker has it: it sees hashes, here all alike."""

    accepts_all = False
    needs_message = False

    def compile(self, asked):
        return self

    def match_entry(self, tags_code, ext):
        return tags_code != 0


@pytest.fixture(autouse=True)
def types(monkeypatch):
    offered = {"BODY": Body, "TAG": Tags}
    monkeypatch.setattr(subscription, "_types", lambda: offered)
    return offered


def message(body="abc", tag=None, topic="T", **properties):
    return Message(topic, body.encode(), tags=tag, properties=properties)


def test_a_type_of_a_plugin_is_reached_by_its_name_or_through_sql():
    for wanted in (Subscription("T", "b", "BODY"), Subscription("T", "BODY:: b", "SQL92")):
        assert wanted.matches(message("abc"))
        assert not wanted.matches(message("acd"))
        assert not wanted.matches(message("abc", topic="Other"))


def test_texts_of_tags_are_compared_behind_their_hashes():
    wanted = Subscription("T", "A || B")
    assert [wanted.matches(message(tag=tag)) for tag in ("A", "B", "C", None)] == [True, True, False, False]


def test_everything_needs_no_plugin(types):
    types.clear()
    assert Subscription("T").matches(message())
    assert Subscription("T", "").matches(message(tag="A"))
    with pytest.raises(
        PluginError, match="no installed plugin offers the filter type SQL92 .available: none.; install one"
    ):
        Subscription("T", "a = 1", "SQL92")


def test_what_is_wrong_is_said():
    with pytest.raises(SubscriptionParseFailed, match="nothing to look for"):
        Subscription("T", "BODY::", "SQL92")
    with pytest.raises(FilterFailed, match="KeyError: 'colour'") as caught:
        Subscription("T", "raise", "BODY").matches(message())
    assert isinstance(caught.value, ClientError)
