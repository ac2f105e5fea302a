"""Clients without a remoting frame: the broker's operations and its typed pushes serve every protocol alike."""

from __future__ import annotations

import asyncio
from importlib.util import find_spec

import pytest
from memory_client import MemoryClient

from gantrymq import loose_json
from gantrymq.errors import ConnectionLost, IllegalOperation, PoppedMessageGone, ReceiptIllegal, RequestRefused
from gantrymq.formats.record import iter_records
from gantrymq.interfaces import (
    EndTransaction,
    Outcome,
    PopAck,
    PopRequest,
    PullRequest,
    RecallRequest,
    SendBackRequest,
    SendRequest,
)
from gantrymq.model.pushes import ClientAnswer
from gantrymq.model.queue import Queue
from gantrymq.model.receipt import read_receipt
from gantrymq.model.sys_flag import TRANSACTION_PREPARED
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import request
from gantrymq_testing.simulation import simulate_cluster

PLUGINS = ("schedule", "transaction", "pop", "filter_tag", "request_reply", "diagnosis")
pytestmark = pytest.mark.skipif(
    any(find_spec(f"gantrymq_{each}") is None for each in PLUGINS), reason=f"needs the plugins {', '.join(PLUGINS)}"
)

COMMIT, ROLLBACK = 8, 12


def bodies(answer):
    return [bytes(record.body) for buffer in answer.buffers for record in iter_records(buffer)]


def text(**own):
    return "".join(f"{name}\x01{value}\x02" for name, value in own.items())


def ack_of(answer):
    (receipt,) = answer.receipts()
    return PopAck.of("CG", "T", receipt)


def pull(group, queue_offset, **more):
    return PullRequest(group, "T", 0, queue_offset, sys_flag=2 | 4, expression="*", **more)


async def remote(cluster, code, ext, body=None):
    return await RemotingClient(cluster.world).call(cluster.broker_address, request(code, ext, body))


def test_a_consumer_pulls_commits_sends_back_and_leaves():
    async def main(cluster):
        broker = cluster.broker
        await cluster.create_topic("T", 1)
        one, two = MemoryClient(broker, "one", 1), MemoryClient(broker, "two", 2)
        one.heartbeat(consumers=["CG"], topics=["T"])
        two.heartbeat(consumers=["CG"], topics=["T"])
        assert [each.client_id for each in broker.clients.consumers("CG")] == ["one", "two"]
        assert one.heard("members_changed") == ["CG", "CG"]
        waiting = asyncio.ensure_future(broker.messages.pull(pull("CG", 0, suspend_ms=10_000), one))
        await cluster.world.clock.sleep(1)
        await broker.messages.send(SendRequest("PG", "T", b"first", text(KEYS="k1")))
        answer = await waiting
        assert (bodies(answer), answer.next_offset) == ([b"first"], 1)
        (record,) = iter_records(answer.buffers[0])
        broker.offsets.commit("CG", Queue("T", 0), 1)
        sent_back = await broker.messages.send_back(SendBackRequest("CG", record.log_offset, delay_level=1))
        await cluster.world.clock.sleep(2)
        (again,) = (await broker.messages.pull(PullRequest("CG", "%RETRY%CG", 0, 0), one)).buffers
        (copy,) = iter_records(again)
        assert (bytes(copy.body), copy.reconsume_times) == (b"first", 1)
        assert sent_back.log_offset != copy.log_offset
        found = broker.messages.query("T", "k1", 0, 2**62)
        found = found if isinstance(found, tuple) else await found
        assert len(found.records) == 1
        assert bytes((await broker.messages.view(record.log_offset)).body) == b"first"
        with pytest.raises(RequestRefused, match="no message starts at log offset 1"):
            await broker.messages.view(1)
        assert await broker.messages.offset_at(Queue("T", 0), 0) == 0
        assert await broker.messages.store_time(Queue("T", 0), 0) == record.store_timestamp
        held = asyncio.ensure_future(broker.messages.pull(pull("CG", 1, suspend_ms=10_000), two))
        await cluster.world.clock.sleep(1)
        assert broker.held_pulls.of("CG", Queue("T", 0)) == [two]
        two.close()
        with pytest.raises(ConnectionLost):
            await held
        assert [each.client_id for each in broker.clients.consumers("CG")] == ["one"]
        assert one.heard("members_changed") == ["CG", "CG", "CG"]

    simulate_cluster(main)


