"""The tasks of a subscriber with a broker process: their ends, traces and log lines."""

import asyncio
import logging
import uuid

import pytest
from faststream import BaseMiddleware
from faststream.exceptions import SetupError
from polling import until

from gantrymq.client import Client, Message
from gantrymq_faststream import GantryBroker
from gantrymq_faststream.annotations import GantryBatchMessage, GantryMessage

END_S = 60.0


@pytest.fixture
def topic():
    return f"Orders_{uuid.uuid4().hex[:8]}"


@pytest.mark.parametrize("suspends", [True, False])
def test_a_handler_that_cancels_its_own_task_does_not_end_the_subscriber(namesrv, topic, suspends):
    broker, seen = GantryBroker(namesrv), []

    @broker.subscriber(topic, group=f"group_{topic}", consume_from="first")
    async def bill(order: int, message: GantryMessage):
        seen.append((order, message.raw_message.reconsume_times))
        if order == 1 and not message.raw_message.reconsume_times:
            asyncio.current_task().cancel()
            if suspends:
                await asyncio.sleep(0)

    expected = [(1, 0), (2, 0), *([(1, 1)] if suspends else [])]

    async def main():
        async with broker:
            for order in (1, 2):
                await broker.publish(order, topic, ordering_key="one")
            await broker.start()
            await until(lambda: len(seen) == len(expected), "calls of the handler", END_S)
            (subscriber,) = broker.subscribers
            assert len(subscriber.tasks) == 1

    asyncio.run(main())
    assert seen == expected


def test_a_stop_writes_no_line_for_each_task(namesrv, topic, caplog):
    logger = logging.getLogger(f"test_{topic}")
    broker = GantryBroker(namesrv, logger=logger)

    @broker.subscriber(topic, group=f"group_{topic}", max_workers=10)
    async def bill(order: int): ...

    async def main():
        async with broker:
            await broker.start()
            await asyncio.sleep(0)
        await asyncio.sleep(0)

    with caplog.at_level(logging.DEBUG, logger.name):
        asyncio.run(main())
    assert [record.getMessage() for record in caplog.records if "being executed" in record.getMessage()] == []


def test_a_subscriber_whose_consumer_is_gone_says_so(namesrv, topic, caplog):
    logger = logging.getLogger(f"test_{topic}")
    broker = GantryBroker(namesrv, logger=logger)

    @broker.subscriber(topic, group=f"group_{topic}")
    async def bill(order: int): ...

    async def main():
        async with broker:
            await broker.start()
            (subscriber,) = broker.subscribers
            await subscriber.consumer.close()
            await until(lambda: not subscriber.tasks, "end of the tasks", END_S)

    with caplog.at_level(logging.DEBUG, logger.name):
        asyncio.run(main())
    assert f"the consumer of group_{topic} was closed; its subscriber stopped receiving messages" in caplog.text


def test_a_subscriber_whose_filter_the_broker_refuses_says_so(namesrv, topic, caplog):
    logger = logging.getLogger(f"test_{topic}")
    broker = GantryBroker(namesrv, logger=logger)

    @broker.subscriber(topic, group=f"group_{topic}", expression="a > 4", expression_type="SQL29")
    async def bill(order: int): ...

    async def main():
        async with broker:
            await broker.publish(1, topic)
            await broker.start()
            (subscriber,) = broker.subscribers
            await until(lambda: not subscriber.tasks, "end of the tasks", END_S)

    with caplog.at_level(logging.DEBUG, logger.name):
        asyncio.run(main())
    assert f"the subscriber of group_{topic} stopped receiving messages: 127.0.0.1" in caplog.text
    assert "answered code 1: the broker does not support consumer to filter message by SQL29" in caplog.text


def test_a_subscriber_of_a_misspelt_topic_warns(namesrv, topic, caplog):
    broker = GantryBroker(namesrv)

    @broker.subscriber(topic[:-1] + "_", group=f"group_{topic}")
    async def bill(order: int): ...

    async def main():
        async with broker:
            await broker.publish(1, topic)
            await broker.start()
            await until(lambda: "did you mean" in caplog.text, "warning", END_S)

    with caplog.at_level(logging.WARNING, "gantrymq.client"):
        asyncio.run(main())
    assert f"(did you mean {topic}?)" in caplog.text


