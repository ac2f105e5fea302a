"""Long work on the event loop, in short pieces."""

import itertools

from gantrymq.world.clock import MAX_SLICE_S, TimeSlices


class Clock:
    """Duration of each item, and the number of turns of other tasks."""

    def __init__(self):
        self.now = 0.0
        self.pauses = []

    def monotonic(self):
        return self.now

    async def sleep(self, seconds):
        assert seconds == 0
        self.pauses.append(self.now)


async def done(clock, slices, items, each_s):
    for _ in range(items):
        clock.now += each_s
        await slices.item_done()


def pauses(items, each_s, most):
    clock = Clock()
    coroutine = done(clock, TimeSlices(clock, most), items, each_s)
    try:
        coroutine.send(None)
    except StopIteration:
        return clock.pauses
    raise AssertionError


def test_items_that_take_no_time_are_counted():
    assert len(pauses(100, 0.0, 10)) == 10


def test_items_that_take_long_are_fewer():
    found = pauses(100, MAX_SLICE_S / 4, 1000)
    assert 20 <= len(found) <= 25
    assert all(after - before <= 1.5 * MAX_SLICE_S for before, after in itertools.pairwise(found))


def test_one_that_takes_longer_than_a_turn_is_a_turn():
    assert len(pauses(7, 2 * MAX_SLICE_S, 1000)) == 7
