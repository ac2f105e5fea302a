"""The broker's role: what is refused, which services run, snapshots of all tables."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace

import attrs
import pytest
from broker_desk import records, run_broker, send_header, settings_for, topic_ext
from memory_transactions import MemoryTransactions

from gantrymq.broker.roles import Roles
from gantrymq.broker.tables import Tables
from gantrymq.broker.tables.snapshot import Snapshots
from gantrymq.errors import (
    FlushDiskTimeout,
    FlushSlaveTimeout,
    FormatError,
    InvalidParameter,
    RequestRefused,
    ServiceNotAvailable,
    SlaveNotAvailable,
)
from gantrymq.hooks import hookimpl
from gantrymq.interfaces import (
    EndTransaction,
    PutResult,
    PutStatus,
    RecallAnswer,
    RecallRequest,
    SendRequest,
    StoreMessage,
    TableSnapshot,
)
from gantrymq.loose_json import dumps, loads
from gantrymq.model.data_version import DataVersion
from gantrymq.model.group import GroupConfig
from gantrymq.model.queue import Queue
from gantrymq.model.role import Role
from gantrymq.model.topic import TopicConfig
from gantrymq.plugins import load_plugins
from gantrymq.world.real import real_world

TOPIC = topic_ext("A", 1)


class Recorded:
    """A service that records its starts and stops."""

    def __init__(self, name, told, roles=None):
        self.name, self.told = name, told
        if roles is not None:
            self.roles = roles
        self.failing = False

    async def start(self, broker):
        if self.failing:
            raise asyncio.CancelledError
        self.broker = broker
        self.told.append(f"+{self.name}")

    async def stop(self):
        self.told.append(f"-{self.name}")


@pytest.fixture
def services():
    told = []
    return [
        Recorded("a_writer", told),
        Recorded("b_copier", told, frozenset({Role.REPLICA})),
        Recorded("c_watcher", told, frozenset(Role)),
    ]


@pytest.fixture
def run(plugins, services):
    """``run(main)`` runs ``await main(desk, broker, told)`` against a broker with the services."""

    class Module:
        @hookimpl
        def gantry_register_services(self, registry):
            for each in services:
                registry.add(each)

    loaded = load_plugins(extra=[("recorded", Module())], installed=False)

    def run(main, **settings):
        together = attrs.evolve(plugins, services=(*plugins.services, *loaded.services))
        watcher = services[2]
        settings = {"slaveReadEnable": True, **settings}
        return run_broker(together, lambda desk: main(desk, watcher.broker, watcher.told), **settings)

    return run


def test_an_acting_master_serves_consumers_and_stores_elsewhere(run, services, caplog):
    caplog.set_level(logging.INFO)
    services[0].roles = frozenset({Role.MASTER, Role.ACTING_MASTER})
    sent = []

    async def outlet(messages, *, skip_interceptors=False):
        sent.append((list(messages), skip_interceptors))
        return [PutResult(PutStatus.OK, 0, 0, 0, 0)] * len(messages)

    async def main(desk, broker, told):
        assert (await desk.ask(17, TOPIC)).code == 0
        for _ in range(3):
            assert (await desk.send("A")).code == 0
        await broker.role.change(Role.REPLICA, 1)
        broker.role.store_elsewhere(outlet)
        message = StoreMessage("A", 0, b"due", b"")
        with pytest.raises(ServiceNotAvailable):
            await broker.messages.put_all([message])
        before = len(told)
        await broker.role.change(Role.ACTING_MASTER, 1)
        assert told[before:] == ["-b_copier", "+a_writer"]
        (result,) = await broker.messages.put_all([message], skip_interceptors=True)
        assert (result.status, sent) == (PutStatus.OK, [([message], True)])
        refused = await desk.send("A")
        assert (refused.code, "send to another broker name" in refused.remark) == (14, True)
        refused = await desk.ask(17, TOPIC)
        assert (refused.code, "the master is missing now" in refused.remark) == (1, True)
        assert "now a slave acting as master" in caplog.text
        assert (await desk.heartbeat("Fresh", "A")).code == 0
        assert broker.groups.get("Fresh") is not None and broker.topics.get("%RETRY%Fresh") is None
        answer = await desk.pull("A", 2, sysFlag=str(4 | 1), commitOffset="2")
        assert (answer.code, len(records(answer))) == (0, 1)
        assert broker.offsets.committed("CG", Queue("A", 0)) == 2
        beyond = await desk.pull("A", 9)  # its master may have more
        assert (beyond.code, beyond.ext["nextBeginOffset"]) == (20, "9")
        broker.role.store_elsewhere(None)
        with pytest.raises(ServiceNotAvailable):
            await broker.messages.put_all([message])
        await broker.role.change(Role.REPLICA, 1)
        assert told[before + 2 :] == ["-a_writer", "+b_copier"]

    run(main, slaveReadEnable=False)


def test_services_run_in_their_roles(run, services):
    async def main(desk, broker, told):
        assert (broker.role.current, broker.role.epoch) == (Role.MASTER, 0)
        assert told == ["+c_watcher", "+a_writer"]
        changes = []
        broker.role.on_changed(lambda role, epoch: changes.append((role, epoch)))
        await broker.role.change(Role.REPLICA, 3)
        assert told[2:] == ["-a_writer", "+b_copier"]
        await broker.role.change(Role.REPLICA, 3)
        await broker.role.change(Role.REPLICA, 4)
        with pytest.raises(InvalidParameter, match="epoch 3 is over: this broker is a REPLICA of 4"):
            await broker.role.change(Role.MASTER, 3)
        await broker.role.change(Role.MASTER, 4)
        assert told[4:] == ["-b_copier", "+a_writer"]
        assert changes == [(Role.REPLICA, 3), (Role.REPLICA, 4), (Role.MASTER, 4)]

    run(main)
    assert services[0].told[6:] == ["-a_writer", "-c_watcher"]


def test_a_service_may_stop_after_the_last_requests(run, services):
    last, answered = services[0], []
    last.stops_last = True

    async def stop():
        with pytest.raises(ServiceNotAvailable, match="the broker is stopping"):
            await last.broker.messages.put(StoreMessage("A", 0, b"late", b"", store_host=last.broker.store_host))
        answered.append("refused")
        last.told.append("-a_writer")

    last.stop = stop

    async def main(desk, broker, told):
        assert told == ["+a_writer", "+c_watcher"]

    run(main)
    assert last.told[2:] == ["-c_watcher", "-a_writer"]
    assert answered == ["refused"]


def test_changes_are_made_one_after_the_other(run):
    async def main(desk, broker, told):
        await asyncio.gather(
            broker.role.change(Role.REPLICA, 1), broker.role.change(Role.MASTER, 2), broker.role.change(Role.REPLICA, 3)
        )
        assert told[2:] == ["-a_writer", "+b_copier", "-b_copier", "+a_writer", "-a_writer", "+b_copier"]
        assert (broker.role.current, broker.role.epoch) == (Role.REPLICA, 3)

    run(main)


def test_a_service_may_change_the_role_while_it_starts(run, services):
    original = services[2].start

    async def start(broker):
        await original(broker)
        await broker.role.change(Role.REPLICA, 1)

    services[2].start = start

    async def main(desk, broker, told):
        assert told == ["+c_watcher", "+b_copier"]  # it precedes what only masters do
        assert (await desk.send("A")).code == 14

    run(main)


def test_a_service_that_fails_to_start_leaves_messages_refused(run, services):
    async def main(desk, broker, told):
        await broker.role.change(Role.REPLICA, 1)
        services[0].failing = True
        with pytest.raises(ServiceNotAvailable, match="a_writer failed to start as MASTER"):
            await broker.role.change(Role.MASTER, 2)
        assert broker.role.current is Role.MASTER
        answer = await desk.send("A")
        assert (answer.code, "a_writer failed to start" in answer.remark) == (14, True)
        assert desk.server.tables.stats.plugin_errors["service", "a_writer"] == 1
        services[0].failing = False
        await broker.role.change(Role.REPLICA, 3)
        await broker.role.change(Role.MASTER, 4)
        assert (await desk.ask(17, TOPIC)).code == 0
        assert (await desk.send("A")).code == 0

    run(main)


def test_a_replica_refuses_messages_and_operators_and_is_read(run):
    async def main(desk, broker, told):
        assert (await desk.ask(17, TOPIC)).code == 0
        header = send_header("A", properties="UNIQ_KEY\x01ID\x02").to_ext_v2()
        for number in range(3):  # so that the fast path knows them
            assert (await desk.ask(310, header, b"%d" % number)).code == 0
        await broker.role.change(Role.REPLICA, 1)
        stored = broker.store.state().max_log_offset
        for code, ext in ((310, header), (310, send_header("New").to_ext_v2()), (10, send_header("A").to_ext())):
            answer = await desk.ask(code, ext, b"body")
            assert (answer.code, "is a replica" in answer.remark) == (14, True)
        assert (await desk.send_batch("A", [(b"one", b""), (b"two", b"")])).code == 14
        assert (await desk.ask(36, {"group": "G", "offset": "0", "delayLevel": "0"})).code == 14
        with pytest.raises(ServiceNotAvailable):
            await broker.messages.put(StoreMessage("A", 0, b"plugin", b"", store_host=broker.store_host))
        for code, ext, body in (
            (17, topic_ext("Other", 1), None),
            (18, {}, {"topicConfigList": []}),
            (215, {"topic": "A"}, None),
            (200, {}, {"groupName": "G"}),
            (225, {}, {"groupConfigList": []}),
            (207, {"groupName": "G"}, None),
            (353, {"topic": "A", "group": "G", "readable": "false"}, None),
        ):
            answer = await desk.ask(code, ext, None if body is None else dumps(body))
            assert (answer.code, answer.remark.startswith("Can't modify topic")) == (1, True), code
        assert broker.store.state().max_log_offset == stored
        assert broker.topics.get("New") is None
        assert [bytes(each.body) for each in records(await desk.pull("A"))] == [b"0", b"1", b"2"]
        await broker.role.change(Role.MASTER, 2)
        assert (await desk.ask(310, header, b"3")).code == 0

    run(main)


def test_a_plugin_may_refuse_messages_of_plugins(run):
    async def main(desk, broker, told):
        assert (await desk.ask(17, TOPIC)).code == 0
        message = StoreMessage("A", 0, b"due", b"")
        broker.role.refuse_plugins("not now")
        with pytest.raises(ServiceNotAvailable, match="not now"):
            await broker.messages.put_all([message])
        assert (await desk.send("A")).code == 0
        broker.role.refuse_plugins("")
        (result,) = await broker.messages.put_all([message])
        assert result.status is PutStatus.OK

    run(main)


def test_a_plugin_may_refuse_messages_of_clients(run):
    async def main(desk, broker, told):
        header = send_header("A", properties="UNIQ_KEY\x01ID\x02").to_ext_v2()
        for _ in range(3):  # so that the fast path knows them
            assert (await desk.ask(310, header, b"before")).code == 0
        broker.role.refuse("too few copies")
        stored = broker.store.state().max_log_offset
        answer = await desk.ask(310, header, b"body")
        assert (answer.code, answer.remark) == (1, "too few copies")
        with pytest.raises(RequestRefused, match="too few copies"):
            await broker.messages.send(SendRequest("p", "A", b"x"))
        assert broker.store.state().max_log_offset == stored
        await broker.messages.put(StoreMessage("A", 0, b"of a plugin", b"", store_host=broker.store_host))
        broker.role.refuse("")
        assert (await desk.ask(310, header, b"after")).code == 0

    run(main)


class Unconfirming:
    """A gate that confirms nothing."""

    name = "unconfirming"

    def __init__(self, kind):
        self._kind = kind

    async def passed(self, log_offset):
        raise self._kind("stored")


@pytest.mark.parametrize(("kind", "code"), [(FlushDiskTimeout, 10), (SlaveNotAvailable, 11), (FlushSlaveTimeout, 12)])
def test_what_plugins_store_needs_the_disk_but_no_replicas(plugins, services, kind, code):
    """Senders are told what has not confirmed a message; plugins would store it again, or deliver nothing."""

    async def main(desk):
        broker = services[2].broker
        assert (await desk.ask(17, TOPIC)).code == 0
        answer = await broker.messages.send(SendRequest("p", "A", b"sent", queue_id=0))
        assert (type(answer.unconfirmed), answer.unconfirmed.response_code) == (kind, code)
        put = broker.messages.put(StoreMessage("A", 0, b"put", b"", store_host=broker.store_host))
        if code == 10:
            with pytest.raises(FlushDiskTimeout):
                await put
        else:
            assert (await put).queue_offset == 1
        assert [bytes(each.body) for each in records(await desk.pull("A"))] == [b"sent", b"put"]

    run_broker(attrs.evolve(plugins, services=(services[2],), gates=(Unconfirming(kind),)), main)


def test_a_replica_answers_operators_and_producers_with_rocketmqs_codes(run):
    async def main(desk, broker, told):
        assert (await desk.ask(17, TOPIC)).code == 0
        assert (await desk.ask(200, None, dumps({"groupName": "CG"}))).code == 0
        assert (await desk.send("A")).code == 0
        await broker.role.change(Role.REPLICA, 1)
        forbidden = await desk.ask(353, {"topic": "A", "group": "CG"})
        assert (forbidden.code, loads(forbidden.payload)["readable"]) == (0, True)
        offset = {"consumerGroup": "CG", "topic": "A", "queueId": "0", "commitOffset": "1"}
        assert (await desk.ask(15, offset)).code == 0
        assert broker.offsets.committed("CG", Queue("A", 0)) == 1
        with pytest.raises(ServiceNotAvailable):
            broker.messages.topic_for_send(SendRequest("PG", "New", b"x", peer=("1.2.3.4", 5), default_topic="TBW102"))
        with pytest.raises(ServiceNotAvailable, match="those of its master"):
            broker.topics.put(TopicConfig("New", 1, 1))
        assert broker.topics.get("New") is None

    run(main)


@pytest.mark.parametrize("code", [37, 370])
def test_a_replica_ends_no_transaction_and_recalls_nothing(plugins, services, code):
    """RocketMQ's code is 11 (SLAVE_NOT_AVAILABLE)."""

    class Recalls(Recorded):
        async def recall(self, request):
            return RecallAnswer("ID", None)

    recalls = Recalls("d_recalls", [])

    together = attrs.evolve(plugins, services=(services[2], recalls), transactions={"memory": MemoryTransactions})

    async def ended(broker):
        if code == 37:
            return await broker.messages.end_transaction(EndTransaction("PG", 0, 0, 8, False, "ID", None))
        return await broker.messages.recall(RecallRequest("A", "handle", "PG", b""))

    async def main(desk):
        broker = services[2].broker
        await broker.role.change(Role.REPLICA, 1)
        with pytest.raises(RequestRefused, match="is a replica") as refused:
            await ended(broker)
        assert refused.value.response_code == 11

    run_broker(together, main)