def test_a_pull_of_a_client_that_is_gone_commits_and_takes_no_reset():
    """Requests that a client sent before it closed its connection are served afterwards."""

    async def main(cluster):
        broker, queue = cluster.broker, Queue("T", 0)
        await cluster.create_topic("T", 1)
        for body in (b"1", b"2"):
            await broker.messages.send(SendRequest("PG", "T", body))
        client = MemoryClient(broker, "client")
        client.heartbeat(consumers=["CG"], topics=["T"])
        client.close()
        broker.offsets.reset("CG", queue, 0)
        for group in ("CG", "Other"):
            with pytest.raises(ConnectionLost):
                wanted = PullRequest(group, "T", 0, 1, sys_flag=1 | 4, expression="*", commit_offset=1)
                await broker.messages.pull(wanted, client)
        assert broker.offsets.pending_reset("CG", queue) == 0
        assert broker.offsets.last_pull("CG", queue).by is None
        assert broker.offsets.committed("Other", queue) == 1

    simulate_cluster(main)


@pytest.mark.parametrize("decision", [COMMIT, ROLLBACK])
def test_a_transactional_producer_is_asked_and_decides(decision):
    async def main(cluster):
        broker = cluster.broker
        await cluster.create_topic("T", 1)
        producer = MemoryClient(broker, "producer")
        producer.heartbeat(producers=["PG"])
        own = text(UNIQ_KEY="id1", TRAN_MSG="true", PGROUP="PG")
        await broker.messages.send(SendRequest("PG", "T", b"half", own, queue_id=0, sys_flag=TRANSACTION_PREPARED))
        assert broker.store.bounds(Queue("T", 0)).max_offset == 0
        await cluster.world.clock.sleep(20)
        check = producer.heard("check_transaction")[0]
        (record,) = iter_records(check.record)
        assert (record.topic, bytes(record.body), check.transaction_id) == ("T", b"half", "id1")
        assert (check.topic, check.producer_group, check.half_topic) == ("T", "PG", "RMQ_SYS_TRANS_HALF_TOPIC")
        places = check.half_queue_offset, check.half_log_offset
        end = EndTransaction(check.producer_group, *places, decision, True, check.transaction_id, check.transaction_id)
        outcome = await broker.messages.end_transaction(end)
        assert outcome is (Outcome.COMMITTED if decision == COMMIT else Outcome.ROLLED_BACK)
        assert broker.store.bounds(Queue("T", 0)).max_offset == (decision == COMMIT)
        asked = len(producer.heard("check_transaction"))
        await cluster.world.clock.sleep(60)
        assert len(producer.heard("check_transaction")) == asked

    simulate_cluster(main, settings={"transactionCheckInterval": 5000, "transactionTimeOut": 3000})


def test_a_popping_consumer_acknowledges_hides_and_gives_up():
    async def main(cluster):
        broker = cluster.broker
        await cluster.create_topic("T", 1)
        client, pop = MemoryClient(broker, "popper"), broker.service("pop")
        wanted = PopRequest("CG", "T", max_count=1, invisible_ms=10_000, wait_ms=5000)
        waiting = asyncio.ensure_future(pop.receive(wanted, client))
        await cluster.world.clock.sleep(1)
        for body in (b"1", b"2", b"3"):
            await broker.messages.send(SendRequest("PG", "T", body))
        first = await waiting
        assert (bodies(first), first.code) == ([b"1"], 0)
        message = ack_of(first)
        await pop.ack(message)
        second = await pop.receive(wanted, client)
        message = ack_of(second)
        changed = await pop.change_invisible_time(message, 2000)
        third = await pop.receive(wanted, client)
        assert bodies(third) == [b"3"]
        message = ack_of(third)
        (record,) = iter_records(third.buffers[0])
        await pop.forward_to_dead_letters(message, record.log_offset)
        assert broker.store.bounds(Queue("%DLQ%CG", 0)).max_offset == 1
        again = await pop.receive(wanted, client)
        # Popped and changed in one millisecond, it is hidden as if popped in the one before.
        assert (bodies(again), changed.invisible_ms) == ([b"2"], 2001)
        message = ack_of(again)
        assert message.topic.startswith("%RETRY%")
        await pop.ack(message)
        nothing = await pop.receive(wanted, client)
        assert (nothing.code, bodies(nothing), list(nothing.messages())) == (210, [], [])
        with pytest.raises(PoppedMessageGone, match="outside queue T/0"):
            await pop.ack(message._replace(topic="T", queue_offset=99))
        for handle in ("x", message.receipt_handle.replace("broker-a", "other"), "9" * 1_000_000):
            with pytest.raises(ReceiptIllegal, match="the receipt handle '"):
                await pop.ack(message._replace(receipt_handle=handle))

    simulate_cluster(main)


