"""Messages similar to one already moved: the same text, queue and placement as if each were parsed separately."""

from __future__ import annotations

import random

import pytest

from gantrymq.interfaces import StoreMessage
from gantrymq.model import properties as props
from gantrymq.model.names import SCHEDULE_TOPIC
from gantrymq_schedule.interceptor import DelayInterceptor
from gantrymq_schedule.levels import table
from gantrymq_schedule.levels.table import LevelTable

IDS = (b"7F01", b"7F02", b"3", b"", "\u00e9".encode(), b"\xff", b"a\x01b", b"DELAY")
PIECES = (
    b"DELAY\x013\x02",
    b"DELAY\x0199\x02",
    b"DELAY\x013\x02DELAY\x011\x02",
    b"TAGS\x01A\x02",
    b"TAGS\x013\x02",
    b"KEYS\x017F01\x02",
    b"MYUNIQ_KEY\x017F01\x02",
    b"UNIQ_KEY\x017F03\x02",
    b"TIMER_DELAY_SEC\x015\x02",
    b"REAL_TOPIC\x01theirs\x02",
    b"x\x02",
    b"",
)


def interceptor():
    made = DelayInterceptor()
    made.levels = LevelTable([1000, 5000, 10_000])
    return made


def seen(message):
    return message.topic, message.queue_id, message.properties, message.queue_targets


@pytest.mark.parametrize("seed", range(20))
def test_a_message_becomes_what_it_becomes_by_itself(seed):
    rng = random.Random(seed)
    remembers = interceptor()
    for _ in range(400):
        pieces = [rng.choice(PIECES) for _ in range(rng.randrange(3))]
        end = rng.choice((b"\x02", b"\x02", b"\x02WAIT\x01true\x02", b""))
        text = b"".join([rng.choice(PIECES[:3]), *pieces, b"UNIQ_KEY\x01", rng.choice(IDS), end])
        place = rng.choice("TU"), rng.randrange(2)
        found = remembers(StoreMessage(*place, b"b", text))
        assert seen(found) == seen(interceptor()(StoreMessage(*place, b"b", text))), text
        assert found.topic == SCHEDULE_TOPIC


def test_the_second_of_a_kind_is_not_read_again(monkeypatch):
    moves = interceptor()
    moves(StoreMessage("T", 1, b"b", b"DELAY\x012\x02UNIQ_KEY\x01ID1\x02"))
    monkeypatch.setattr(props, "decode", None)
    found = moves(StoreMessage("T", 1, b"b", b"DELAY\x012\x02UNIQ_KEY\x01ID2\x02"))
    assert (found.queue_id, found.queue_targets.due_in_ms) == (1, 5000)
    assert b"UNIQ_KEY\x01ID2\x02" in found.properties


def test_what_is_remembered_is_bounded(monkeypatch):
    monkeypatch.setattr(table, "KEPT", 4)
    moves = interceptor()
    for number in range(20):
        moves(StoreMessage("T", 1, b"b", b"KEYS\x01k%d\x02DELAY\x012\x02UNIQ_KEY\x01ID1\x02" % number))
        assert len(moves.levels._texts._known) <= 4
