"""Subscribers, publishers, routers and middlewares under `TestGantryBroker`: nothing is sent."""

import asyncio
from typing import Annotated

import pytest
from faststream import BaseMiddleware, Depends, FastStream
from faststream.exceptions import AckMessage, NackMessage, RejectMessage, SetupError, SubscriberNotFound
from faststream.message import AckStatus
from faststream.middlewares import AckPolicy
from pydantic import BaseModel, ValidationError

from gantrymq_faststream import (
    GantryBroker,
    GantryPublisher,
    GantryResponse,
    GantryRoute,
    GantryRouter,
    RocketBroker,
    TestApp,
    TestGantryBroker,
)
from gantrymq_faststream.annotations import GantryBatchMessage, GantryMessage
from gantrymq_faststream.annotations import GantryBroker as TheBroker
from gantrymq_faststream.message import GantryMessage as PlainMessage


class Order(BaseModel):
    id: int
    amount: int = 1


def run(broker, work):
    async def main():
        async with TestGantryBroker(broker):
            return await work()

    return asyncio.run(main())


def test_a_body_becomes_an_argument_and_a_result_a_message():
    broker, invoices = GantryBroker(), []

    @broker.subscriber("Orders", group="billing")
    @broker.publisher("Invoices")
    async def bill(order: Order) -> dict[str, int]:
        return {"order": order.id, "total": order.amount * 3}

    @broker.subscriber("Invoices", group="archive")
    async def keep(invoice: dict[str, int]):
        invoices.append(invoice)

    async def work():
        await broker.publish(Order(id=7, amount=2), "Orders")
        bill.mock.assert_called_once_with({"id": 7, "amount": 2})
        await keep.assert_called_once_with({"order": 7, "total": 6})

    run(broker, work)
    assert invoices == [{"order": 7, "total": 6}]


def test_what_does_not_fit_the_type_is_refused():
    broker = GantryBroker()

    @broker.subscriber("Orders", group="billing")
    async def bill(order: Order): ...

    async def work():
        with pytest.raises(ValidationError):
            await broker.publish({"id": "seven"}, "Orders")

    run(broker, work)


def test_headers_keys_and_tags_arrive():
    broker, seen = GantryBroker(), []

    @broker.subscriber("Orders", group="billing")
    async def bill(body: str, message: GantryMessage, its: TheBroker):
        assert its is broker
        seen.append(message)

    async def work():
        await broker.publish(
            "one", "Orders", tags="new", keys=("a", "b"), headers={"source": "web", "n": 3}, correlation_id="c1"
        )

    run(broker, work)
    (message,) = seen
    assert message.headers == {"source": "web", "n": "3", "correlation_id": "c1", "content-type": "text/plain"}
    assert (message.correlation_id, message.content_type) == ("c1", "text/plain")
    raw = message.raw_message
    assert (raw.tags, raw.keys, raw.topic, message.message_id) == ("new", "a b", "Orders", raw.message_id)


@pytest.mark.parametrize("body", [b"\x00\xff", "text", "", 7, 1.5, [1, "two"], {"a": None}, None])
def test_bodies_of_any_kind_come_back(body):
    broker, seen = GantryBroker(), []

    @broker.subscriber("Orders", group="billing")
    async def bill(message: GantryMessage):
        seen.append(await message.decode())

    run(broker, lambda: broker.publish(body, "Orders"))
    assert seen == [body]


def test_tags_choose_among_subscribers_and_a_group_gets_a_message_once():
    broker, seen = GantryBroker(), []

    @broker.subscriber("Orders", group="red", expression="red || blue")
    async def red(body: str):
        seen.append(("red", body))

    @broker.subscriber("Orders", group="all")
    async def every(body: str):
        seen.append(("all", body))

    member = GantryBroker()

    @member.subscriber("Orders", group="all")
    async def too(body: str):
        seen.append(("too", body))

    async def main():
        async with TestGantryBroker(broker, member):
            for tag in ("red", "green", None):
                await broker.publish(str(tag), "Orders", tags=tag)

    asyncio.run(main())
    group = [(who, body) for who, body in seen if who != "red"]
    assert [body for who, body in seen if who == "red"] == ["red"]
    assert [body for _, body in group] == ["red", "green", "None"]
    assert len({who for who, _ in group}) == 1