def test_a_pull_from_a_replica_commits_nothing_and_keeps_its_offset(run):
    async def main(desk, broker, told):
        assert (await desk.ask(17, TOPIC)).code == 0
        for _ in range(3):
            assert (await desk.send("A")).code == 0
        commit = {"sysFlag": str(4 | 1), "commitOffset": "1"}
        assert (await desk.pull("A", 1, **commit)).code == 0
        beyond = await desk.pull("A", 9)
        assert (beyond.code, beyond.ext["nextBeginOffset"]) == (21, "3")
        await broker.role.change(Role.REPLICA, 1)
        answer = await desk.pull("A", 2, **{**commit, "commitOffset": "2"})
        assert (answer.code, len(records(answer))) == (0, 1)
        assert broker.offsets.committed("CG", Queue("A", 0)) == 1
        beyond = await desk.pull("A", 9)  # a replica may be behind its master
        assert (beyond.code, beyond.ext["nextBeginOffset"]) == (20, "9")

    run(main)


def test_a_replica_creates_no_group_and_no_retry_topic(run):
    async def main(desk, broker, told):
        assert (await desk.ask(17, TOPIC)).code == 0
        assert (await desk.send("A")).code == 0
        await broker.role.change(Role.REPLICA, 1)
        topics, groups = set(broker.topics.view), set(broker.groups.view)
        versions = desk.tables.topics.version, desk.tables.groups.version
        assert (await desk.heartbeat("Fresh", "A")).code == 0
        assert [each.client_id for each in broker.clients.consumers("Fresh")] == ["c1"]
        assert len(records(await desk.pull("A", consumerGroup="Other"))) == 1
        desk.tables.topics.mark_ordered(["A"])
        assert (set(broker.topics.view), set(broker.groups.view)) == (topics, groups)
        assert (desk.tables.topics.version, desk.tables.groups.version) == versions
        assert not broker.topics.get("A").order
        await broker.role.change(Role.MASTER, 2)
        assert (await desk.heartbeat("Fresh", "A")).code == 0
        assert broker.groups.get("Fresh") is not None
        assert broker.topics.get("%RETRY%Fresh") is not None

    run(main)


