"""Rewriting a client's property text: the same bytes with the cache as without."""

import pytest

from gantrymq.broker.sending.stored_properties import KEPT, StoredProperties
from gantrymq.model import properties as props
from gantrymq.model.java import ordered_text

ADDED = {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true", "CLUSTER": "DefaultCluster"}


def slow(text, new_id=None):
    """The rule itself: a map, the broker's names, without POP_CK, an id if there is none, Java's order."""
    own = props.decode_text(text)
    own.update(ADDED)
    own.pop("POP_CK", None)
    if new_id is not None:
        own.setdefault("UNIQ_KEY", new_id)
    return ordered_text(own)


TEXTS = [
    "UNIQ_KEY\x01A1\x02WAIT\x01true\x02TAGS\x01TagA\x02",
    "TAGS\x01TagA\x02UNIQ_KEY\x01A2",
    "KEYS\x01k1 k2\x02UNIQ_KEY\x01A3\x02WAIT\x01false\x02",
    "UNIQ_KEY\x01A4\x02UNIQ_KEY\x01A5\x02",
    "MY_UNIQ_KEY\x01mine\x02UNIQ_KEY\x01A6\x02",
    "MY_UNIQ_KEY\x01mine\x02",
    "UNIQ_KEY\x01\x02TAGS\x01t\x02",
    "UNIQ_KEY\x01A\x01B\x02TAGS\x01t\x02",
    "POP_CK\x01gone\x02UNIQ_KEY\x01A7\x02",
    "CLUSTER\x01theirs\x02UNIQ_KEY\x01A8\x02",
    "TAGS\x01\u4e2d\u6587\x02UNIQ_KEY\x01A9\x02",
    "",
    "garbage",
    "a\x01\x03gap\x03\x02UNIQ_KEY\x01A10\x02",
]


@pytest.mark.parametrize("text", TEXTS)
def test_second_message_of_a_text_is_written_as_the_first(text):
    rewriter = StoredProperties(ADDED)
    first, second = rewriter.rewrite(text), rewriter.rewrite(text)
    assert first == second
    assert first.text == slow(text)


def test_texts_that_differ_in_the_id_alone_keep_their_own_ids():
    rewriter = StoredProperties(ADDED)
    for number in range(5):
        text = f"TAGS\x01TagA\x02UNIQ_KEY\x01ID{number}\x02WAIT\x01true\x02"
        stored = rewriter.rewrite(text)
        assert stored.unique_id == f"ID{number}"
        assert stored.text == slow(text)
        assert (stored.tags_code, stored.wait_stored, stored.special) == (2598919, True, None)


def test_message_without_an_id_gets_the_new_one():
    rewriter = StoredProperties(ADDED)
    assert rewriter.rewrite("TAGS\x01t\x02").unique_id == ""
    stored = rewriter.rewrite("TAGS\x01t\x02", "NEW")
    assert (stored.unique_id, stored.text) == ("NEW", slow("TAGS\x01t\x02", "NEW"))


@pytest.mark.parametrize("name", ["TRAN_MSG", "DELAY", "TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS"])
def test_what_needs_looking_at_is_shown_each_time(name):
    rewriter = StoredProperties(ADDED)
    text = f"{name}\x013\x02UNIQ_KEY\x01A\x02"
    for _ in range(3):
        stored = rewriter.rewrite(text)
        assert stored.special is not None
        assert stored.special[name] == "3"


def test_many_distinct_texts_do_not_grow_the_cache_without_bound():
    rewriter = StoredProperties(ADDED)
    for number in range(KEPT + 10):
        rewriter.rewrite(f"KEYS\x01k{number}\x02UNIQ_KEY\x01A\x02")
    assert len(rewriter._templates) <= KEPT
