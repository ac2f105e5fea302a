"""One plugin uses all that a broker offers to plugins."""

from __future__ import annotations

import asyncio

import attrs
import everything
import pytest
from broker_desk import ADDRESS, records, run_broker

from gantrymq.errors import ConnectionLost, NoPermission, RequestRefused, TopicNotExist
from gantrymq.interfaces import PullRequest, PutStatus, SendRequest, StoreMessage
from gantrymq.loose_json import dumps
from gantrymq.model.queue import MessageQueue
from gantrymq.model.subscription import Subscription
from gantrymq.model.sys_flag import PULL_SUBSCRIPTION, PULL_SUSPEND
from gantrymq.model.topic import TopicConfig
from gantrymq.plugins import load_plugins
from gantrymq.remoting.command import request


@pytest.fixture
def run(plugins):
    """``run(main)`` runs ``await main(desk, copier)`` against a broker with the plugin."""
    loaded = load_plugins(extra=[("everything", everything)], installed=False)

    def run(main):
        with_it = attrs.evolve(loaded, stores=plugins.stores)
        return run_broker(with_it, lambda desk: main(desk, everything.copier))

    return run


async def topics(desk):
    for name in "AB":
        everything.copier.broker.topics.put(TopicConfig(name, 1, 1))
    await desk.heartbeat("CG", "B")


def test_messages_are_copied_by_its_operations(run):
    async def main(desk, copier):
        await topics(desk)
        for body in (b"one", b"two"):
            await desk.send("A", body)
        ends = desk.server.store.state().max_log_offset
        assert await copier.copy("CG") == (True, 2, [])
        copies = [bytes(each.body) for each in records(await desk.pull("B"))]
        assert copies == [b"0 of 2", b"1 of 2", b"done"]
        first, second, _ = desk.server.store.scan(ends, desk.server.store.state().max_log_offset)
        assert first.log_offset + first.size == second.log_offset
        assert copier.woken == 1
        assert [each[:1] for each in copier.told] == [("heard",), ("subscribed",), ("arrived",), ("arrived",)]
        assert copier.told[:2] == [("heard", "c1"), ("subscribed", "CG")]

    run(main)


def test_listeners_get_repeated_one_way_commits_and_the_others(run):
    async def main(desk, copier):
        await topics(desk)
        await desk.send("A")
        await desk.heartbeat("CG", "A")
        connection = await desk.client.connect(ADDRESS)
        heard = []

        async def commit(offset):
            place = {"consumerGroup": "CG", "topic": "A", "queueId": "0"}
            connection.oneway(request(15, {**place, "commitOffset": offset}, oneway=True))
            return (await desk.ask(14, place)).ext

        assert [await commit("1"), await commit("1")] == [{"offset": "1"}] * 2
        remove = copier.broker.offsets.on_committed(lambda group, queue, at: heard.append(at))
        assert [await commit("1"), await commit("0")] == [{"offset": "1"}, {"offset": "0"}]
        remove()
        assert await commit("0") == {"offset": "0"}
        assert heard == [1, 0]

    run(main)


def test_who_reads_for_a_group_keeps_its_place_and_its_counters(run):
    async def main(desk, copier):
        await topics(desk)
        broker, queue = copier.broker, everything.FROM
        assert broker.groups.require("New").name == "New"
        assert (broker.clients.consumer_group("CG").message_model, broker.clients.consumer_group("New")) == (
            "CLUSTERING",
            None,
        )
        await desk.send("A", b"one")
        desk.tables.offsets.reset("CG", queue, 0)
        assert [broker.offsets.take_reset("CG", queue) for _ in range(2)] == [0, None]
        broker.metrics.count_delivery("CG", "A", 3, 300)
        assert (desk.tables.stats.got.total, desk.tables.stats.got.bytes) == (3, 300)
        desk.tables.stats.sample(0.0)
        desk.tables.stats.sample(30.0)
        assert broker.metrics.put_per_s("A") == pytest.approx(1 / 30, rel=0.01)
        assert broker.metrics.got_per_s("A") == broker.metrics.got_per_s("A", "CG") == pytest.approx(0.1, rel=0.01)
        assert broker.metrics.got_per_s("A", "New") == 0
        assert [each.queue_id for each in await broker.registration.cluster_queues("A")] == [0]
        with pytest.raises(RequestRefused, match="no installed plugin offers the allocation strategy STICKY"):
            broker.allocation("STICKY")
        assert broker.allocation("AVG").name == "AVG"

    run(main)


def test_a_queue_that_another_client_holds_is_left_alone(run):
    async def main(desk, copier):
        await topics(desk)
        queue = MessageQueue("B", "broker-a", 0)
        assert copier.broker.locks.lock("CG", "other", [queue]) == [queue]
        with pytest.raises(NoPermission):
            await copier.copy("CG")
        copier.broker.locks.unlock("CG", "other", [queue])
        assert (await copier.copy("CG"))[1] == 0

    run(main)


def test_an_end_to_hearing_of_a_queue(run):
    async def main(desk, copier):
        await topics(desk)
        await desk.send("A")
        copier.stop_hearing()
        await desk.send("A")
        assert [each for each in copier.told if each[0] == "arrived"] == [("arrived", everything.FROM, 1)]

    run(main)