def test_a_popped_message_has_a_handle_of_nine_parts_that_the_broker_takes_back():
    async def main(cluster):
        broker, clock = cluster.broker, cluster.world.clock
        await cluster.create_topic("T", 1)
        client, pop = MemoryClient(broker, "popper"), broker.service("pop")
        sent = [await broker.messages.send(SendRequest("PG", "T", body)) for body in (b"1", b"2")]
        popped = list((await pop.receive(PopRequest("CG", "T", invisible_ms=10_000), client)).messages())
        assert [bytes(each.record.body) for each in popped] == [b"1", b"2"]
        log_offsets = [each.results[0].log_offset for each in sent]
        assert [str(each.receipt).split(" ")[7:] for each in popped] == [
            [str(number), str(at)] for number, at in enumerate(log_offsets)
        ]
        first, second = (PopAck.of("CG", "T", read_receipt(str(each.receipt))) for each in popped)
        assert not popped[0].receipt.is_expired(clock.now_ms())
        await pop.ack(first)
        changed = popped[1].receipt.changed(*await pop.change_invisible_time(second, 1000))
        assert (changed.start_offset, changed.queue_offset, changed.invisible_ms) == (1, 1, 1000)
        await clock.sleep(3)
        assert changed.is_expired(clock.now_ms())
        (again,) = (await pop.receive(PopRequest("CG", "T", wait_ms=5000), client)).messages()
        assert (bytes(again.record.body), again.receipt.kind, again.deliveries) == (b"2", "1", 1)
        await pop.ack(PopAck.of("CG", "T", again.receipt))

    simulate_cluster(main)


def test_an_ordered_pop_counts_deliveries_and_its_attempt_can_be_repeated():
    async def main(cluster):
        broker = cluster.broker
        await cluster.create_topic("T", 1)
        client, pop = MemoryClient(broker, "popper"), broker.service("pop")
        for body in (b"1", b"2"):
            await broker.messages.send(SendRequest("PG", "T", body))
        wanted = PopRequest("CG", "T", 0, invisible_ms=10_000, order=True, attempt_id="first")

        async def popped(request):
            answer = await pop.receive(request, client)
            return [(bytes(each.record.body), each.deliveries) for each in answer.messages()]

        assert await popped(wanted) == [(b"1", 0), (b"2", 0)]
        assert await popped(wanted) == [(b"1", 0), (b"2", 0)]
        other = wanted._replace(attempt_id="second")
        assert await popped(other) == []
        answer = await pop.receive(other._replace(wait_ms=15_000), client)
        assert [each.deliveries for each in answer.messages()] == [1, 1]
        first, second = answer.receipts()
        later = first.changed(*await pop.change_invisible_time(PopAck.of("CG", "T", first), 2000))
        assert (later.start_offset, later.revive_queue) == (first.start_offset, first.revive_queue)
        await pop.ack(PopAck.of("CG", "T", second))
        with pytest.raises(ReceiptIllegal, match="was not delivered by the last pop"):
            await pop.ack(PopAck.of("CG", "T", second._replace(queue_offset=2)))
        await pop.ack(PopAck.of("CG", "T", later))
        assert broker.offsets.committed("CG", Queue("T", 0)) == 2

    simulate_cluster(main)


def test_a_pop_that_waits_ends_with_its_client_and_takes_nothing_once_it_is_cancelled():
    async def main(cluster):
        broker = cluster.broker
        await cluster.create_topic("T", 1)
        pop = broker.service("pop")
        wanted = PopRequest("CG", "T", wait_ms=30_000)
        closing = MemoryClient(broker, "closing")
        waiting = asyncio.ensure_future(pop.receive(wanted, closing))
        await cluster.world.clock.sleep(1)
        closing.close()
        with pytest.raises(ConnectionLost, match="while its pop waited"):
            await waiting
        client = MemoryClient(broker, "client")
        waiting = asyncio.ensure_future(pop.receive(wanted, client))
        await cluster.world.clock.sleep(1)
        waiting.cancel()
        await cluster.world.clock.sleep(1)
        await broker.messages.send(SendRequest("PG", "T", b"1"))
        await cluster.world.clock.sleep(1)
        assert bodies(await pop.receive(wanted, client)) == [b"1"]

    simulate_cluster(main)


