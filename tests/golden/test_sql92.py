"""Our answers to SQL92 expressions equal those of Java's filter 5.3.3 to the same pairs, refusals included."""

from collections import Counter

import pytest

pytest.importorskip("gantrymq_filter_sql92")

from sql92_answers import our_answer
from sql92_golden import read

from gantrymq.client.message import Message
from gantrymq.client.reading.subscription import Subscription
from gantrymq.errors import SubscriptionParseFailed
from gantrymq.model import properties


def test_our_answers_are_java_s():
    different = [
        f"{one.expression!r} of {one.properties!r}: Java {one.answer}, ours {ours.answer} {ours.why}"
        for one in read()
        if (ours := our_answer(one.expression, one.properties)).answer != one.answer
    ]
    assert not different, f"{len(different)} differ:\n" + "\n".join(different[:20])


def test_the_client_says_the_same():
    """`Subscription.matches` of a message with properties read from the raw bytes."""
    for one in read():
        try:
            wanted = Subscription("T", one.expression, "SQL92")
        except SubscriptionParseFailed:
            assert one.answer == "refused", one
            continue
        message = Message("T", b"", properties=properties.decode(one.properties))
        assert wanted.matches(message) == (one.answer == "true"), one


def test_every_answer_is_frozen_many_times():
    """A sample of refusals only would prove little."""
    found = Counter(one.answer for one in read())
    assert sum(found.values()) >= 2_000
    assert set(found) == {"true", "false", "null", "refused", "failed"}
    assert min(found.values()) >= 150