def test_a_pull_that_waits_ends_with_its_connection(run):
    async def main(desk, copier):
        await topics(desk)
        (consumer,) = copier.broker.clients.consumers("CG")
        request = PullRequest("CG", "A", 0, 0, sys_flag=PULL_SUBSCRIPTION | PULL_SUSPEND, suspend_ms=60_000)
        waiting = asyncio.ensure_future(copier.broker.messages.pull(request, consumer.connection))
        await desk.clock.sleep(1)
        assert not waiting.done()
        await desk.client.close()
        await desk.clock.sleep(1)
        with pytest.raises(ConnectionLost):
            await waiting

    run(main)


def test_what_raises_when_it_is_woken_keeps_nobody_else_waiting(run):
    async def main(desk, copier):
        await topics(desk)
        woken = []
        match = copier.broker.filters.compiled(Subscription("A"))
        for wake in (lambda: 1 / 0, lambda: woken.append("second")):
            assert copier.broker.held_pulls.hold(everything.FROM, 0, match, 60, None, wake)
        assert (await desk.send("A")).code == 0
        assert woken == ["second"]
        assert sum(desk.tables.stats.plugin_errors.values()) == 1

    run(main)


def test_what_the_store_refuses_of_several_is_said_and_the_others_are_stored(run):
    async def main(desk, copier):
        await topics(desk)
        desk.server.settings.set("maxMessageSize", 1024, "test")
        bodies = (b"one", b"x" * 2000, b"three")
        results = await copier.broker.messages.put_all([StoreMessage("A", 0, body, b"") for body in bodies])
        assert [result.status for result in results] == [PutStatus.OK, PutStatus.BODY_TOO_LARGE, PutStatus.OK]
        assert [bytes(each.body) for each in records(await desk.pull("A"))] == [b"one", b"three"]

    run(main)


def test_a_producer_is_found_by_its_client_id(run):
    async def main(desk, copier):
        body = dumps({"clientID": "c1", "producerDataSet": [{"groupName": "PG"}]})
        assert (await desk.ask(34, None, body)).code == 0
        (member,) = copier.broker.clients.producers("PG")
        assert copier.broker.clients.producer("c1") == member
        assert copier.broker.clients.producer("c2") is None

    run(main)


def test_the_topic_of_a_send_is_made_and_checked_without_the_send(run):
    async def main(desk, copier):
        made = copier.broker.messages.topic_for_send(SendRequest("PG", "New", b"", default_topic_queues=3))
        assert (made.write_queues, copier.broker.topics.get("New")) == (3, made)
        with pytest.raises(NoPermission):
            copier.broker.messages.topic_for_send(SendRequest("PG", "SCHEDULE_TOPIC_XXXX", b""))
        desk.server.settings.set("autoCreateTopicEnable", False, "test")
        with pytest.raises(TopicNotExist):
            copier.broker.messages.topic_for_send(SendRequest("PG", "Other", b""))

    run(main)


def test_a_heartbeat_that_is_refused_makes_no_member(run):
    async def main(desk, copier):
        await topics(desk)
        copier.unwanted = "c2"
        other = desk.peer()
        answer = await other.heartbeat("Else", client_id="c2")
        assert (answer.code, answer.remark) == (16, "you are not wanted")
        assert copier.broker.clients.consumers("Else") == ()
        assert not desk.tables.stats.plugin_errors
        assert (await other.heartbeat("Else", client_id="c3")).code == 0

    run(main)


def test_a_check_of_heartbeats_that_breaks_is_counted(run):
    async def main(desk, copier):
        await topics(desk)
        copier.told = None
        assert (await desk.peer().heartbeat("Else")).code == 1
        assert copier.broker.clients.consumers("Else") == ()
        assert {kind for kind, _ in desk.tables.stats.plugin_errors} == {"listener"}

    run(main)


def test_how_a_group_reads_a_queue(run):
    async def main(desk, copier):
        await topics(desk)
        broker, queue = copier.broker, everything.TO
        held, lock = broker.held_pulls.of, MessageQueue("B", "broker-a", 0)
        never = broker.offsets.last_pull("CG", queue)
        assert (never.next_offset, never.by, held("CG", queue)) == (-1, None, [])
        assert (broker.offsets.pending_reset("CG", queue), broker.locks.holder("CG", lock)) == (None, None)
        assert broker.groups.may_read("CG", "B")
        for _ in range(2):
            await desk.send("B")
        await desk.pull("B")
        (consumer,) = broker.clients.consumers("CG")
        last = broker.offsets.last_pull("CG", queue)
        assert (last.next_offset, last.by, last.checked, last.matched) == (2, consumer.connection.peer, 0, 0)
        waiting = asyncio.ensure_future(desk.pull("B", 2, wait_s=30))
        await desk.clock.sleep(1)
        assert held("CG", queue) == [consumer.connection]
        assert held("Else", queue) == []
        await desk.send("B")
        await waiting
        desk.tables.offsets.reset("CG", queue, 1)
        broker.locks.lock("CG", "c9", [lock])
        await desk.ask(353, {"group": "CG", "topic": "B", "readable": "false"})
        assert (broker.offsets.pending_reset("CG", queue), broker.locks.holder("CG", lock)) == (1, "c9")
        assert not broker.groups.may_read("CG", "B")

    run(main)
