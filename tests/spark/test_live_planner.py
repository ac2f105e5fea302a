"""Micro-batches planned from one look at the queues to the next."""

import json
import random

import pytest

from gantrymq.model.queue import MessageQueue
from gantrymq_spark.live.offsets import (
    LossKind,
    Offsets,
    QueuePosition,
    QueueRange,
    QueueState,
    Snapshot,
    ranges_between,
)
from gantrymq_spark.live.planner import Planner

Q = [MessageQueue("T", "a", number) for number in range(4)]
OTHER = MessageQueue("T", "b", 0)
DELAY_MS = 60_000


def read(**places):
    return Offsets({Q[int(name[1:])]: QueuePosition(*place) for name, place in places.items()})


def seen(*queues, away=()):
    return Snapshot({Q[number]: queue for number, queue in enumerate(queues) if queue}, frozenset(away))


def step(before, now, time_ms=0, planner=None, **limits):
    return (planner or Planner(DELAY_MS)).step(before, now, time_ms, **limits)


def kinds(planned):
    return [loss.kind for loss in planned.losses]


def test_a_batch_goes_from_what_was_read_to_the_end():
    before = read(q0=(70, 500))
    planned = step(before, seen(QueueState(20, 90, 600)))
    assert planned.offsets == read(q0=(90, 600))
    assert ranges_between(before, planned.offsets) == [QueueRange(Q[0], 70, 90)]
    assert not planned.losses


def test_nothing_new_is_the_very_offsets_given():
    before = read(q0=(90, 600))
    assert step(before, seen(QueueState(20, 90, 600), QueueState(0, 0))).offsets is before


def test_a_new_queue_is_read_from_its_first_message():
    before = read(q0=(90, 600))
    planned = step(before, seen(QueueState(20, 90, 600), QueueState(5, 8, 700)))
    assert planned.offsets == read(q0=(90, 600), q1=(8, 700, 5))
    assert ranges_between(before, planned.offsets) == [QueueRange(Q[1], 5, 8)]


def test_what_a_batch_began_with_is_not_taken_for_the_next_one():
    before = read(q0=(8, 700, 5), q1=(4, 700, 0))
    planned = step(before, seen(QueueState(5, 9, 800), QueueState(0, 4, 700)))
    assert planned.offsets == read(q0=(9, 800), q1=(4, 700))
    assert ranges_between(before, planned.offsets) == [QueueRange(Q[0], 8, 9)]


def test_expired_offsets_are_told_and_passed():
    before = read(q0=(70, 500))
    planned = step(before, seen(QueueState(80, 90, 600)))
    assert ranges_between(before, planned.offsets) == [QueueRange(Q[0], 80, 90)]
    assert kinds(planned) == [LossKind.EXPIRED]
    assert str(planned.losses[0]).startswith("T, a, queue 0: offsets 70 to 79 are no longer in the queue")


def test_all_offsets_expired_is_told_once():
    planner, before = Planner(DELAY_MS), read(q0=(70, 500))
    planned = step(before, seen(QueueState(90, 90)), planner=planner)
    assert kinds(planned) == [LossKind.EXPIRED]
    assert planned.offsets == read(q0=(90, 0, 90))
    assert ranges_between(before, planned.offsets) == []
    again = step(planned.offsets, seen(QueueState(90, 90)), planner=planner)
    assert (again.offsets is planned.offsets, again.losses) == (True, ())


@pytest.mark.parametrize("end", [20, 90])
def test_a_topic_made_anew_is_read_from_its_first_message(end):
    before = read(q0=(70, 500))
    planned = step(before, seen(QueueState(0, end, 900, first_stored_ms=501)))
    assert ranges_between(before, planned.offsets) == [QueueRange(Q[0], 0, end)]
    assert kinds(planned) == [LossKind.RECREATED]


def test_a_topic_made_anew_and_still_empty_begins_at_0():
    before = read(q0=(70, 500))
    planned = step(before, seen(QueueState(0, 0)))
    assert (planned.offsets, kinds(planned)) == (read(q0=(0, 0, 0)), [LossKind.RECREATED])
    later = step(planned.offsets, seen(QueueState(0, 3, 900, 890)))
    assert (ranges_between(planned.offsets, later.offsets), later.losses) == ([QueueRange(Q[0], 0, 3)], ())


