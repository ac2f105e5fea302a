"""Cached parsing of half messages gives the same result as parsing their text."""

import random

import pytest

pytest.importorskip("gantrymq_transaction")

from gantrymq.model import properties as props
from gantrymq_transaction.half_text import HalfTextWriter
from gantrymq_transaction.half_text_reader import HalfTextReader
from gantrymq_transaction.messages import asks_for_delay, real_queue
from gantrymq_transaction.rules import CHECK_TIMES, IMMUNITY, checks_of

NAMES = (props.PRODUCER_GROUP, props.TAGS, props.KEYS, props.DELAY, CHECK_TIMES, IMMUNITY, "A", "__transactionId__x")
VALUES = ("1", "3", "ID1", "ID12", "red", "\x01", "Ää", "a\x01b")
IDS = ("ID1", "ID2", "ID12", "1", "red", "Ä", "I\x01D", "I D")
NAMED = (None, "", "ID1", "1", "red", "\x01", "\x02", "P")  # named by a producer; None: the id
ASKED = (props.PRODUCER_GROUP, props.TAGS, CHECK_TIMES, IMMUNITY, props.REAL_TOPIC, props.REAL_QUEUE_ID)


@pytest.mark.parametrize("seed", range(20))
def test_what_is_known_of_one_text_holds_for_those_like_it(seed):
    chance = random.Random(seed)
    for _ in range(50):
        known, texts = HalfTextReader(), HalfTextWriter()
        for _ in range(chance.randrange(6)):
            own = {name: chance.choice(VALUES) for name in chance.sample(NAMES, chance.randrange(5))}
            unique_id, named = chance.choice(IDS), chance.choice(NAMED)
            sent_text = props.encode({**own, props.PRODUCER_GROUP: own.get(props.PRODUCER_GROUP) or "PG"})
            text = texts.of(sent_text + props.encode({props.UNIQ_KEY: unique_id}), "T1", 3)
            for _ in range(2):
                found = known.of(text, unique_id if named is None else named)
                whole = props.decode(text)
                assert (found.queue, found.checks) == (real_queue(whole), checks_of(whole))
                assert [found.own.get(name) for name in ASKED] == [whole.get(name) for name in ASKED]
                assert asks_for_delay(found.own) == asks_for_delay(whole)


def test_an_id_with_the_end_of_a_property_in_it_says_nothing_of_others():
    known = HalfTextReader()
    text = b"UNIQ_KEY\x01%b\x02__transactionId__\x01%b\x02PGROUP\x01PG\x02"
    assert known.of(text % (b"ID1", b"ID1"), "ID1").own["UNIQ_KEY"] == "ID1"
    assert known.of(text % (b"ID2", b"ID2"), "ID2").own == {"PGROUP": "PG"}
    odd = "a\x02TRANSACTION_CHECK_TIMES\x013"
    assert known.of(text % (odd.encode(), odd.encode()), odd).checks == 3


def test_a_message_that_asks_for_a_delay_is_read_each_time():
    known = HalfTextReader()
    for unique_id in (b"ID1", b"ID2", b"ID3"):
        text = b"DELAY\x013\x02UNIQ_KEY\x01%b\x02__transactionId__\x01%b\x02" % (unique_id, unique_id)
        assert known.of(text, unique_id.decode()).own == props.decode(text)
