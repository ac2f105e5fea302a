"""Queue locks of ordered consumers, on a clock that moves when told to."""

from __future__ import annotations

import pytest

from gantrymq.broker.tables.locks import QueueLocks
from gantrymq.model.queue import MessageQueue

QUEUES = [MessageQueue("T", "b", number) for number in range(3)]


@pytest.fixture
def locks(clock):
    return QueueLocks(clock.now_ms)


def test_a_free_queue_is_granted_and_a_held_one_is_not(locks):
    assert locks.lock("CG", "one", QUEUES[:2]) == QUEUES[:2]
    assert locks.lock("CG", "two", QUEUES) == QUEUES[2:]
    assert [locks.holder("CG", queue) for queue in QUEUES] == ["one", "one", "two"]


def test_groups_do_not_know_of_each_other(locks):
    locks.lock("CG", "one", QUEUES)
    assert locks.lock("Other", "two", QUEUES) == QUEUES


def test_a_lock_lapses_sixty_seconds_after_its_last_renewal(locks, clock):
    locks.lock("CG", "one", QUEUES[:1])
    clock.advance(50)
    assert locks.lock("CG", "one", QUEUES[:1]) == QUEUES[:1]
    clock.advance(60)
    assert locks.lock("CG", "two", QUEUES[:1]) == []
    assert locks.holder("CG", QUEUES[0]) == "one"
    clock.advance(0.001)
    assert locks.holder("CG", QUEUES[0]) is None
    assert locks.lock("CG", "two", QUEUES[:1]) == QUEUES[:1]
    assert locks.lock("CG", "one", QUEUES[:1]) == []


def test_only_the_holder_unlocks(locks):
    locks.lock("CG", "one", QUEUES[:2])
    locks.unlock("CG", "two", QUEUES)
    assert locks.holder("CG", QUEUES[0]) == "one"
    locks.unlock("CG", "one", QUEUES)
    assert locks.holder("CG", QUEUES[0]) is None
    assert locks.lock("CG", "two", QUEUES) == QUEUES


def test_unlocking_what_nobody_holds_does_nothing(locks):
    locks.unlock("Unknown", "one", QUEUES)
    assert locks.holder("Unknown", QUEUES[0]) is None