def test_a_batch_subscriber_gets_lists():
    broker, seen = GantryBroker(), []

    @broker.subscriber("Orders", group="billing", batch=True)
    async def bill(orders: list[Order], batch: GantryBatchMessage):
        seen.append([order.id for order in orders])
        assert [headers["source"] for headers in batch.batch_headers] == ["web"] * len(orders)

    async def work():
        results = await broker.publish_batch({"id": 1}, {"id": 2}, topic="Orders", headers={"source": "web"})
        assert [result.queue_offset for result in results] == [0, 1]
        await broker.publish({"id": 3}, "Orders", headers={"source": "web"})
        assert await broker.publish_batch(topic="Orders") == ()

    run(broker, work)
    assert seen == [[1, 2], [3]]


def test_a_batch_publisher_sends_a_list_as_several():
    broker, seen = GantryBroker(), []

    @broker.subscriber("Orders", group="billing")
    @broker.publisher("Lines", batch=True, headers={"from": "publisher"}, tags="line")
    async def split(text: str) -> list[str]:
        return text.split()

    @broker.subscriber("Lines", group="lines")
    async def line(text: str, message: GantryMessage):
        seen.append((text, message.headers["from"], message.raw_message.tags))

    run(broker, lambda: broker.publish("a b c", "Orders"))
    assert seen == [(text, "publisher", "line") for text in "abc"]


def test_a_response_says_more_than_its_publisher():
    broker, seen = GantryBroker(), []

    @broker.subscriber("Orders", group="billing")
    @broker.publisher("Invoices", headers={"a": "publisher", "b": "publisher"}, tags="publisher", keys="k")
    async def bill(body: str):
        return GantryResponse(body, headers={"a": "handler"}, tags="handler", correlation_id="c2")

    @broker.subscriber("Invoices", group="archive")
    async def keep(message: GantryMessage):
        seen.append(message)

    run(broker, lambda: broker.publish("x", "Orders"))
    raw = seen[0].raw_message
    assert (seen[0].headers["a"], seen[0].headers["b"], seen[0].correlation_id) == ("handler", "publisher", "c2")
    assert (raw.tags, raw.keys) == ("handler", "k")


def test_the_correlation_id_goes_on():
    broker, seen = GantryBroker(), []

    @broker.subscriber("Orders", group="billing")
    @broker.publisher("Invoices")
    async def bill(body: str) -> str:
        return body

    @broker.subscriber("Invoices", group="archive")
    async def keep(message: GantryMessage):
        seen.append(message.correlation_id)

    run(broker, lambda: broker.publish("x", "Orders", correlation_id="c1"))
    assert seen == ["c1"]


def test_a_request_is_answered_only_if_it_has_a_subscriber():
    broker = GantryBroker()

    @broker.subscriber("Prices", group="prices")
    async def price(name: str):
        return GantryResponse({"price": len(name)}, headers={"currency": "EUR"})

    async def work():
        answer = await broker.request("apples", "Prices")
        assert (await answer.decode(), answer.headers["currency"]) == ({"price": 6}, "EUR")
        with pytest.raises(SubscriberNotFound):
            await broker.request("apples", "Elsewhere")

    run(broker, work)


def test_a_reply_goes_to_the_topic_that_the_message_names():
    broker, seen = GantryBroker(), []

    @broker.subscriber("Prices", group="prices")
    async def price(name: str) -> int:
        return len(name)

    @broker.subscriber("Silent", group="silent", no_reply=True)
    async def silent(name: str) -> int:
        return len(name)

    @broker.subscriber("Answers", group="answers")
    async def answered(value: int):
        seen.append(value)

    async def work():
        await broker.publish("apples", "Prices", reply_to="Answers")
        await broker.publish("apples", "Silent", reply_to="Answers")

    run(broker, work)
    assert seen == [6]


class Acks:
    """A consumer that records acknowledgements."""

    def __init__(self):
        self.said = []

    settings = GantryBroker().subscriber("t", group="g")._parsing.consumer.settings

    def ack(self, message):
        self.said.append("ack")
        return True

    async def nack(self, message, delay_level=0):
        self.said.append(f"nack {delay_level}")
        return True


