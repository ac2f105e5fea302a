"""Spans of producers and consumers, with an in-memory broker on a virtual clock."""

import asyncio

import pytest

from gantrymq.client import (
    Client,
    ClientError,
    Message,
    MessageQueue,
    ReconsumeLater,
    TransactionState,
    reply_to,
)
from gantrymq_testing.simulation import simulate_cluster

pytest.importorskip("opentelemetry.sdk", reason="needs opentelemetry-sdk")

from opentelemetry import trace as otel
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from gantrymq.client.opentelemetry import OpenTelemetry

TOPIC = "Orders"


class Spans:
    """A hook, and the spans that it created."""

    def __init__(self):
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.hook = OpenTelemetry(self.provider)

    @property
    def all(self):
        return self._exporter.get_finished_spans()

    def named(self, name):
        return [span for span in self.all if span.name == name]

    def only(self, name):
        (span,) = self.named(name)
        return span


@pytest.fixture
def spans():
    return Spans()


def client_of(cluster, spans):
    return Client(cluster.namesrv, world=cluster.world, hooks=[spans.hook])


def parent_of(span):
    return None if span.parent is None else span.parent.span_id


def linked(span):
    return [link.context.span_id for link in span.links]


def header(span):
    return f"00-{span.context.trace_id:032x}-{span.context.span_id:016x}-{span.context.trace_flags:02x}"


