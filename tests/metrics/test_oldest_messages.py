"""The number of messages that a scrape reads to compute the delay of groups."""

import asyncio
from types import SimpleNamespace

import pytest

from gantrymq_metrics import oldest_messages
from gantrymq_metrics.oldest_messages import OldestMessages


class Clock:
    def monotonic(self):
        return 0.0

    async def sleep(self, _):
        await asyncio.sleep(0)


class Broker:
    """A broker with store times of 1000 ms times the queue offset; `asked` records the reads."""

    def __init__(self):
        self.world, self.lags = SimpleNamespace(clock=Clock()), self
        self.asked, self.broken = [], set()

    async def stored_ms(self, queue, queue_offset):
        self.asked.append((queue.queue_id, queue_offset))
        return None if queue.queue_id in self.broken else queue_offset * 1000


@pytest.fixture
def look():
    """``look({queue_id: queue_offset})``: store times by queue id; ``look.broker`` is the broker."""
    broker, oldest = Broker(), OldestMessages()

    def run(wanted):
        broker.asked.clear()
        asyncio.run(oldest.read(broker, {("T", "G"): wanted}))
        return dict(oldest.stored_ms(("T", "G")))

    run.broker, run.oldest = broker, oldest
    return run


def test_a_message_is_read_once_while_the_group_stays(look):
    assert look({0: 5, 1: 6}) == {0: 5000, 1: 6000}
    assert look({0: 5, 1: 7}) == {0: 5000, 1: 7000}
    assert look.broker.asked == [(1, 7)]


def test_no_more_are_read_at_a_time_than_may_be_and_the_others_come_next(look, monkeypatch):
    monkeypatch.setattr(oldest_messages, "READS", 3)
    seen = []
    for turn in range(1, 5):
        look(dict.fromkeys(range(6), turn))
        seen.append([queue_id for queue_id, _ in look.broker.asked])
    assert seen == [[0, 1, 2], [3, 4, 5], [0, 1, 2], [3, 4, 5]]
    assert look(dict.fromkeys(range(6), 5)) == {0: 5000, 1: 5000, 2: 5000, 3: 4000, 4: 4000, 5: 4000}


def test_what_is_not_asked_for_any_more_is_forgotten(look):
    look({0: 5, 1: 6})
    assert look({1: 6}) == {1: 6000}
    asyncio.run(look.oldest.read(look.broker, {}))
    assert look.oldest.stored_ms(("T", "G")) == {}
    assert not look.oldest._known


def test_a_message_that_cannot_be_read_is_left_out(look):
    look.broker.broken = {0}
    assert look({0: 5, 1: 6}) == {1: 6000}
