"""Metrics of brokers with elected roles."""

import pytest

pytest.importorskip("gantrymq_replication")

from elected_brokers import LEASE_S, elected, leads, members, simulate_brokers, two_in_sync
from ha_pairs import end, put

E, R = "gantrymq_election_", "gantrymq_replication_"


@pytest.fixture
def run(monkeypatch):
    """Run ``main(brokers)``."""
    return lambda main: simulate_brokers(main, monkeypatch)


def family(cluster, name):
    return next(each for each in cluster.broker.metrics.of_plugins() if each.name == name)


def value(cluster, name, *labels):
    return family(cluster, name).values[labels]


def role(cluster):
    (found,) = [label for (label,), value in family(cluster, E + "role").values.items() if value]
    return found


def test_a_set_of_two_and_its_engine(run):
    async def main(brokers):
        one, two = await two_in_sync(brokers, minInSyncReplicas=2)
        await put(one, 20)
        await brokers.until(lambda: elected(two).copy.followed and end(one) == end(two), "copy")
        await brokers.pair.world.clock.sleep(1)
        assert (role(one), role(two)) == ("master", "slave")
        for each in (one, two):
            assert value(each, E + "epoch") == 1 and value(each, E + "confirm_lag_bytes") == 0
            assert value(each, E + "engine_silent_seconds") < 2
        copies = [E + "in_sync_brokers", R + "in_sync_copies", R + "wanted_copies"]
        assert [value(one, each) for each in copies] == [2, 2, 2]
        assert 0 < value(one, E + "lease_left_seconds") <= LEASE_S and value(two, E + "lease_left_seconds") == 0
        assert value(one, R + "slaves") == 1 and [*family(one, R + "lag_bytes").values.values()] == [0]
        assert value(one, R + "sent_bytes_total") == end(one) < value(two, R + "received_bytes_total")
        assert value(one, R + "not_following") == value(two, R + "not_following") == 0
        assert (value(one, E + "elections_total"), value(two, E + "elections_total")) == (1, 0)

        # The engine is gone: the master is fenced, and says so.
        waited = value(one, E + "without_master_seconds_total")
        brokers.etcd.down = True
        await brokers.until(lambda: role(one) == "fenced", "fence", LEASE_S)
        why = lambda: family(one, E + "role").sentences["fenced",]  # noqa: E731
        await brokers.until(lambda: "this master is fenced: etcd does not answer" in why(), "sentence", 2)
        await brokers.pair.world.clock.sleep(5)
        assert value(one, E + "engine_silent_seconds") > 5 and value(one, E + "engine_errors_total", "unreachable") > 1
        assert 5 < value(one, E + "without_master_seconds_total") - waited < 8
        assert value(one, E + "lease_left_seconds") == 0

        # It is back, without one of the brokers.
        await two.stop()
        brokers.etcd.down = False
        await brokers.until(lambda: role(one) == "master", "master", 10)
        await brokers.until(lambda: value(one, R + "in_sync_copies") == 1, "one copy", 10)
        assert value(one, E + "in_sync_brokers") == 2  # as many as minInSyncReplicas stay
        assert "1 in sync, minInSyncReplicas=2" in family(one, R + "wanted_copies").sentences[()]

    run(main)


def test_a_broker_that_does_not_follow_and_one_without_an_engine(run):
    async def main(brokers):
        one = await brokers.start("one")
        await brokers.until(lambda: leads(one), "master")
        learner = await brokers.start("learner", asyncLearner=True)
        await brokers.until(lambda: value(learner, R + "not_following") == 0, "copy")
        assert role(learner) == "learner" and members(one) == {1}
        await one.stop()
        await brokers.until(lambda: value(learner, R + "not_following") == 1, "no master", 20)
        await brokers.until(lambda: role(learner) == "none", "no master", 20)
        brokers.etcd.down = True
        other = await brokers.start("other")
        await brokers.until(lambda: "etcd does not answer" in str(family(other, E + "role").sentences), "sentence")
        assert role(other) == "none" and value(other, E + "epoch") == 0
        assert "etcd does not answer" in family(other, R + "not_following").sentences[()]

    run(main)


def test_a_slave_knows_when_it_last_heard_a_master_that_is_gone(run):
    async def main(brokers):
        one, two = await two_in_sync(brokers, minInSyncReplicas=2)
        await put(one, 20)
        await brokers.until(lambda: elected(two).copy.followed and end(one) == end(two), "copy")
        clock = brokers.pair.world.clock
        brokers.etcd.down = True  # nobody is elected
        stopped_ms = clock.now_ms()
        await one.stop()
        await clock.sleep(30)
        assert elected(two).copy.connection is None and elected(two).copy.followed is None
        assert stopped_ms - 10_000 < elected(two).copy.read_at_ms <= stopped_ms + 1000

    run(main)