def test_removed_listeners_are_not_called(run):
    async def main(desk, broker, told):
        heard = []
        parts = (broker.topics.on_deleted, broker.groups.on_deleted, broker.clients.on_gone)
        more = (broker.clients.on_group_changed, broker.clients.on_heartbeat, broker.messages.on_acknowledged)
        ends = [on(lambda *event: heard.append(event)) for on in (*parts, *more, broker.role.on_changed)]
        for end in (*ends, *ends):
            end()
        assert (await desk.ask(17, TOPIC)).code == 0
        assert (await desk.send("A")).code == 0
        assert (await desk.heartbeat("CG", "A")).code == 0
        assert (await desk.ask(215, {"topic": "A"})).code == 0
        assert (await desk.ask(207, {"groupName": "CG", "cleanOffset": "true"})).code == 0
        await broker.role.change(Role.REPLICA, 1)
        await desk.client.close()
        await broker.world.clock.sleep(1)
        assert heard == []

    run(main)


def test_a_service_may_not_wait_for_a_change_during_another(run, services, caplog):
    """It would wait for itself. In a task of its own it changes the role afterwards."""
    original, tasks = services[1].start, []

    async def start(broker):
        await original(broker)
        if services[1].awaits:
            await broker.role.change(Role.MASTER, 9)
        tasks.append(asyncio.ensure_future(broker.role.change(Role.MASTER, 5)))

    services[1].start, services[1].awaits = start, True

    async def main(desk, broker, told):
        with pytest.raises(ServiceNotAvailable, match="b_copier failed to start as REPLICA"):
            await asyncio.wait_for(broker.role.change(Role.REPLICA, 1), 60)
        assert "may not wait for a change of the role" in caplog.text
        assert (broker.role.current, broker.role.epoch) == (Role.REPLICA, 1)
        await broker.role.change(Role.MASTER, 2)
        services[1].awaits = False
        await broker.role.change(Role.REPLICA, 3)
        await tasks[0]
        assert (broker.role.current, broker.role.epoch) == (Role.MASTER, 5)
        assert told[2:] == ["-a_writer", "+b_copier", "+a_writer", "-a_writer", "+b_copier", "-b_copier", "+a_writer"]

    run(main)