def test_a_log_that_lost_its_end_goes_on_at_its_end():
    before = read(q0=(70, 500))
    planned = step(before, seen(QueueState(20, 60, 450, first_stored_ms=100)))
    assert planned.offsets == read(q0=(60, 450, 60))
    assert kinds(planned) == [LossKind.TRUNCATED]


def test_queues_of_a_broker_that_is_away_wait():
    before = Offsets({Q[0]: QueuePosition(70, 500), OTHER: QueuePosition(3, 400, 1)})
    planned = step(before, seen(QueueState(0, 71, 600), away=["b"]))
    assert planned.offsets.queues == {Q[0]: QueuePosition(71, 600), OTHER: QueuePosition(3, 400)}
    assert not planned.losses


def test_a_queue_that_is_gone_is_told_once_and_forgotten():
    before = read(q0=(70, 500), q1=(4, 5))
    planned = step(before, seen(QueueState(0, 70, 500)))
    assert planned.offsets == read(q0=(70, 500))
    assert ranges_between(before, planned.offsets) == []
    assert kinds(planned) == [LossKind.QUEUE_GONE]
    assert step(planned.offsets, seen(QueueState(0, 70, 500))).losses == ()


def test_a_limit_is_shared_out_by_backlog():
    before = read(q0=(0, 0), q1=(0, 0))
    planned = step(before, seen(QueueState(0, 901, 9), QueueState(0, 101, 9)), max_offsets=102)
    assert [each.count for each in ranges_between(before, planned.offsets)] == [91, 11]


def test_few_offsets_wait_until_there_are_more_or_time_has_passed():
    planner, before = Planner(DELAY_MS), read(q0=(0, 0))
    first = step(before, seen(QueueState(0, 3, 1)), 5_000, planner, min_offsets=10).offsets
    assert first == read(q0=(3, 1))
    few, enough = seen(QueueState(0, 12, 2)), seen(QueueState(0, 13, 2))
    assert step(first, few, 5_001, planner, min_offsets=10).offsets is first
    assert step(first, few, 64_999, planner, min_offsets=10).offsets is first
    assert step(first, few, 65_000, planner, min_offsets=10).offsets == read(q0=(12, 2))
    assert step(first, few, 65_001, planner, min_offsets=10).offsets is first
    assert step(first, enough, 65_002, planner, min_offsets=10).offsets == read(q0=(13, 2))


def test_available_now_ends_where_its_first_look_did():
    planner, before = Planner(DELAY_MS), read(q0=(0, 0))
    planner.aim(seen(QueueState(0, 10, 50)))
    later = seen(QueueState(0, 25, 90), QueueState(0, 4, 90))
    offsets, sizes = before, []
    while (planned := step(offsets, later, 0, planner, max_offsets=4, min_offsets=100)).offsets is not offsets:
        sizes += [each.count for each in ranges_between(offsets, planned.offsets)]
        offsets = planned.offsets
    assert (offsets, sizes) == (read(q0=(10, 50)), [4, 4, 2])


def test_available_now_reads_nothing_of_a_topic_made_anew_meanwhile():
    planner, before = Planner(DELAY_MS), read(q0=(2, 20))
    planner.aim(seen(QueueState(0, 10, 50)))
    planned = step(before, seen(QueueState(0, 12, 95, 90)), 0, planner)
    assert planned.offsets is before
    assert kinds(planned) == [LossKind.RECREATED]


def test_available_now_reads_a_topic_made_anew_before_from_its_first_message():
    planner, before = Planner(DELAY_MS), read(q0=(10, 20))
    planner.aim(seen(QueueState(0, 30, 90)))
    planned = step(before, seen(QueueState(0, 35, 95, 60)), 0, planner)
    assert (planned.offsets, kinds(planned)) == (read(q0=(30, 90, 0)), [LossKind.RECREATED])