@pytest.mark.parametrize(
    ("policy", "raises", "said"),
    [
        (AckPolicy.ACK_FIRST, ZeroDivisionError, ["ack"]),
        (AckPolicy.ACK_FIRST, None, ["ack"]),
        (AckPolicy.ACK, ZeroDivisionError, ["ack"]),
        (AckPolicy.NACK_ON_ERROR, ZeroDivisionError, ["nack 0"]),
        (AckPolicy.NACK_ON_ERROR, None, ["ack"]),
        (AckPolicy.REJECT_ON_ERROR, ZeroDivisionError, ["nack -1"]),
        (AckPolicy.REJECT_ON_ERROR, None, ["ack"]),
        (AckPolicy.MANUAL, ZeroDivisionError, []),
        (AckPolicy.MANUAL, None, []),
        (AckPolicy.ACK, NackMessage(delay_level=5), ["nack 5"]),
        (AckPolicy.NACK_ON_ERROR, RejectMessage(), ["nack -1"]),
        (AckPolicy.NACK_ON_ERROR, AckMessage(), ["ack"]),
        (None, ZeroDivisionError, ["nack 0"]),
    ],
)
def test_what_a_handler_does_decides_as_the_policy_says(policy, raises, said):
    broker, acks = GantryBroker(), Acks()
    more = {} if policy is None else {"ack_policy": policy}
    subscriber = broker.subscriber("Orders", group="billing", **more)
    subscriber._parsing.consumer = acks

    @subscriber
    async def handle(body: str):
        if raises is not None:
            raise raises

    async def work():
        if raises is ZeroDivisionError:
            with pytest.raises(ZeroDivisionError):
                await broker.publish("x", "Orders")
        else:
            await broker.publish("x", "Orders")

    run(broker, work)
    assert acks.said == said


def test_a_broker_and_a_router_have_a_policy_for_their_subscribers():
    router = GantryRouter(ack_policy=AckPolicy.ACK)
    broker = GantryBroker(ack_policy=AckPolicy.REJECT_ON_ERROR)
    of_router = router.subscriber("A", group="a")
    broker.include_router(router)
    assert broker.subscriber("B", group="b").ack_policy is AckPolicy.REJECT_ON_ERROR
    assert broker.subscriber("C", group="c", ack_policy=AckPolicy.MANUAL).ack_policy is AckPolicy.MANUAL
    assert of_router.ack_policy is not AckPolicy.MANUAL


def test_what_was_decided_by_hand_stays():
    broker, acks, seen = GantryBroker(), Acks(), []
    subscriber = broker.subscriber("Orders", group="billing", ack_policy=AckPolicy.MANUAL)
    subscriber._parsing.consumer = acks

    @subscriber
    async def handle(body: str, message: GantryMessage):
        seen.append(message)
        await message.nack(delay_level=3)
        await message.ack()
        await message.reject()

    run(broker, lambda: broker.publish("x", "Orders"))
    assert acks.said == ["nack 3"]
    assert seen[0].committed is AckStatus.NACKED


def test_routers_put_their_prefix_before_topics_and_bring_handlers():
    broker, seen = GantryBroker(), []

    async def double(value: int) -> int:
        return value * 2

    router = GantryRouter(
        "eu_", handlers=[GantryRoute(double, "In", group="double", publishers=[GantryPublisher("Out")])]
    )

    @router.subscriber("Out", group="out")
    async def out(value: int):
        seen.append(value)

    inner = GantryRouter("at_")

    @inner.subscriber("Deep", group="deep")
    async def deep(value: int):
        seen.append(-value)

    router.include_router(inner)
    broker.include_router(router)

    async def work():
        await broker.publish(4, "eu_In")
        await broker.publish(5, "eu_at_Deep")

    run(broker, work)
    assert seen == [8, -5]


def test_middlewares_see_what_comes_and_goes():
    seen = []

    class Watch(BaseMiddleware):
        async def consume_scope(self, call_next, message):
            assert isinstance(message, PlainMessage)
            seen.append(("in", await message.decode()))
            return await call_next(message)

        async def publish_scope(self, call_next, cmd):
            seen.append(("out", cmd.destination, cmd.body))
            cmd.headers["watched"] = "yes"
            return await call_next(cmd)

    broker = GantryBroker(middlewares=[Watch])

    @broker.subscriber("A", group="a")
    @broker.publisher("B")
    async def a(body: str) -> str:
        return body + "!"

    @broker.subscriber("B", group="b")
    async def b(body: str, message: GantryMessage):
        assert message.headers["watched"] == "yes"

    run(broker, lambda: broker.publish("x", "A"))
    assert seen == [("out", "A", "x"), ("in", "x"), ("out", "B", "x!"), ("in", "x!")]