def test_a_change_waits_for_services_that_start_with_the_broker(run, services):
    """Otherwise it would stop one in the middle of its start, which would then run on a replica."""
    original, tasks = services[0].start, []

    async def start(broker):
        tasks.append(asyncio.ensure_future(broker.role.change(Role.REPLICA, 1)))
        await broker.world.clock.sleep(5)
        await original(broker)

    services[0].start = start

    async def main(desk, broker, told):
        await tasks[0]
        assert told == ["+c_watcher", "+a_writer", "-a_writer", "+b_copier"]

    run(main)


def test_services_of_a_new_master_may_have_to_wait(run):
    async def main(desk, broker, told):
        may_start = asyncio.Event()
        assert (await desk.ask(17, TOPIC)).code == 0
        broker.role.start_services_after(may_start.wait)
        await broker.role.change(Role.REPLICA, 1)
        told.clear()
        await broker.role.change(Role.MASTER, 2)
        assert (await desk.send("A")).code == 0
        assert told == ["-b_copier"]
        await broker.role.change(Role.REPLICA, 3)  # it was the master for too short a time
        may_start.set()
        await broker.world.clock.sleep(1)
        assert told == ["-b_copier", "+b_copier"]
        told.clear()
        await broker.role.change(Role.MASTER, 4)
        await broker.world.clock.sleep(1)
        assert told == ["-b_copier", "+a_writer"]

    run(main)


