"""Timers in a whole broker, on a virtual clock."""

import asyncio
import json

import pytest
from late_gates import put_gate
from long_responses import WrittenTogether

from gantrymq.client import SendFailed
from gantrymq.errors import BrokerRefused, MessageIllegal, StoreError
from gantrymq.formats.record import iter_records
from gantrymq.interfaces import GetLimit, SendRequest, StoreMessage
from gantrymq.model import properties as props
from gantrymq.model.queue import Queue
from gantrymq.model.topic import TopicConfig
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.command import request
from gantrymq.remoting.responses import MAX_AT_ONCE
from gantrymq_schedule.timer.checkpoint_files import TimerCheckpointFiles
from gantrymq_schedule.timer.messages import TIMER_QUEUE
from gantrymq_schedule.timer.recall import decode_handle
from gantrymq_schedule.timer.timers import Timers
from gantrymq_store_files.timer_checkpoint import decode_timer_checkpoint

RECALL = 370
JAVA_ORDER = [
    "TIMER_DEL_UNIQKEY",
    "REAL_TOPIC",
    "BORN_TIMESTAMP",
    "TRACE_CONTEXT",
    "TIMER_DELIVER_MS",
    "UNIQ_KEY",
    "PGROUP",
    "TAGS",
    "TIMER_OUT_MS",
    "REAL_QID",
]


def due(ms):
    return {"TIMER_DELIVER_MS": str(ms)}


async def ask(cluster, code, **ext):
    """Send a request to the broker over a connection."""
    client = RemotingClient(cluster.world)
    try:
        return await client.call(cluster.broker_address, request(code, {name: str(text) for name, text in ext.items()}))
    finally:
        await client.close()


async def bodies(cluster, topic="A"):
    return [each.body for each in await cluster.pull(topic)]


@pytest.mark.parametrize("store", ["memory", "mmap"])
def test_a_delayed_message_comes_at_its_time_and_not_before(gantrymq_simulation, store):
    async def work(cluster):
        await cluster.create_topic("A", 1)
        clock = cluster.world.clock
        await cluster.send("A", b"three", system_properties={"TIMER_DELAY_SEC": "3"})
        await cluster.send("A", b"one", system_properties={"TIMER_DELAY_MS": "1000"})
        at = clock.now_ms() + 2000
        await cluster.send("A", b"two", system_properties=due(at))
        await cluster.send("A", b"now")
        assert await bodies(cluster) == [b"now"]
        seen = {}
        for _ in range(60):
            await clock.sleep(0.1)
            for each in await bodies(cluster):
                seen.setdefault(each, clock.now_ms())
        assert list(seen) == [b"now", b"one", b"two", b"three"]
        return [seen[b"two"] - at]

    (late,) = gantrymq_simulation(work, settings={"store": store})
    assert 0 <= late <= 1100


def test_what_has_no_room_for_the_times_of_its_delivery_comes_without_them(gantrymq_simulation, monkeypatch):
    monkeypatch.setattr(props, "MAX_SENT_BYTES", props.MAX_BYTES)  # as a Java broker accepts them, and then drops them

    async def work(cluster):
        await cluster.create_topic("A", 1)
        sent, refused = [], 0
        for length in range(32_300, 32_767, 20):
            body = b"%d" % length
            delay = {"TIMER_DELAY_SEC": "2"}
            try:
                await cluster.send("A", body, properties={"mine": "x" * length}, system_properties=delay)
                sent.append(body)
            except (BrokerRefused, MessageIllegal):
                refused += 1
        await cluster.world.clock.sleep(4)
        found = await cluster.pull("A")
        with_times = ["TIMER_DEQUEUE_MS" in each.properties for each in found]
        return sent, sorted(each.body for each in found), refused, sum(with_times), len(with_times)

    sent, found, refused, with_times, count = gantrymq_simulation(work)
    assert found == sent
    assert refused > 3
    assert 0 < with_times < count - 2


