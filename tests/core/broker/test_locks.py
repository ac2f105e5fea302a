"""Queue locks of ordered consumers, on a clock that moves when told to."""

from __future__ import annotations

import random

import pytest

from gantrymq.broker.tables.locks import LOCK_MS, QueueLocks
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


def test_whether_any_queue_of_a_group_is_held(locks, clock):
    assert not locks.any_held("CG")
    locks.lock("CG", "one", QUEUES[:2])
    assert (locks.any_held("CG"), locks.any_held("Other")) == (True, False)
    locks.unlock("CG", "one", QUEUES[:1])
    assert locks.any_held("CG")
    clock.advance(60.001)
    assert not locks.any_held("CG")


@pytest.mark.parametrize("seed", range(20))
def test_no_two_clients_consume_a_queue_at_once_whatever_they_do(clock, seed):
    """Clients lock, renew, release, die and reconnect; each uses a lock for 30 s, like RocketMQ's clients."""
    rng, locks = random.Random(seed), QueueLocks(clock.now_ms)
    renewed, trusted_until = {}, {}  # by queue: holder and its last renewal; by client and queue: end of its belief
    for _ in range(2000):
        client = rng.choice(["one", "two", "three"])
        chosen = rng.sample(QUEUES, rng.randint(1, len(QUEUES)))
        what = rng.random()
        now = clock.now_ms()
        if what < 0.6:
            granted = locks.lock("CG", client, chosen)
            for queue in chosen:
                holder, since = renewed.get(queue, (client, now))
                assert (queue in granted) is (holder == client or now - since > LOCK_MS)
                if queue in granted:
                    renewed[queue] = client, now
                    trusted_until[client, queue] = now + 30_000
        elif what < 0.8:
            locks.unlock("CG", client, chosen)
            for queue in chosen:
                trusted_until.pop((client, queue), None)
                if renewed.get(queue, ("", 0))[0] == client:
                    del renewed[queue]
        else:
            clock.advance(rng.choice([0.5, 5, 20, 61]))
        now = clock.now_ms()
        for queue in QUEUES:
            believing = {who for (who, which), until in trusted_until.items() if which == queue and until > now}
            assert len(believing) <= 1
            holder, since = renewed.get(queue, (None, 0))
            assert locks.holder("CG", queue) == (holder if now - since <= LOCK_MS else None)
        assert locks.any_held("CG") == any(now - since <= LOCK_MS for _, since in renewed.values())


def test_groups_whose_locks_have_all_lapsed_are_forgotten(locks, clock):
    locks.lock("gone", "one", QUEUES)
    clock.advance(LOCK_MS / 1000)
    locks.lock("live", "two", QUEUES[:1])
    locks.forget_lapsed()
    assert set(locks._held) == {"gone", "live"}
    clock.advance(0.001)
    locks.forget_lapsed()
    assert set(locks._held) == {"live"}
    locks.forget("live")
    assert not locks._held