@pytest.mark.parametrize("limited", [False, True])
def test_a_new_master_whose_log_is_older_than_its_tables_skips_no_message(run, limited):
    async def main(desk, broker, told):
        assert (await desk.ask(17, TOPIC)).code == 0
        assert (await desk.ask(200, None, dumps({"groupName": "CG"}))).code == 0
        for _ in range(3):
            assert (await desk.send("A")).code == 0
        broker.offsets.commit("CG", Queue("A", 0), 3)
        tables, log = await broker.tables.snapshot(), broker.store.raw_log
        await broker.role.change(Role.REPLICA, 1)
        await log.truncate(records(await desk.pull("A"))[1].log_offset)
        await broker.tables.install(tables)
        log.limit_visibility(1 if limited else None)
        await broker.role.change(Role.MASTER, 2)
        assert broker.offsets.committed("CG", Queue("A", 0)) == (3 if limited else 1)
        log.limit_visibility(None)
        await broker.world.clock.sleep(0.1)
        assert broker.offsets.committed("CG", Queue("A", 0)) == 1

    run(main)


def test_a_pull_beyond_what_a_master_may_show_waits_for_it(run):
    """A consumer of the former master may be ahead of what the new one may show; it must not begin again there."""

    async def main(desk, broker, told):
        assert (await desk.ask(17, TOPIC)).code == 0
        log = broker.store.raw_log
        assert (await desk.send("A")).code == 0
        log.limit_visibility(log.log_range().max_offset)
        for _ in range(2):
            assert (await desk.send("A")).code == 0
        answer = await desk.pull("A", 2)
        assert (answer.code, answer.ext["nextBeginOffset"]) == (19, "2")
        pull = asyncio.ensure_future(desk.pull("A", 2, wait_s=5))
        await broker.world.clock.sleep(1)
        assert not pull.done()
        log.limit_visibility(None)
        assert len(records(await pull)) == 1
        answer = await desk.pull("A", 4)
        assert (answer.code, answer.ext["nextBeginOffset"]) == (21, "3")

    run(main)