def test_available_now_passes_offsets_that_expire_meanwhile():
    planner, before = Planner(DELAY_MS), read(q0=(2, 20))
    planner.aim(seen(QueueState(0, 10, 50)))
    planned = step(before, seen(QueueState(14, 20, 95)), 0, planner)
    assert (planned.offsets, kinds(planned)) == (read(q0=(14, 50, 14)), [LossKind.EXPIRED])
    assert step(planned.offsets, seen(QueueState(14, 20, 95)), 0, planner).offsets is planned.offsets


def test_available_now_leaves_queues_that_its_first_look_did_not_see():
    planner, before = Planner(DELAY_MS), read(q0=(2, 20), q1=(5, 20))
    planner.aim(seen(QueueState(0, 4, 50)))
    planned = step(before, seen(QueueState(0, 4, 50), QueueState(0, 9, 60)), 0, planner)
    assert (planned.offsets, planned.losses) == (read(q0=(4, 50), q1=(5, 20)), ())


class World:
    """Queues with named messages; topics are created, grow, lose files, are deleted and recreated."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.time_ms = 1000
        self.made = 0
        self.queues = {}  # queue: [first, [(name, stored)...] from 0]
        self.losses_expected = set()
        self.grow()

    def grow(self):
        if len(self.queues) < len(Q):
            self.queues[Q[len(self.queues)]] = [0, []]

    def write(self):
        queue = self.random.choice(list(self.queues.values()))
        for _ in range(self.random.randint(1, 30)):
            self.time_ms += 1
            queue[1].append((self.made, self.time_ms))
            self.made += 1

    def expire(self):
        queue = self.random.choice(list(self.queues.values()))
        upto = self.random.randint(queue[0], len(queue[1]))
        self.losses_expected |= {name for name, _ in queue[1][queue[0] : upto]}
        queue[0] = upto

    def make_anew(self):
        for queue in self.queues.values():
            self.losses_expected |= {name for name, _ in queue[1]}
            queue[:] = [0, []]
        self.time_ms += 1

    def look(self, away):
        found = {}
        for queue, (first, messages) in self.queues.items():
            stored = messages[-1][1] if first < len(messages) else 0
            head = messages[first][1] if first < len(messages) else None
            found[queue] = QueueState(first, len(messages), stored, head)
        return Snapshot({}, frozenset("a")) if away else Snapshot(found)

    def get(self, each):
        return [name for name, _ in self.queues[each.queue][1][each.first : each.end]]


@pytest.mark.parametrize("seed", range(150))
def test_every_message_comes_once_whatever_happens_between(seed):
    world = World(seed)
    planner, offsets, got = Planner(DELAY_MS), Offsets(), []
    limits = {"max_offsets": world.random.choice([None, 1, 3, 20]), "min_offsets": world.random.choice([None, 5])}
    for _ in range(60):
        happening = world.random.choices(
            [world.write, world.grow, world.expire, world.make_anew, None], [10, 1, 1, 0.3, 4]
        )[0]
        if happening:
            happening()
            continue
        if world.random.random() < 0.2:
            planner = Planner(DELAY_MS)  # a restart
        offsets = batch(world, planner, offsets, got, limits, away=world.random.random() < 0.1)
    limits["min_offsets"] = None
    for _ in range(5000):
        after = batch(world, planner, offsets, got, limits)
        if after is offsets:
            break
        offsets = after
    assert len(got) == len(set(got))
    assert set(got) | world.losses_expected == set(range(world.made))


def batch(world, planner, offsets, got, limits, away=False):
    """Plan one from what the checkpoint kept; read it twice, as after a kill."""
    planned = planner.step(offsets, world.look(away), world.time_ms, **limits).offsets
    if planned is offsets:
        return offsets
    start, end = (Offsets.from_json(json.loads(json.dumps(each.to_json()))) for each in (offsets, planned))
    ranges = ranges_between(start, end)
    assert ranges == ranges_between(offsets, planned)
    if limits["max_offsets"]:
        assert sum(each.count for each in ranges) <= limits["max_offsets"]
    names = [name for each in ranges for name in world.get(each)]
    assert len(names) == sum(each.count for each in ranges)
    got += names
    return end
