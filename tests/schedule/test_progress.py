"""Positions of the delay levels: due messages in order, none skipped, no needless wake-ups."""

from __future__ import annotations

import random

import pytest

from gantrymq_schedule.levels.positions import APART_MS, LOOK_AGAIN_MS, SMALL_STEP_MS, LevelPositions, due_at

DELAYS = {1: 1000, 2: 5000, 3: 60_000}


class Bench:
    """Levels with lists as queues, and a simple reader."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.now = 1_000_000
        self.stored = self.now  # store times never decrease
        self.queues = {level: [] for level in DELAYS}
        self.delivered = {level: [] for level in DELAYS}
        self.order = []  # times of the delivered messages
        self.progress = LevelPositions()
        for level, delay in DELAYS.items():
            self.progress.add_level(level, delay, 0, 0)

    def arrive(self):
        level = self.random.choice(list(DELAYS))
        self.stored = max(self.stored, self.now)
        self.queues[level].append(self.stored + DELAYS[level])
        self.progress.arrived(level, len(self.queues[level]))

    def work(self):
        """Deliver slices until no level is ready, as the service does."""
        while (ready := self.progress.ready(self.now)) is not None:
            level, until = ready
            queue, at = self.queues[level], self.progress.position(level)
            most, last_due = at + self.random.randint(1, 4), 0
            while at < min(most, len(queue)) and due_at(queue[at], self.now, DELAYS[level]) <= until:
                self.delivered[level].append((at, self.now))
                self.order.append(queue[at])
                last_due = queue[at]
                at += 1
            known = at < len(queue) and self.random.random() < 0.7
            self.progress.advance(level, at, queue[at] if known else None, last_due)

    def check(self):
        for level, delivered in self.delivered.items():
            assert [at for at, _ in delivered] == list(range(len(delivered)))
            rest = self.queues[level][len(delivered) :]
            assert not rest or due_at(rest[0], self.now, DELAYS[level]) > self.now


@pytest.mark.parametrize("seed", range(60))
def test_over_random_arrivals_and_clocks_all_is_delivered_once_in_order_and_in_time(seed):
    bench = Bench(seed)
    for _ in range(300):
        match bench.random.choice(("arrive", "arrive", "wait", "step")):
            case "arrive":
                bench.arrive()
            case "wait":
                wait = bench.progress.wait_ms(bench.now)
                bench.now += bench.random.randint(0, 3000) if wait is None else wait
                bench.work()
                bench.check()
            case "step" if bench.random.random() < 0.1:
                bench.now += bench.random.choice((-7_200_000, -1500, 1500, 7_200_000))
    for _ in range(200):
        wait = bench.progress.wait_ms(bench.now)
        if wait is None:
            break
        bench.now += wait
        bench.work()
        bench.check()
    assert [len(bench.delivered[level]) for level in DELAYS] == [len(queue) for queue in bench.queues.values()]


@pytest.mark.parametrize("seed", range(20))
def test_without_a_clock_that_is_set_nothing_comes_early_or_late(seed):
    bench = Bench(seed)
    for _ in range(200):
        bench.arrive()
        wait = bench.progress.wait_ms(bench.now)
        bench.now += min(bench.random.randint(0, 500), wait or 0)
        bench.work()
    while (wait := bench.progress.wait_ms(bench.now)) is not None:
        bench.now += wait
        bench.work()
    for level, delivered in bench.delivered.items():
        assert all(0 <= at_ms - bench.queues[level][at] <= 500 for at, at_ms in delivered)


def test_it_waits_until_the_next_is_due_but_looks_at_the_clock_each_second():
    progress = LevelPositions()
    progress.add_level(1, 60_000, 0, 0)
    assert (progress.ready(5), progress.wait_ms(5)) == (None, None)
    assert progress.arrived(1, 1)
    assert (progress.ready(5), progress.wait_ms(5)) == ((1, 5), 0)
    progress.advance(1, 0, 60_000)
    assert not progress.arrived(1, 2)
    assert (progress.ready(5), progress.wait_ms(5)) == (None, LOOK_AGAIN_MS)
    assert progress.wait_ms(59_400) == 600
    assert progress.ready(60_000) == (1, 60_000)
    progress.advance(1, 2)
    assert (progress.ready(60_000), progress.wait_ms(60_000)) == (None, None)


def test_of_several_levels_the_one_that_waited_longest_comes_first():
    progress = LevelPositions()
    for level, time_ms in ((1, 300), (2, 100), (3, 200)):
        progress.add_level(level, 1000, 0, 5)
        progress.advance(level, 0, time_ms)
    assert progress.ready(1000) == (2, 200 + APART_MS)
    progress.advance(2, 3, None, 240)
    assert progress.ready(1000) == (3, 240 + APART_MS)
    progress.advance(3, 5)
    assert progress.ready(280) == (2, 280)


@pytest.mark.parametrize("seed", range(20))
def test_a_burst_of_several_levels_comes_in_the_order_of_its_times(seed):
    bench = Bench(seed)
    for _ in range(400):
        bench.arrive()
        bench.now += bench.random.randint(0, 200)
    bench.now += 3_600_000
    bench.work()
    assert len(bench.order) == 400
    latest = 0
    for time in bench.order:
        assert time >= latest - APART_MS
        latest = max(latest, time)


def test_a_clock_that_was_set_back_does_not_make_messages_wait_for_ever():
    assert due_at(100_000, 50_000, 50_000) == 100_000
    assert due_at(100_000 + SMALL_STEP_MS, 50_000, 50_000) == 100_000 + SMALL_STEP_MS
    assert due_at(100_001 + SMALL_STEP_MS, 50_000, 50_000) == 50_000
    assert due_at(100_001 + SMALL_STEP_MS, 50_000, None) == 100_001 + SMALL_STEP_MS
