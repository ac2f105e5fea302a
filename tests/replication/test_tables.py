"""The tables of a slave follow those of its master, and are never ahead of its log."""

from __future__ import annotations

import asyncio

import pytest
from ha_pairs import end, put, service, simulate_pair

from gantrymq.errors import FormatError
from gantrymq.loose_json import loads
from gantrymq.model.queue import Queue
from gantrymq.model.topic import TopicConfig
from gantrymq.world.clock import Clock, TimeSlices
from gantrymq_replication import tables
from gantrymq_replication.slave import SlaveService
from gantrymq_replication.table_answers import MasterTables, limit_offsets, members_of, snapshot_of
from gantrymq_replication.tables import TablesService


class Still(Clock):
    """A clock that stands still."""

    def monotonic(self):
        return 0.0


def given(offsets=None, delays=None, modes=None):
    table = {"offsetTable": offsets or {}, "groupTopicMap": {}}
    delays = None if delays is None else {"offsetTable": delays}
    return MasterTables({"topicConfigTable": {}}, {"subscriptionGroupTable": {}}, table, delays, modes)


def limited(found, ends):
    slices = TimeSlices(Still(), 10**9)
    return asyncio.run(limit_offsets(found, lambda queue: ends.get(queue, 0), slices))


def test_offsets_beyond_the_log_become_its_end():
    found = given({"T@G": {0: 5, 1: 7}, "U@G": {0: 3}}, {3: 9, 4: 1})
    ends = {Queue("T", 0): 5, Queue("T", 1): 6, Queue("SCHEDULE_TOPIC_XXXX", 2): 8, Queue("SCHEDULE_TOPIC_XXXX", 3): 2}
    assert limited(found, ends) == 3
    assert found.offsets["offsetTable"] == {"T@G": {0: 5, 1: 6}, "U@G": {0: 0}}
    assert found.delays["offsetTable"] == {3: 8, 4: 1}


@pytest.mark.parametrize("offsets", [{"T@G": 5}, {"T@G": {"x": 1}}, {"T@G": {0: None}}, [1]])
def test_offsets_that_are_none_are_refused(offsets):
    with pytest.raises(FormatError, match="the master's"):
        limited(given(offsets), {})


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff"])
def test_an_answer_that_is_no_object_is_refused(body):
    with pytest.raises(FormatError, match="the master's topics"):
        members_of(body, "topics")


def test_a_snapshot_has_the_files_that_the_master_has_tables_of():
    files = snapshot_of(given({"T@G": {0: 5}}, {3: 9})).files
    assert sorted(files) == [
        "consumerOffset.json",
        "delayOffset.json",
        "subscriptionGroup.json",
        "timercheck",
        "topics.json",
    ]
    assert loads(files["consumerOffset.json"]) == {"offsetTable": {"T@G": {0: 5}}}
    assert "messageRequestMode.json" in snapshot_of(given(modes={"messageRequestModeMap": {}})).files


# --- pairs ------------------------------------------------------------------------------------------------------------


def copied(slave):
    return service(slave, TablesService)


async def start(pair, **settings):
    master = await pair.start("master", **settings)
    master.broker.topics.update(TopicConfig("Orders", 4, 4), {})
    slave = await pair.start("slave", master.namesrv, brokerRole="SLAVE", brokerId=1)
    await pair.until(lambda: copied(slave).rounds, "a first round")
    return master, slave


def committed(cluster, topic="Orders", queue=0):
    return cluster.broker.offsets.committed("G", Queue(topic, queue))


def test_topics_and_offsets_are_on_the_slave_within_two_seconds():
    async def main(pair):
        master, slave = await start(pair)
        await put(master, 8)
        master.broker.offsets.commit("G", Queue("Orders", 0), 2)
        await pair.until(lambda: slave.broker.topics.get("Orders") == master.broker.topics.get("Orders"), "topic", 2)
        await pair.until(lambda: committed(slave) == 2, "offset", 2)
        master.broker.topics.update(TopicConfig("Orders", 6, 6), {})
        await pair.until(lambda: slave.broker.topics.get("Orders").read_queues == 6, "change", 2)

    simulate_pair(main)


def test_an_offset_waits_for_the_log():
    async def main(pair):
        master, slave = await start(pair)
        await put(master, 8)
        await pair.until(lambda: end(slave) == end(master), "copy")
        copying = service(slave, SlaveService)
        await copying.stop()
        copied(slave).followed = lambda: copied(slave).master
        await put(master, 8)
        master.broker.offsets.commit("G", Queue("Orders", 0), 4)
        await pair.until(lambda: committed(slave) == 2, "the end of the slave's queue")
        rounds = copied(slave).rounds
        await pair.until(lambda: copied(slave).rounds > rounds + 2, "rounds")
        assert committed(slave) == 2
        await copying.start(slave.broker)
        await pair.until(lambda: committed(slave) == 4, "offset", 3)

    simulate_pair(main)


