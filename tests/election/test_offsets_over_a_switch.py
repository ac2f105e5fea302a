"""Committed offsets of elected brokers: at slaves that serve, and over a change of the master."""

import pytest

pytest.importorskip("gantrymq_replication")

from elected_brokers import elected, leads, members, simulate_brokers, two_in_sync
from ha_pairs import put, service

from gantrymq.model.queue import Queue
from gantrymq.model.topic import TopicConfig
from gantrymq_replication.own_commits import OwnCommits

QUEUE = Queue("Orders", 0)


def committed(cluster):
    return cluster.broker.offsets.committed("G", QUEUE)


def test_what_is_committed_at_a_slave_is_handed_over(monkeypatch):
    async def main(brokers):
        one, two = await two_in_sync(brokers, slaveReadEnable=True)
        one.broker.topics.put(TopicConfig("Orders", 4, 4))
        await put(one, 40)
        one.broker.groups.require("G")
        one.broker.offsets.commit("G", QUEUE, 2)
        await brokers.until(lambda: committed(two) == 2, "copy")
        two.broker.offsets.commit("G", QUEUE, 5)
        await brokers.until(lambda: committed(one) == 5, "offset of the slave", 3)
        await brokers.until(lambda: not service(two, OwnCommits).offsets, "answer", 1)
        two.broker.offsets.commit("G", QUEUE, 6)
        await one.stop()
        await brokers.until(lambda: leads(two), "successor")
        assert committed(two) == 6
        assert not service(two, OwnCommits).offsets
        two.broker.offsets.commit("G", QUEUE, 7)
        one = await brokers.start("one", slaveReadEnable=True)
        await brokers.until(lambda: members(two) == {1, 2} and committed(one) == 7, "copy back")

    simulate_brokers(main, monkeypatch)


def test_offsets_beyond_the_log_are_clamped_when_all_of_it_is_visible(monkeypatch):
    async def main(brokers):
        one = await brokers.start("one")
        await brokers.until(lambda: leads(one), "master")
        await put(one, 40)
        await one.stop()
        one = await brokers.start("one")
        one.server.tables.offsets.load({"Orders@G": {0: 12}}, one.server.tables.offsets.version)
        await brokers.until(lambda: leads(one), "master")
        await brokers.until(lambda: committed(one) == 10, "clamped offset", 3)
        assert elected(one).confirmed == one.store.raw_log.log_range().max_offset

    simulate_brokers(main, monkeypatch)