def test_sends_under_way_are_stored_or_refused(run):
    async def main(desk, broker, told):
        assert (await desk.ask(17, TOPIC)).code == 0
        header = send_header("A").to_ext_v2()
        answers = []
        for turn in range(20):
            tasks = [desk.later(310, header, b"%d.%d" % (turn, n)) for n in range(8)]
            change = asyncio.ensure_future(broker.role.change(Role.REPLICA if turn % 2 else Role.MASTER, turn))
            answers += [(await task).code for task in tasks]
            await change
        assert set(answers) == {0, 14}
        bodies, offset = [], 0
        while found := records(await desk.pull("A", offset)):
            bodies += [bytes(each.body) for each in found]
            offset += len(found)
        assert len(bodies) == answers.count(0)

    run(main)


def test_tables_are_installed_on_a_replica(run):
    """What the second broker had of its own goes; the result equals the first one's and survives a restart."""
    taken = []

    async def source(desk, broker, told):
        for number in range(30):
            broker.topics.put(TopicConfig(f"T{number}", 2, 2, attributes={"message.type": "NORMAL"}))
        for number in range(5):
            broker.groups.put(GroupConfig(f"G{number}", retry_queues=2))
            for queue_id in range(2):
                broker.offsets.commit(f"G{number}", Queue("T1", queue_id), 0)
        with pytest.raises(InvalidParameter, match="make this broker a replica first"):
            await broker.tables.install(await broker.tables.snapshot())
        taken.append(await broker.tables.snapshot())

    async def target(desk, broker, told):
        broker.topics.put(TopicConfig("Mine", 1, 1))
        broker.topics.put(TopicConfig("T1", 9, 9))
        broker.groups.put(GroupConfig("MyGroup"))
        assert (await desk.send("Mine")).code == 0
        await broker.role.change(Role.REPLICA, 1)
        await broker.tables.install(taken[0])
        assert broker.topics.get("Mine") is None
        assert Queue("Mine", 0) not in list(broker.store.queues())
        assert broker.topics.get("T1").write_queues == 2
        assert broker.groups.get("MyGroup") is None
        again = await broker.tables.snapshot()
        assert {name: loads(text) for name, text in again.files.items()} == {
            name: loads(text) for name, text in taken[0].files.items()
        }
        saved = broker.world.files.read(broker.root / "config/topics.json").decode()
        assert loads(saved) == loads(taken[0].files["topics.json"])

    run(source)
    run(target)


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        ({}, "no topics.json"),
        ({"topics.json": "{", "subscriptionGroup.json": "{}", "consumerOffset.json": "{}"}, "topics.json is not JSON"),
        ({"topics.json": "[]"}, "topics.json is not an object"),
        (
            {"topics.json": '{"topicConfigTable": 3}', "subscriptionGroup.json": "{}", "consumerOffset.json": "{}"},
            "topicConfigTable",
        ),
    ],
)
def test_a_damaged_snapshot_changes_nothing(run, files, sentence):
    async def main(desk, broker, told):
        broker.topics.put(TopicConfig("Mine", 1, 1))
        await broker.role.change(Role.REPLICA, 1)
        with pytest.raises(FormatError, match=sentence):
            await broker.tables.install(TableSnapshot(files))
        assert broker.topics.get("Mine") is not None

    run(main)