def test_an_answer_that_cannot_be_delivered_does_not_call_the_handler_again(namesrv, topic, caplog):
    """The asker of a request has left."""
    logger = logging.getLogger(f"test_{topic}")
    broker, seen, go_on = GantryBroker(namesrv, logger=logger), [], asyncio.Event()

    @broker.subscriber(topic, group=f"group_{topic}", consume_from="first")
    async def price(name: str, message: GantryMessage) -> int:
        seen.append((name, message.raw_message.reconsume_times))
        if name == "apples":
            await go_on.wait()
        return len(name)

    async def main():
        async with broker:
            await broker.start()
            async with Client(namesrv, instance_name="asker") as asker:
                question = asker.producer("askers").request(Message(topic, b"apples"), timeout_s=END_S)
                asked = asyncio.ensure_future(question)
                await until(lambda: seen, "calls of the handler", END_S)
                asked.cancel()
            go_on.set()
            await until(lambda: "the answer to request" in caplog.text, "line in the log", END_S)
            await broker.publish("pears", topic, delay_level=6)  # 2 s, when the first would have come again
            await until(lambda: len(seen) == 2, "calls of the handler", END_S)

    with caplog.at_level(logging.DEBUG, logger.name):
        asyncio.run(main())
    assert seen == [("apples", 0), ("pears", 0)]


def test_handlers_run_in_the_span_of_their_message(namesrv, topic):
    pytest.importorskip("opentelemetry.sdk", reason="needs opentelemetry-sdk")
    from opentelemetry import baggage, context, trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from gantrymq.client.opentelemetry import OpenTelemetry

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    seen, out, batches = {}, f"Out_{topic}", f"Batches_{topic}"

    def note(name):
        seen[name] = (trace.get_current_span().get_span_context(), baggage.get_baggage("shop"))

    class Noting(BaseMiddleware):
        async def consume_scope(self, call_next, msg):
            raw = msg.raw_message
            note(f"middleware {raw[0].topic if isinstance(raw, list) else raw.topic}")
            return await call_next(msg)

    broker = GantryBroker(namesrv, client_options={"hooks": [OpenTelemetry(provider)]}, middlewares=[Noting])

    @broker.subscriber(topic, group=f"group_{topic}", consume_from="first")
    @broker.publisher(out)
    async def bill(order: int) -> int:
        note("bill")
        return order

    @broker.subscriber(out, group=f"group_{out}", consume_from="first")
    def keep(order: int):
        note("keep")

    @broker.subscriber(batches, group=f"group_{batches}", consume_from="first", batch=True)
    async def several(numbers: list[int]):
        note(f"batch of {len(numbers)}")

    async def main():
        async with broker:
            token = context.attach(baggage.set_baggage("shop", "north"))
            with provider.get_tracer("test").start_as_current_span("order"):
                await broker.publish(1, topic)
                await broker.publish_batch(1, 2, 3, topic=batches, ordering_key="one")
            context.detach(token)
            await broker.start()
            await until(lambda: {"bill", "keep", "batch of 3"} <= seen.keys(), "calls of the handler", END_S)

    asyncio.run(main())
    spans = {span.context.span_id: span for span in exporter.get_finished_spans()}
    (order,) = [span for span in spans.values() if span.name == "order"]
    for name, of in (("bill", topic), (f"middleware {topic}", topic), ("keep", out), (f"middleware {out}", out)):
        current, shop = seen[name]
        assert (current.trace_id, shop) == (order.context.trace_id, "north"), name
        assert spans[current.span_id].name == f"process {of}"
    current, _ = seen["batch of 3"]
    links = spans[current.span_id].links
    assert [link.context.trace_id for link in links] == [order.context.trace_id] * 3


@pytest.mark.parametrize("hint", [list[GantryMessage], tuple[GantryBatchMessage, ...], list[GantryMessage] | None])
@pytest.mark.parametrize("decorated", [True, False])
def test_a_list_of_messages_is_refused_when_the_handler_is_declared(hint, decorated):
    broker = GantryBroker()

    async def bill(batch): ...

    bill.__annotations__["batch"] = hint
    handler = broker.publisher("Invoices")(bill) if decorated else bill
    with pytest.raises(SetupError, match="argument batch of a handler of billing is a collection of messages"):
        broker.subscriber("Orders", group="billing", batch=True)(handler)
    with pytest.raises(SetupError, match="for batch: GantryBatchMessage"):
        broker.subscriber("Orders", group="billing", batch=True)(filter=lambda message: True)(handler)


@pytest.mark.parametrize("decorated", [True, False])
def test_a_generator_function_is_refused_when_it_is_declared(decorated):
    broker = GantryBroker()

    def plain(order: int):
        yield order

    async def asynchronous(order: int):
        yield order

    for handler in (plain, asynchronous):
        declared = broker.publisher("Invoices")(handler) if decorated else handler
        with pytest.raises(SetupError, match="the handler of billing is a generator function"):
            broker.subscriber("Orders", group="billing")(declared)


def test_other_arguments_of_a_handler_are_taken():
    broker = GantryBroker()

    @broker.subscriber("Orders", group="billing", batch=True)
    async def bill(orders: list[dict[str, int]], batch: GantryBatchMessage, unknown: "NotKnownYet"): ...  # noqa: F821

    assert broker.subscribers