def test_filters_share_a_subscriber_out_and_dependencies_are_made():
    broker, seen = GantryBroker(), []
    subscriber = broker.subscriber("Orders", group="billing")

    def unit():
        return "pieces"

    @subscriber(filter=lambda message: message.headers.get("kind") == "big")
    async def big(body: int, unit: Annotated[str, Depends(unit)]):
        seen.append(("big", body, unit))

    @subscriber
    async def rest(body: int):
        seen.append(("rest", body))

    async def work():
        await broker.publish(1, "Orders", headers={"kind": "big"})
        await broker.publish(2, "Orders")

    run(broker, work)
    assert seen == [("big", 1, "pieces"), ("rest", 2)]


def test_a_publisher_may_be_called():
    broker = GantryBroker()
    publisher = broker.publisher("Orders", keys="k", ordering_key="ann")

    async def work():
        result = await publisher.publish({"id": 1}, headers={"a": "b"})
        assert result.ok
        publisher.mock.assert_called_once_with({"id": 1})

    run(broker, work)


def test_an_app_runs_under_it():
    broker = RocketBroker()
    app = FastStream(broker)
    begun = []

    @app.after_startup
    async def publish():
        await broker.publish("x", "Orders")

    @broker.subscriber("Orders", group="billing")
    async def bill(body: str):
        begun.append(body)

    async def main():
        async with TestGantryBroker(broker), TestApp(app):
            pass

    asyncio.run(main())
    assert begun == ["x"]


@pytest.mark.parametrize(
    ("topics", "more", "said"),
    [
        ((), {"group": "g"}, "needs a topic"),
        (("",), {"group": "g"}, "needs a topic"),
        (("A",), {"group": ""}, "needs a consumer group"),
        (("A",), {"group": "g", "max_workers": 0}, "max_workers of g is 0; expected 1"),
        (("A",), {"group": "g", "max_records": 2000}, "max_records of g is 2000; expected 1 to 1024"),
    ],
)
def test_a_subscriber_that_cannot_be_is_refused_at_once(topics, more, said):
    with pytest.raises(SetupError, match=said):
        GantryBroker().subscriber(*topics, **more)


def test_a_publisher_needs_a_topic_and_a_broker_a_router_of_its_own():
    with pytest.raises(SetupError, match="needs a topic"):
        GantryBroker().publisher("")
    with pytest.raises(SetupError, match="object is not a router for this broker"):
        GantryBroker().include_router(object())


def test_a_handler_that_asks_for_a_driver_class_is_told_what_to_write():
    broker = GantryBroker()

    @broker.subscriber("Orders", group="billing")
    async def bill(message: PlainMessage): ...

    with pytest.raises(SetupError, match="from gantrymq_faststream.annotations import GantryMessage"):
        run(broker, lambda: broker.publish("x", "Orders"))


def test_a_cancelled_error_of_a_handler_is_its_failure_here_too():
    broker, acknowledged = GantryBroker(), []

    @broker.subscriber("Orders", group="billing")
    async def bill(order: int, message: GantryMessage):
        acknowledged.append(message)
        raise asyncio.CancelledError

    async def work():
        with pytest.raises(RuntimeError, match="a handler raised CancelledError"):
            await broker.publish(7, "Orders")

    run(broker, work)
    assert [message.committed for message in acknowledged] == [AckStatus.NACKED]


def test_what_a_plain_handler_returns_is_awaited_and_published():
    broker, invoices = GantryBroker(), []

    async def later(order):
        await asyncio.sleep(0)
        return {"order": order}

    @broker.subscriber("Orders", group="billing")
    @broker.publisher("Invoices")
    def bill(order: int):
        return later(order)

    @broker.subscriber("Invoices", group="archive")
    async def keep(invoice: dict[str, int]):
        invoices.append(invoice)

    async def work():
        await broker.publish(7, "Orders")

    run(broker, work)
    assert invoices == [{"order": 7}]