def test_a_timed_message_is_recalled():
    async def main(cluster):
        broker = cluster.broker
        await cluster.create_topic("T", 1)
        due = cluster.world.clock.now_ms() + 30_000
        sent = await broker.messages.send(SendRequest("PG", "T", b"late", text(UNIQ_KEY="id1", TIMER_DELIVER_MS=due)))
        recall = RecallRequest("T", sent.fields["recallHandle"], "PG", broker.store_host)
        answer = await broker.messages.recall(recall)
        assert (answer.message_id, answer.unconfirmed) == ("id1", None)
        await cluster.world.clock.sleep(60)
        assert broker.store.bounds(Queue("T", 0)).max_offset == 0
        with pytest.raises(IllegalOperation) as refused:
            await broker.messages.recall(recall._replace(handle="x"))
        assert refused.value.response_code == 604

    simulate_cluster(main, settings={"recallMessageEnable": True})


def test_requests_of_remoting_clients_reach_a_client_without_frames():
    async def main(cluster):
        broker = cluster.broker
        await cluster.create_topic("T", 1)
        sent = await broker.messages.send(SendRequest("PG", "T", b"one"))
        client = MemoryClient(broker, "client")
        client.heartbeat(producers=["PG"], consumers=["CG"], topics=["T"])
        client.answers["running_info"] = ClientAnswer(0, None, None, b'{"properties":{}}')
        ask = {"consumerGroup": "CG", "clientId": "client"}
        info = await remote(cluster, RequestCode.GET_CONSUMER_RUNNING_INFO, ask)
        assert (info.code, info.payload) == (0, b'{"properties":{}}')
        client.answers["consume_directly"] = ClientAnswer(0, None, None, b'{"consumeResult":"CR_SUCCESS"}')
        offset_id = broker.store_host.hex().upper() + f"{sent.results[0].log_offset:016X}"
        answer = await remote(cluster, RequestCode.CONSUME_MESSAGE_DIRECTLY, {**ask, "msgId": offset_id, "topic": "T"})
        assert (answer.code, answer.payload) == (0, b'{"consumeResult":"CR_SUCCESS"}')
        (direct,) = client.heard("consume_directly")
        assert [bytes(each.body) for each in iter_records(direct.record)] == [b"one"]
        client.answers["consumer_offsets"] = ClientAnswer(0, None, None, b'{"messageQueueTable":{}}')
        answer = await remote(cluster, RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, {"topic": "T", "group": "CG"})
        assert loose_json.loads(answer.payload)["consumerTable"] == {"client": {}}
        broker.offsets.commit("CG", Queue("T", 0), 1)
        reset = {"topic": "T", "group": "CG", "timestamp": "0", "isForce": "true"}
        assert (await remote(cluster, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, reset)).code == 0
        (told,) = client.heard("reset_offsets")
        assert [(queue.queue_id, at) for queue, at in told.offsets.items()] == [(0, 0)]
        reply = {"a": "CG", "b": "T", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0"}
        reply["i"] = text(REPLY_TO_CLIENT="client", CORRELATION_ID="c1")
        assert (await remote(cluster, RequestCode.SEND_REPLY_MESSAGE_V2, reply, b"answer")).code == 0
        (delivered,) = client.heard("deliver_reply")
        assert (bytes(delivered.body), delivered.topic) == (b"answer", "T")
        assert "CORRELATION_ID\x01c1" in delivered.properties

    simulate_cluster(main, settings={"useServerSideResetOffset": False})


def test_a_console_reads_topics_groups_and_connections_without_requests():
    async def main(cluster):
        broker, clock = cluster.broker, cluster.world.clock
        await cluster.create_topic("T", 2)
        client = MemoryClient(broker, "client")
        began = clock.now_ms()
        client.heartbeat(producers=["PG"], consumers=["CG"], topics=["T"])
        for body in (b"1", b"2"):
            await broker.messages.send(SendRequest("PG", "T", body, queue_id=1))
            await clock.sleep(1)
        topic = broker.topics.get("T")
        first, second = [each async for each in broker.messages.statistics(topic)]
        assert (first.min_offset, first.max_offset, first.updated_ms) == (0, 0, 0)
        assert (second.queue, second.max_offset) == (Queue("T", 1), 2)
        stored = [await broker.messages.store_time(Queue("T", 1), at) for at in (0, 1)]
        assert second.updated_ms == stored[1]
        await broker.messages.pull(PullRequest("CG", "T", 1, 0), client)
        broker.offsets.commit("CG", Queue("T", 1), 1)
        unread, read = [broker.lags.queue("CG", Queue("T", queue_id)) for queue_id in range(2)]
        assert (unread.committed, unread.behind) == (None, 0)
        assert (read.committed, read.bounds.max_offset, read.begin, read.behind) == (1, 2, 1, 1)
        assert await broker.lags.stored_ms(Queue("T", 1), read.begin) == stored[1]
        assert (broker.offsets.topics_of("CG"), broker.offsets.groups_of("T")) == (["T"], ["CG"])
        (found,) = [each for each in broker.clients.connections() if each.connection is client]
        assert (found.client_id, found.language, found.since_ms) == ("client", "OTHER", began)
        assert (found.producers, found.consumers) == (["PG"], ["CG"])
        assert found.principal is None
        client.close()
        assert client not in [each.connection for each in broker.clients.connections()]
        every, total = broker.topics.page()
        assert [each.name for each in every] == list(broker.topics.view)
        pages = [broker.topics.page(start, 3) for start in range(0, total, 3)]
        assert [each for topics, _ in pages for each in topics] == every
        assert {number for _, number in pages} == {total}
        assert [each.name for each in broker.groups.page(0, 2)[0]] == list(broker.groups.view)[:2]

    simulate_cluster(main)


def test_connections_that_sent_no_heartbeat_are_listed_too():
    async def main(cluster):
        assert (await remote(cluster, RequestCode.GET_ALL_TOPIC_CONFIG, {})).code == 0
        assert [each.client_id for each in cluster.broker.clients.connections()].count("") >= 1

    simulate_cluster(main)


def test_a_plugin_suggests_the_broker_of_the_next_pull():
    async def main(cluster):
        broker, chosen = cluster.broker, [1]

        def suggest(wanted, answer):
            assert (wanted.group, answer.next_offset) == ("CG", 1)
            return chosen.pop()

        await cluster.create_topic("T", 1)
        await cluster.send("T", b"one")
        client = MemoryClient(broker, "client")
        assert (await broker.messages.pull(pull("CG", 0), client)).suggested_broker_id == 0
        broker.messages.suggest_broker(suggest)
        ext = {"consumerGroup": "CG", "topic": "T", "queueId": "0", "queueOffset": "0", "maxMsgNums": "32"}
        ext |= dict.fromkeys(("commitOffset", "suspendTimeoutMillis", "subVersion"), "0")
        ext |= {"sysFlag": "4", "subscription": "*"}
        answer = await remote(cluster, RequestCode.PULL_MESSAGE, ext)
        assert (answer.code, answer.ext["suggestWhichBrokerId"]) == (0, "1")
        answer = await broker.messages.pull(pull("CG", 0), client)  # raises IndexError now
        assert (answer.code, answer.suggested_broker_id) == (0, 0)
        assert ("listener", f"{__name__}.{suggest.__qualname__}") in broker.metrics.snapshot().plugin_errors

    simulate_cluster(main)


def test_the_registration_changes_its_broker_id_and_address_of_replication():
    async def main(cluster):
        registration = cluster.broker.registration
        await cluster.create_topic("T", 1)
        remoting = RemotingClient(cluster.world)

        async def route():
            ask = request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"})
            answer = await remoting.call(cluster.namesrv, ask)
            return loose_json.loads(answer.payload)["brokerDatas"][0]["brokerAddrs"]

        assert (await route(), registration.broker_id) == ({"0": cluster.broker_address}, 0)
        registration.change(broker_id=1, ha_address="192.0.2.9:10912")
        await cluster.world.clock.sleep(1)
        assert await route() == {"1": cluster.broker_address}
        assert (registration.broker_id, registration.ha_address) == (1, "192.0.2.9:10912")
        registration.change(broker_id=0)
        await cluster.world.clock.sleep(1)
        assert await route() == {"0": cluster.broker_address}
        assert registration.ha_address == "192.0.2.9:10912"

    simulate_cluster(main)
