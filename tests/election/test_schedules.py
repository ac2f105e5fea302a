"""Seeded clusters of machines under crashes, pauses, partitions and lost answers: nothing acknowledged is lost."""

import pytest

pytest.importorskip("gantrymq_replication")

from cluster_model import World

from gantrymq_replication.election.machine import Fencing, Machine
from gantrymq_replication.election.sync_set import SyncSet

KINDS = pytest.mark.parametrize("leases", [False, True], ids=["controller", "lease"])
SEEDS = 6
SECONDS = 150
GROUPS = [
    *(0, 1, pytest.param(2, marks=pytest.mark.slow)),
    *(pytest.param(group, marks=pytest.mark.long) for group in range(12, 42, 10)),
]


def run(seed, leases, **more):
    world = World(seed, leases, **more)
    world.run(SECONDS)
    return world


@KINDS
@pytest.mark.parametrize("group", GROUPS)
def test_nothing_acknowledged_is_lost(leases, group):
    """The long ones run 180 clusters of each kind."""
    acked = epochs = 0
    for seed in range(group * SEEDS, (group + (10 if group > 1 else 1)) * SEEDS):
        world = run(seed, leases)
        world.heal()
        before = len(world.checker.acked)
        world.run(60)
        assert len(world.checker.acked) > before + 50, f"seed {seed}: no messages after the faults"
        acked += len(world.checker.acked)
        epochs += world.engine.epoch
    assert acked > 100 * SEEDS and epochs > 3 * SEEDS


@KINDS
def test_the_fail_safe_loses_nothing(leases):
    strict = failsafe = 0
    for seed in range(SEEDS):
        failsafe += len(run(seed, leases, fencing=Fencing.FAILSAFE).checker.acked)
        strict += len(run(seed, leases).checker.acked)
    assert failsafe > 100 and strict > 100


@KINDS
def test_without_faults_the_first_master_stays(leases):
    world = World(1, leases, faults=False)
    world.run(60)
    assert world.engine.epoch == 1 and len(world.engine.members) == 3 and len(world.checker.acked) > 100


@KINDS
def test_two_brokers_with_one_copy_needed_lose_nothing(leases):
    acked = [len(run(seed, leases, brokers=2, least_copies=1).checker.acked) for seed in range(SEEDS)]
    assert sum(acked) > 20 * SEEDS


def finds(leases, **more):
    """Whether the checker finds an error in some of the runs."""
    try:
        for seed in range(20):
            run(seed, leases, **more)
    except AssertionError as error:
        return str(error)
    return ""


def test_the_checker_finds_a_master_that_is_not_fenced():
    assert "serves after its lease" in finds(True, fencing=Fencing.ROCKETMQ)


@KINDS
def test_the_checker_finds_acknowledgements_of_one_copy(leases):
    assert finds(leases, all_in_sync=False, least_copies=1)


@KINDS
def test_the_checker_finds_a_set_that_shrinks_too_early(leases, monkeypatch):
    monkeypatch.setattr(SyncSet, "counted", property(lambda self: frozenset([self._rules.own_id, *self.followers])))
    assert finds(leases, least_copies=1)


@KINDS
def test_the_checker_finds_that_only_the_known_set_counts(leases, monkeypatch):
    monkeypatch.setattr(SyncSet, "counted", property(lambda self: self.members))
    assert finds(leases, least_copies=1)


def test_the_checker_finds_a_lease_that_is_counted_from_the_answer(monkeypatch):
    def learned(self, standing, asked_at, now):
        return original(self, standing, None if asked_at is None else now, now)

    original = Machine.learned
    assert not finds(True, slow=True)
    monkeypatch.setattr(Machine, "learned", learned)
    assert "serves after its lease" in finds(True, slow=True)