def test_what_clients_commit_while_the_master_is_away_is_handed_over():
    async def main(pair):
        master, slave = await start(pair)
        master.broker.groups.require("G")
        await put(master, 40)
        queues = [Queue("Orders", number) for number in range(3)]
        for queue in queues:
            master.broker.offsets.commit("G", queue, 3)
        await pair.until(lambda: [committed(slave, queue=number) for number in range(3)] == [3] * 3, "offsets")
        follows, copied(slave).followed = copied(slave).followed, lambda: None
        slave.broker.offsets.commit("G", queues[0], 5)
        slave.broker.offsets.commit("G", queues[0], 6)
        slave.broker.offsets.commit("G", queues[1], 5)
        slave.broker.offsets.commit("Gone", queues[1], 5)  # a group that the master does not have
        master.broker.offsets.commit("G", queues[1], 7)
        copied(slave).followed = follows
        rounds = copied(slave).rounds
        await pair.until(lambda: copied(slave).rounds > rounds + 2, "rounds")
        for cluster in (master, slave):
            assert [committed(cluster, queue=number) for number in range(3)] == [6, 7, 3]
        master.broker.offsets.commit("G", queues[0], 2)  # as a reset backwards: it is not undone
        await pair.until(lambda: committed(slave) == 2, "the lower offset")
        assert committed(master) == 2

    simulate_pair(main)


def test_pages_are_put_together(monkeypatch):
    monkeypatch.setattr(tables, "_PAGE", 3)

    async def main(pair):
        master, slave = await start(pair)
        for number in range(10):
            master.broker.topics.update(TopicConfig(f"T{number}", 1, 1), {})
        await pair.until(lambda: all(slave.broker.topics.get(f"T{number}") for number in range(10)), "topics", 3)
        rounds = copied(slave).rounds
        await pair.until(lambda: copied(slave).rounds > rounds + 1, "second reading")
        asked = []
        page = TablesService._page

        async def noted(self, *args):
            asked.append(args[3])
            return await page(self, *args)

        monkeypatch.setattr(TablesService, "_page", noted)
        rounds = copied(slave).rounds
        await pair.until(lambda: copied(slave).rounds > rounds + 1, "rounds")
        assert set(asked) == {0}, "a table whose version is known was read again"

    simulate_pair(main)


def test_without_a_change_nothing_is_saved():
    async def main(pair):
        master, slave = await start(pair)
        await pair.world.clock.sleep(5)
        installed = []
        service_of_slave = copied(slave)
        install = slave.broker.tables.install

        async def noted(snapshot):
            installed.append(snapshot)
            await install(snapshot)

        service_of_slave._broker = _With(slave.broker, noted)
        rounds = service_of_slave.rounds
        await pair.until(lambda: service_of_slave.rounds > rounds + 3, "rounds")
        assert not installed
        master.broker.topics.update(TopicConfig("New", 1, 1), {})
        await pair.until(lambda: installed, "install", 2)

    simulate_pair(main)


class _With:
    """A broker with another `tables.install`."""

    def __init__(self, broker, install):
        self._broker, self.tables = broker, type("Tables", (), {"install": staticmethod(install)})

    def __getattr__(self, name):
        return getattr(self._broker, name)


def test_a_master_that_is_away_is_named_and_comes_back():
    async def main(pair):
        _, slave = await start(pair)
        address = copied(slave).master
        copied(slave).followed = lambda: "127.0.0.1:9"
        await pair.until(lambda: "127.0.0.1:9" in copied(slave).problem, "problem")
        copied(slave).followed = lambda: address
        await pair.until(lambda: not copied(slave).problem, "recovery", 3)

    simulate_pair(main)


def test_a_slave_that_does_not_follow_takes_no_tables():
    async def main(pair):
        master, slave = await start(pair)
        await service(slave, SlaveService).stop()
        master.broker.topics.update(TopicConfig("New", 1, 1), {})
        rounds = copied(slave).rounds
        await pair.world.clock.sleep(10)
        assert copied(slave).rounds <= rounds + 1
        assert slave.broker.topics.get("New") is None

    simulate_pair(main)


def test_a_slave_that_becomes_the_master_has_topics_and_offsets():
    async def main(pair):
        master, slave = await start(pair)
        await put(master, 40)
        for queue in range(4):
            master.broker.offsets.commit("G", Queue("Orders", queue), 7)
        await pair.until(lambda: all(committed(slave, queue=queue) == 7 for queue in range(4)), "offsets")
        topics = master.broker.topics.get("Orders")
        await master.stop()
        await slave.stop()
        promoted = await pair.start("slave")
        assert promoted.broker.topics.get("Orders") == topics
        assert [committed(promoted, queue=queue) for queue in range(4)] == [7] * 4
        await put(promoted, 4)
        assert promoted.store.bounds(Queue("Orders", 0)).max_offset == 11

    simulate_pair(main)


def test_what_was_copied_is_in_the_files_of_the_slave():
    async def main(pair):
        master, slave = await start(pair)
        await put(master, 8)
        master.broker.offsets.commit("G", Queue("Orders", 0), 2)
        await pair.until(lambda: committed(slave) == 2, "offset")
        folder = slave.broker.root / "config"
        topics = loads(pair.world.files.read(folder / "topics.json"))
        assert topics["dataVersion"] == master.server.tables.topics.version.to_json()
        assert loads(pair.world.files.read(folder / "consumerOffset.json"))["offsetTable"] == {"Orders@G": {0: 2}}

    simulate_pair(main)