async def handled(cluster, consumer, handle, until, **options):
    running = asyncio.create_task(consumer.run(handle, **options))
    async with asyncio.timeout(300):
        while not until():
            await cluster.world.clock.sleep(0.1)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def test_a_message_is_sent_and_processed_in_one_trace(spans):
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        seen = []
        async with client_of(cluster, spans) as client:
            producer = client.producer("shop")
            with spans.provider.get_tracer("app").start_as_current_span("order"):
                sent = await producer.send(Message(TOPIC, b"12345", tags="TagA", keys=("k1", "k2")))

            async def handle(message):
                seen.append((message, otel.get_current_span()))
                await producer.send(Message("Bills", b"inside"))

            consumer = client.consumer("billing", TOPIC, consume_from="first")
            await cluster.create_topic("Bills", 1)
            await handled(cluster, consumer, handle, lambda: spans.named("process Orders"))
            client_id = spans.only("send Orders").attributes["messaging.client.id"]
        ((message, current),) = seen
        order, send, process = spans.only("order"), spans.only("send Orders"), spans.only("process Orders")
        assert (send.kind, process.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
        assert parent_of(send) == order.context.span_id and parent_of(process) == send.context.span_id
        assert message.properties["traceparent"] == header(send)
        assert current.get_span_context() == process.context
        assert parent_of(spans.only("send Bills")) == process.context.span_id
        assert otel.get_current_span() is otel.INVALID_SPAN
        host, port = cluster.broker_address.split(":")
        of_both = {
            "messaging.system": "rocketmq",
            "messaging.destination.name": TOPIC,
            "messaging.destination.partition.id": "0",
            "messaging.client.id": client_id,
            "messaging.message.id": sent.message_id,
            "messaging.message.body.size": 5,
            "messaging.rocketmq.message.type": "normal",
            "messaging.rocketmq.message.tag": "TagA",
            "messaging.rocketmq.message.keys": ("k1", "k2"),
        }
        assert dict(send.attributes) == {
            **of_both,
            "messaging.operation.name": "send",
            "messaging.operation.type": "send",
            "messaging.rocketmq.client_group": "shop",
            "server.address": host,
            "server.port": int(port),
        }
        assert dict(process.attributes) == {
            **of_both,
            "messaging.operation.name": "process",
            "messaging.operation.type": "process",
            "messaging.consumer.group.name": "billing",
            "messaging.rocketmq.consumption_model": "clustering",
        }
        assert send.status.status_code is process.status.status_code is StatusCode.UNSET

    simulate_cluster(work)


def test_each_message_of_a_batch_has_a_span_that_the_batch_is_linked_to(spans):
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        taken = []
        async with client_of(cluster, spans) as client:
            producer = client.producer("shop")
            sent = await producer.send_batch([Message(TOPIC, b"1"), Message(TOPIC, b"2")])

            async def handle(messages):
                taken.extend(messages)

            consumer = client.consumer("billing", TOPIC, consume_from="first")
            await handled(cluster, consumer, handle, lambda: len(taken) == 2, batch_size=10, concurrency=1)
        creates, send, process = spans.named("create Orders"), spans.only("send Orders"), spans.only("process Orders")
        assert {create.kind for create in creates} == {SpanKind.PRODUCER} and send.kind is SpanKind.CLIENT
        ids = [create.context.span_id for create in creates]
        assert linked(send) == ids and linked(process) == ids and parent_of(process) is None
        assert [message.properties["traceparent"] for message in taken] == [header(create) for create in creates]
        assert [create.attributes["messaging.message.id"] for create in creates] == list(sent.message_ids)
        assert [each.attributes["messaging.batch.message_count"] for each in (send, process)] == [2, 2]
        assert "messaging.message.id" not in send.attributes
        assert all("messaging.batch.message_count" not in create.attributes for create in creates)

    simulate_cluster(work)


def test_a_message_that_belongs_to_a_trace_keeps_it(spans):
    theirs = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        async with client_of(cluster, spans) as client:
            producer = client.producer("shop")
            carried = {"traceparent": theirs, "tracestate": "vendor=1"}
            await producer.send(Message(TOPIC, b"1", properties=carried))
            await producer.send_batch([Message(TOPIC, b"2", properties=carried), Message(TOPIC, b"3")])
            found = []
            async for message in client.consumer("billing", TOPIC, consume_from="first"):
                found.append(message)
                if len(found) == 3:
                    break
        single, batch = spans.named("send Orders")
        create = spans.only("create Orders")
        assert single.kind is SpanKind.CLIENT and linked(single) == [0xB7AD6B7169203331]
        assert linked(batch) == [0xB7AD6B7169203331, create.context.span_id]
        assert [message.user_properties for message in found] == [carried, carried, {"traceparent": header(create)}]
        first, second, third = spans.named("process Orders")
        assert parent_of(first) == parent_of(second) == 0xB7AD6B7169203331
        assert f"{first.context.trace_id:032x}" == "0af7651916cd43dd8448eb211c80319c"
        assert parent_of(third) == create.context.span_id

    simulate_cluster(work)


def test_in_a_loop_the_span_of_its_message_is_the_current_one(spans):
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        async with client_of(cluster, spans) as client:
            producer = client.producer("shop")
            for number in range(3):
                await producer.send(Message(TOPIC, b"%d" % number))
            current = []
            with spans.provider.get_tracer("app").start_as_current_span("loop") as loop:
                async for _ in client.consumer("billing", TOPIC, consume_from="first"):
                    current.append(otel.get_current_span().get_span_context())
                    if len(current) == 3:
                        break
                assert otel.get_current_span() is loop
        assert current == [span.context for span in spans.named("process Orders")]
        assert [parent_of(span) for span in spans.named("process Orders")] == [
            span.context.span_id for span in spans.named("send Orders")
        ]

    simulate_cluster(work)


def test_messages_acknowledged_by_hand_have_spans_until_they_are(spans):
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        async with client_of(cluster, spans) as client:
            producer = client.producer("shop")
            for number in range(2):
                await producer.send(Message(TOPIC, b"%d" % number))
            consumer = client.consumer("billing", TOPIC, consume_from="first", auto_ack=False)
            held = []
            async for message in consumer:
                assert otel.get_current_span() is otel.INVALID_SPAN
                held.append(message)
                if len(held) == 2:
                    break
            with consumer.processing(held[0]):
                one = otel.get_current_span().get_span_context()
                with consumer.processing(*held):
                    both = otel.get_current_span().get_span_context()
            assert otel.get_current_span() is otel.INVALID_SPAN
            (batch,) = spans.all[2:]
            assert batch.context == both and one.span_id in linked(batch) and len(linked(batch)) == 2
            spans._exporter.clear()
            assert spans.named("process Orders") == []
            consumer.ack(held[1])
            await consumer.nack(held[0])
        acked, nacked = spans.named("process Orders")
        assert acked.attributes["messaging.message.id"] == held[1].message_id
        assert acked.status.status_code is StatusCode.UNSET
        assert nacked.attributes["error.type"] == "reconsume_later"

    simulate_cluster(work)


def test_what_fails_says_so_and_retries_belong_to_the_same_trace(spans):
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        tries = []

        async def handle(message):
            tries.append(message)
            if len(tries) == 1:
                raise ValueError("no")
            if len(tries) == 2:
                raise ReconsumeLater(1)

        async with client_of(cluster, spans) as client:
            producer = client.producer("shop")
            await producer.send(Message(TOPIC, b"1"))
            with pytest.raises(ClientError):
                await producer.send(Message(TOPIC, b"2"), MessageQueue(TOPIC, "nobody", 0))
            consumer = client.consumer("billing", TOPIC, consume_from="first")
            await handled(cluster, consumer, handle, lambda: len(tries) == 3)
        sent, failed = spans.named("send Orders")
        assert failed.status.status_code is StatusCode.ERROR and "nobody" in failed.status.description
        assert failed.attributes["error.type"] == "gantrymq.errors.NoRoute"
        assert failed.events[0].name == "exception"
        raised, later, good = spans.named("process Orders")  # retries as well, by the topic they were sent to
        assert {parent_of(span) for span in (raised, later, good)} == {sent.context.span_id}
        assert (raised.attributes["error.type"], raised.status.description) == ("ValueError", "no")
        assert (later.attributes["error.type"], later.status.description) == ("reconsume_later", "0 of 1 consumed")
        assert good.status.status_code is StatusCode.UNSET

    simulate_cluster(work)


def test_types_of_messages_are_told(spans):
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        async with client_of(cluster, spans) as client:
            producer = client.transaction_producer("shop", lambda _: TransactionState.COMMIT)
            await producer.send(Message(TOPIC, b"1", properties={"__SHARDINGKEY": "customer-7"}))
            await producer.send(Message(TOPIC, b"2", delay_level=3))
            await producer.send(Message(TOPIC, b"3", deliver_at_ms=cluster.world.clock.now_ms() + 5000))
            begun = cluster.world.clock.now_ms()
            await producer.send(Message(TOPIC, b"4", delay_ms=7000))
            async with producer.transaction(Message(TOPIC, b"5")):
                pass
            await producer.send_oneway(Message(TOPIC, b"6"))
        prefix = "messaging.rocketmq.message."
        found = [
            {name.removeprefix(prefix): value for name, value in span.attributes.items() if name.startswith(prefix)}
            for span in spans.named("send Orders")
        ]
        assert found[0] == {"type": "fifo", "group": "customer-7"}
        assert found[1] == {"type": "delay", "delay_time_level": 3}
        assert found[2].keys() == {"type", "delivery_timestamp"} and found[2]["type"] == "delay"
        assert found[3] == {"type": "delay", "delivery_timestamp": begun + 7000}
        assert [each["type"] for each in found[4:]] == ["transaction", "normal"]

    simulate_cluster(work)


def test_a_request_and_its_answer_are_one_trace(spans):
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        async with client_of(cluster, spans) as asking, client_of(cluster, spans) as answering:
            replies = answering.producer("answers")

            async def answer(question):
                await replies.send(reply_to(question, b"yes"))

            running = asyncio.create_task(answering.consumer("shop", TOPIC, consume_from="first").run(answer))
            reply = await asking.producer("customers").request(Message(TOPIC, b"?"), timeout_s=20)
            await cluster.world.clock.sleep(1)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        assert reply.properties["traceparent"] == header(spans.only("send Orders"))
        assert len({span.context.trace_id for span in spans.all}) == 1 and len(spans.all) == 3

    simulate_cluster(work)


def test_without_an_sdk_nothing_is_added():
    async def work(cluster):
        await cluster.create_topic(TOPIC, 1)
        async with Client(cluster.namesrv, world=cluster.world, hooks=[OpenTelemetry()]) as client:
            await client.producer("shop").send(Message(TOPIC, b"1"))
            async for message in client.consumer("billing", TOPIC, consume_from="first"):
                assert message.user_properties == {}
                break

    simulate_cluster(work)