def test_a_recalled_message_does_not_come(gantrymq_simulation):
    async def work(cluster):
        await cluster.create_topic("A", 1)
        first = await cluster.send("A", b"kept", system_properties={"TIMER_DELAY_SEC": "3"})
        sent = await cluster.send("A", b"recalled", system_properties={"TIMER_DELAY_SEC": "3"})
        assert (await ask(cluster, RECALL, topic="A", recallHandle=sent.recall_handle)).code == 0
        assert (await ask(cluster, RECALL, topic="A", recallHandle=sent.recall_handle)).code == 0
        await cluster.world.clock.sleep(6)
        (metrics,) = [await ask(cluster, 61)]
        return first, await bodies(cluster), json.loads(metrics.body)["timingCount"]

    _, found, counts = gantrymq_simulation(work, settings={"recallMessageEnable": "true"})
    assert found == [b"kept"]
    assert counts["A"]["count"] == 0


def test_a_recall_is_stored_as_java_stores_it(gantrymq_simulation):
    async def work(cluster):
        await cluster.create_topic("A", 1)
        sent = await cluster.send("A", b"recalled", system_properties={"TIMER_DELAY_SEC": "3"})
        await ask(cluster, RECALL, topic="A", recallHandle=sent.recall_handle, producerGroup="g")
        found = await cluster.broker.messages.get(Queue("rmq_sys_wheel_timer", 0), 1, GetLimit(1))
        (record,) = iter_records(found.buffers[0])
        return bytes(record.properties_bytes)

    text = gantrymq_simulation(work, settings={"recallMessageEnable": "true"})
    assert [piece.partition(b"\x01")[0].decode() for piece in text.split(b"\x02")[:-1]] == JAVA_ORDER
    assert b"\x02TRACE_CONTEXT\x01\x02" in text