def test_retention_of_a_replica_waits_for_its_plugin():
    floors = []
    log = SimpleNamespace(retain_from=floors.append)
    roles = Roles(log, lambda: None, lambda kind, name: None)
    (floor,) = floors

    async def main():
        assert floor() > 1 << 60  # a master's retention is not held up
        await roles.change(Role.REPLICA, 1)
        assert floor() == 0
        roles.keep_from(lambda: 7)
        assert floor() == 7
        await roles.change(Role.MASTER, 2)
        assert floor() > 1 << 60

    asyncio.run(main())


class Saved:
    """State files that are always saved."""

    def topics_changed(self, name):
        pass

    groups_changed = offsets_due = lambda self: None

    async def saved(self, *, offsets):
        pass


def test_large_tables_are_copied_in_short_steps(plugins, longest_step):
    """5,000 topics, 2,000 groups, 40,000 offsets."""

    async def deleted(name):
        pass

    async def main():
        world, settings = real_world(), settings_for(plugins)
        source, target = Tables(world, settings), Tables(world, settings)
        both = [
            Snapshots(world, each, Saved(), (), lambda: Role.REPLICA, deleted, lambda topic: None, lambda: None)
            for each in (source, target)
        ]
        source.topics.load({f"T{n}": TopicConfig(f"T{n}", 8, 8) for n in range(5000)}, DataVersion(counter=3))
        source.groups.load({f"G{n}": GroupConfig(f"G{n}") for n in range(2000)}, {}, DataVersion(counter=4))
        offsets = {f"T{n}@G{n % 2000}": dict.fromkeys(range(8), n) for n in range(5000)}
        source.offsets.load(offsets, DataVersion(counter=5))
        try:
            await asyncio.sleep(0)
            longest_step[0] = 0.0
            snapshot = await both[0].snapshot()
            await both[1].install(snapshot)
            longest = longest_step[0]
            assert (await both[1].snapshot()).files == snapshot.files
        finally:
            await world.workers.close()
        return target, longest

    target, longest = asyncio.run(main())
    assert (len(target.topics.view), len(target.groups.view), len(target.offsets.table)) == (5000, 2000, 5000)
    assert longest < 0.04


@pytest.mark.parametrize(
    ("change", "told", "saved"),
    [
        ({"consumerOffset.json": '{"offsetTable":{"T@G":{0:9}}}'}, 0, 0),
        ({"topics.json": '{"topicConfigTable":{"U":{}}}'}, 1, 0),
        ({"topics.json": '{"dataVersion":{"counter":9},"topicConfigTable":{"T":{}}}'}, 1, 0),
        ({"subscriptionGroup.json": '{"subscriptionGroupTable":{"G":{},"H":{}}}'}, 0, 1),
        ({"subscriptionGroup.json": '{"forbiddenTable":{"G":{"T":2}},"subscriptionGroupTable":{"G":{}}}'}, 0, 1),
        ({"subscriptionGroup.json": '{"subscriptionGroupTable":{}}'}, 0, 1),
    ],
)
def test_name_servers_are_told_only_of_changed_topics_and_groups_saved_only_if_changed(plugins, change, told, saved):
    files = {
        "topics.json": '{"topicConfigTable":{"T":{}}}',
        "subscriptionGroup.json": '{"subscriptionGroupTable":{"G":{}}}',
        "consumerOffset.json": '{"offsetTable":{"T@G":{0:1}}}',
    }
    counts = [0, 0]

    class Counting(Saved):
        def keep(self, name, text):
            pass

        def groups_changed(self):
            counts[1] += 1

    def registered():
        counts[0] += 1

    async def main():
        world = real_world()
        tables = Tables(world, settings_for(plugins))

        async def delete(name):
            tables.topics.delete(name)

        snapshots = Snapshots(
            world, tables, Counting(), (), lambda: Role.REPLICA, delete, lambda topic: None, registered
        )
        try:
            await snapshots.install(TableSnapshot(files))
            counts[:] = [0, 0]
            await snapshots.install(TableSnapshot({**files, **change}))
        finally:
            await world.workers.close()

    asyncio.run(main())
    assert counts == [told, saved]


def test_a_send_that_waits_for_its_new_topic_is_refused_by_a_replica(run):
    async def main(desk, broker, told):
        changes = []

        def created(topic):
            if topic.name == "Fresh":
                changes.append(asyncio.ensure_future(broker.role.change(Role.REPLICA, 1)))

        desk.server.tables.topics.on_change(created)
        task = desk.later(310, send_header("Fresh").to_ext_v2(), b"x")
        while not changes:
            await broker.world.clock.sleep(0.0001)
        await changes[0]
        end = broker.store.state().max_log_offset
        answer = await task
        stored = broker.store.state().max_log_offset
        assert stored == end
        assert answer.code == (0 if end else 14)

    run(main)


def test_what_a_service_puts_while_it_stops_is_stored_before_the_copy_starts(run, services):
    ends, stopping = [], services[0].stop

    async def stop():
        await stopping()
        if not ends:
            message = StoreMessage("A", 0, b"last", b"", store_host=services[0].broker.store_host)
            services[0].last = services[0].broker.messages.put_all([message])

    async def start(broker):
        ends.append(broker.store.state().max_log_offset)

    services[0].stop, services[1].start = stop, start

    async def main(desk, broker, told):
        assert (await desk.ask(17, TOPIC)).code == 0
        await broker.role.change(Role.REPLICA, 1)
        await services[0].last
        assert ends == [broker.store.state().max_log_offset]
        assert ends[0] > 0

    run(main)


def test_a_service_that_fails_to_stop_leaves_messages_refused(run, services):
    stopping = services[1].stop

    async def stop():
        services[1].stop = stopping
        raise RuntimeError("still copying")

    services[1].stop = lambda: services[1].failing_stop()
    services[1].failing_stop = stop

    async def main(desk, broker, told):
        assert (await desk.ask(17, TOPIC)).code == 0
        await broker.role.change(Role.REPLICA, 1)
        with pytest.raises(ServiceNotAvailable, match="b_copier failed to stop as MASTER"):
            await broker.role.change(Role.MASTER, 2)
        assert (await desk.send("A")).code == 14

    run(main)