def test_a_send_is_answered_with_the_handle(gantrymq_simulation):
    async def work(cluster):
        await cluster.create_topic("A", 1)
        asked = SendRequest("g", "A", b"x", "UNIQ_KEY\x01id1\x02TIMER_DELAY_SEC\x015\x02", queue_id=0)
        answer = await cluster.broker.messages.send(asked)
        plain = await cluster.broker.messages.send(SendRequest("g", "A", b"x", "UNIQ_KEY\x01id2\x02", queue_id=0))
        now_ms = cluster.world.clock.now_ms()
        return answer, plain, now_ms, cluster.broker.registration.broker_name

    answer, plain, now_ms, broker = gantrymq_simulation(work)
    handle = decode_handle(answer.fields["recallHandle"])
    assert (handle.topic, handle.broker, handle.unique_id) == ("A", broker, "id1")
    assert 4000 <= int(handle.time) - 1 - (now_ms // 1000 * 1000) <= 5000
    assert plain.fields is None
    assert (answer.queue_id, answer.results[0].queue_offset) == (0, 0)


def test_what_waits_is_listed_page_by_page(gantrymq_simulation):
    async def work(cluster):
        await cluster.create_topic("A", 1)
        await cluster.create_topic("B", 1)
        for number in range(7):
            await cluster.send(
                "AB"[number % 2], b"%d" % number, system_properties={"TIMER_DELAY_SEC": str(60 + number // 3)}
            )
        await cluster.world.clock.sleep(1)
        pages, place = [], ""
        while place is not None:
            answer = await ask(cluster, 65001, source="timers", most="2", place=place)
            told = json.loads(answer.body)
            pages.append([each["topic"] for each in told["messages"]])
            place = told["place"]
        only = json.loads((await ask(cluster, 65001, source="timers", topic="B", most="9")).body)["messages"]
        soon = await ask(cluster, 65001, source="timers", untilMs=str(cluster.world.clock.now_ms()))
        return pages, told["sources"]["timers"], only, json.loads(soon.body)["messages"]

    pages, source, only, soon = gantrymq_simulation(work)
    assert sorted(topic for page in pages for topic in page) == ["A"] * 4 + ["B"] * 3
    assert max(map(len, pages)) == 2
    assert source == {"waiting": 7, "topics": {"A": 4, "B": 3}}
    assert [each["topic"] for each in only] == ["B"] * 3
    assert [each["due_ms"] for each in only] == sorted(each["due_ms"] for each in only)
    assert soon == []


def test_operators_see_how_timers_are(gantrymq_simulation):
    async def work(cluster):
        await cluster.create_topic("A", 1)
        await cluster.send("A", b"x", system_properties={"TIMER_DELAY_SEC": "60"})
        await cluster.world.clock.sleep(3)
        table = json.loads((await ask(cluster, 28)).body)["table"]
        checkpoint = (await ask(cluster, 60)).body
        shown = {each.name: each.values for each in cluster.broker.metrics.snapshot().plugin_metrics}
        return table, bytes(checkpoint), shown

    table, checkpoint, shown = gantrymq_simulation(work)
    assert {key: table[key] for key in table if key.startswith("timer")} == {
        "timerReadBehind": "0",
        "timerOffsetBehind": "0",
        "timerCongestNum": "1",
        "timerEnqueueTps": "0.0",
        "timerDequeueTps": "0.0",
    }
    assert len(checkpoint) == 56
    assert decode_timer_checkpoint(checkpoint).queue_offset == 1
    assert shown["rocketmq_timing_messages"] == {("A",): 1.0}
    assert shown["rocketmq_timer_enqueue_total"] == {(): 1}


def test_a_few_responses_with_numbers_of_waiting_messages_are_written_at_once(gantrymq_simulation, monkeypatch):
    async def work(cluster):
        await cluster.create_topic("A", 1)
        await cluster.send("A", b"x", system_properties={"TIMER_DELAY_SEC": "60"})
        await cluster.world.clock.sleep(3)
        written = WrittenTogether(monkeypatch, cluster.world.clock)
        answers = await asyncio.gather(*(ask(cluster, 61) for _ in range(3 * MAX_AT_ONCE)))
        assert {json.loads(each.body)["timingCount"]["A"]["count"] for each in answers} == {1}
        assert written.most == MAX_AT_ONCE

    gantrymq_simulation(work)


def test_timers_that_are_off_take_nothing(gantrymq_simulation):
    async def work(cluster):
        await cluster.create_topic("A", 1)
        with pytest.raises(SendFailed, match="timerWheelEnable"):
            await cluster.send("A", b"x", system_properties={"TIMER_DELAY_SEC": "60"})
        assert (await ask(cluster, 60)).code == 1
        assert (await ask(cluster, 61)).code == 1
        return cluster.world.files.stat(cluster.root / "store" / "timerwheel")

    assert gantrymq_simulation(work, settings={"timerWheelEnable": "false"}) is None


def test_a_message_that_its_topic_refuses_is_left_out_and_the_others_come(gantrymq_simulation):
    async def work(cluster):
        await cluster.create_topic("A", 1)
        await cluster.create_topic("B", 1)
        sent = [("A", "id1", ""), ("B", "id2", "INNER_NUM\x013\x02"), ("A", "id3", "")]
        for topic, unique_id, more in sent:
            own = f"UNIQ_KEY\x01{unique_id}\x02{more}TIMER_DELAY_SEC\x012\x02"
            await cluster.broker.messages.put(StoreMessage(topic, 0, unique_id.encode(), own.encode()))
        cluster.broker.topics.put(TopicConfig("B", 1, 1, attributes={"queue.type": "BatchCQ"}))
        await cluster.world.clock.sleep(5)
        shown = {each.name: each.values for each in cluster.broker.metrics.snapshot().plugin_metrics}
        return await bodies(cluster), shown

    found, shown = gantrymq_simulation(work, settings={"store": "mmap"})
    assert found == [b"id1", b"id3"]
    assert {1} == {value for name in shown if "given_up" in name for value in shown[name].values()}


@pytest.mark.parametrize("topic", ["rmq_sys_wheel_timer", "RMQ_SYS_TRANS_OP_HALF_TOPIC", "SCHEDULE_TOPIC_XXXX"])
def test_what_was_sent_to_the_timer_queue_itself_goes_to_no_topic_of_the_broker(gantrymq_simulation, topic):
    async def work(cluster):
        await cluster.create_topic("A", 1)
        own = {"TIMER_OUT_MS": "1000", "REAL_TOPIC": topic, "REAL_QID": "0"}
        await cluster.broker.messages.put(StoreMessage(*TIMER_QUEUE, b"x", props.encode(own)))
        await cluster.send("A", b"good", system_properties={"TIMER_DELAY_SEC": "1"})
        await cluster.world.clock.sleep(4)
        return await bodies(cluster), cluster.broker.store.bounds(Queue(topic, 0)).max_offset

    found, end = gantrymq_simulation(work)
    assert found == [b"good"]
    assert end == (2 if topic == TIMER_QUEUE.topic else 0)


def test_a_recall_that_is_stored_too_late_is_not_acknowledged(gantrymq_simulation, monkeypatch):
    async def work(cluster):
        clock, store = cluster.world.clock, cluster.store
        await cluster.create_topic("A", 1)
        sent = await cluster.send("A", b"timed", system_properties={"TIMER_DELAY_MS": "2500"})
        await clock.sleep((int(decode_handle(sent.recall_handle).time) - clock.now_ms() - 20) / 1000)

        async def late(log_offset):
            await clock.sleep(2.5)

        put_gate(monkeypatch, store, late)
        answer = await ask(cluster, RECALL, topic="A", recallHandle=sent.recall_handle)
        await clock.sleep(10)
        return answer, await bodies(cluster)

    answer, found = gantrymq_simulation(work, settings={"store": "memory", "recallMessageEnable": "true"})
    assert found == [b"timed"]
    assert (answer.code, answer.remark[:14]) == (604, "recall failed:")


@pytest.mark.parametrize(("problem", "code"), [(None, 10), (StoreError("the disk is broken"), 1)])
def test_a_recall_that_was_not_confirmed_is_answered_as_a_send_is(gantrymq_simulation, monkeypatch, problem, code):
    async def work(cluster):
        clock, store = cluster.world.clock, cluster.store
        await cluster.create_topic("A", 1)
        sent = await cluster.send("A", b"timed", system_properties={"TIMER_DELAY_SEC": "20", "UNIQ_KEY": "id1"})

        async def late(log_offset):
            if problem is not None:
                raise problem
            await clock.sleep(2)

        put_gate(monkeypatch, store, late)
        plain = None
        if problem is None:
            plain = (await cluster.broker.messages.send(SendRequest("g", "A", b"x", "", queue_id=0))).unconfirmed
        recall = await ask(cluster, RECALL, topic="A", recallHandle=sent.recall_handle)
        monkeypatch.undo()
        await clock.sleep(30)
        return plain, recall, decode_handle(sent.recall_handle).unique_id, await bodies(cluster)

    settings = {"store": "memory", "recallMessageEnable": "true", "syncFlushTimeout": "500"}
    plain, recall, unique_id, found = gantrymq_simulation(work, settings=settings)
    assert recall.code == code
    if plain is not None:
        assert plain.response_code == code
        assert recall.ext["msgId"] == unique_id
        assert recall.remark.startswith("recall stored, but: ")
        assert b"timed" not in found
    else:
        assert code == 1
        assert recall.remark.startswith("recall failed: ")


def test_a_start_that_is_cancelled_while_it_saves_can_be_stopped_and_repeated(gantrymq_simulation, monkeypatch):
    async def main(cluster):
        service = cluster.broker.service("schedule")
        await service.stop()
        TimerCheckpointFiles(cluster.world.files, cluster.broker.root).forget()
        saving = asyncio.Event()

        async def save(self):
            saving.set()
            await asyncio.Event().wait()

        with monkeypatch.context() as patched:
            patched.setattr(Timers, "_save", save)
            starting = asyncio.ensure_future(service.start(cluster.broker))
            await saving.wait()
            starting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await starting
        await service.start(cluster.broker)
        assert service.timers.enabled

    gantrymq_simulation(main, settings={"store": "mmap"})
