"""The same tests with `TestGantryBroker` and with a broker process: both reject the same messages."""

import asyncio
import contextlib
import logging
import uuid

import pytest
from faststream.exceptions import SetupError
from faststream.middlewares import AckPolicy
from polling import until

from gantrymq.client import CallTimeout, ClientError
from gantrymq_faststream import GantryBroker, ResultNotPublished, TestGantryBroker
from gantrymq_faststream.annotations import GantryBatchMessage, GantryMessage

END_S = 60.0


class Bench:
    """A broker under test, in memory or real.

    Attributes:
        broker: to declare subscribers on.
        id: ends the names of topics and groups.
        seen: what handlers noted.
        log: lines of the broker's log.
    """

    def __init__(self, namesrv):
        self.real = namesrv is not None
        self.id = uuid.uuid4().hex[:8]
        self.log = []
        logger = logging.getLogger(f"bench_{self.id}")
        logger.setLevel(logging.DEBUG)
        logger.propagate = False
        logger.addHandler(_Keeping(self.log))
        self.broker = GantryBroker(namesrv, logger=logger)
        self.seen = []

    def name(self, word):
        return f"{word}_{self.id}"

    def subscriber(self, topic, **options):
        options.setdefault("group", f"group_{topic}")
        return self.broker.subscriber(topic, consume_from="first", **options)

    def note(self, what):
        self.seen.append(what)

    @contextlib.asynccontextmanager
    async def running(self):
        async with TestGantryBroker(self.broker, with_real=self.real):
            yield self.broker

    async def publish(self, *args, **options):
        """As the broker's; an error of the handler, which in memory comes back here, is returned."""
        try:
            await self.broker.publish(*args, **options)
        except Exception as error:
            if self.real:
                raise
            return error
        return None

    async def until(self, condition):
        await until(condition, "call of a handler", END_S)


class _Keeping(logging.Handler):
    def __init__(self, lines):
        super().__init__()
        self._lines = lines

    def emit(self, record):
        self._lines.append(record.getMessage())


@pytest.fixture(params=["memory", "real"])
def bench(request):
    return Bench(request.getfixturevalue("namesrv") if request.param == "real" else None)


@pytest.mark.parametrize("result", [None, ""])
def test_an_empty_result_is_published_as_json_and_its_message_is_consumed_once(bench, result):
    invoices = bench.name("Invoices")

    @bench.subscriber(bench.name("Orders"))
    @bench.broker.publisher(invoices)
    async def bill(order: int):
        bench.note("billed")
        return result

    @bench.subscriber(invoices)
    async def keep(message: GantryMessage):
        bench.note(await message.decode())
        bench.note(message.body)

    async def main():
        async with bench.running() as broker:
            await broker.publish(1, bench.name("Orders"))
            await bench.until(lambda: len(bench.seen) == 3)

    asyncio.run(main())
    assert bench.seen == ["billed", result, b"null" if result is None else b'""']


def test_an_empty_result_answers_requests_and_messages_with_a_reply_topic(bench):
    prices, answers = bench.name("Prices"), bench.name("Answers")

    @bench.subscriber(prices)
    async def price(name: str) -> None:
        bench.note("asked")

    @bench.subscriber(answers)
    async def answered(message: GantryMessage):
        bench.note(await message.decode())

    async def main():
        async with bench.running() as broker:
            answer = await broker.request("apples", prices, timeout_s=20)
            assert await answer.decode() is None
            await broker.publish("pears", prices, reply_to=answers)
            await bench.until(lambda: len(bench.seen) == 3)

    asyncio.run(main())
    assert bench.seen == ["asked", "asked", None]


@pytest.mark.parametrize("body", [None, "", [], {}])
def test_empty_values_are_published(bench, body):
    @bench.subscriber(bench.name("Orders"))
    async def bill(message: GantryMessage):
        bench.note(await message.decode())

    async def main():
        async with bench.running() as broker:
            await broker.publish(body, bench.name("Orders"))
            await bench.until(lambda: bench.seen)

    asyncio.run(main())
    assert bench.seen == [body]


@pytest.mark.parametrize("policy", [AckPolicy.NACK_ON_ERROR, AckPolicy.ACK, AckPolicy.REJECT_ON_ERROR])
@pytest.mark.parametrize("result", [b"", b"x" * (4 * 1024 * 1024 + 1), object()], ids=["empty", "too large", "object"])
def test_a_result_that_can_never_be_published_does_not_call_the_handler_again(bench, policy, result):
    orders, raised = bench.name("Orders"), []

    @bench.subscriber(orders, ack_policy=policy, max_workers=1)
    @bench.broker.publisher(bench.name("Invoices"))
    async def bill(order: int, message: GantryMessage):
        bench.note((order, message.raw_message.reconsume_times))
        return result if order == 1 else b"ok"

    async def main():
        async with bench.running():
            raised.append(await bench.publish(1, orders))
            await bench.publish(2, orders)
            await bench.until(lambda: len(bench.seen) == 2)
            if bench.real and policy is AckPolicy.NACK_ON_ERROR:
                await asyncio.sleep(1.5)  # real time: a broker process would send the first message again after 1 s

    asyncio.run(main())
    assert sorted(bench.seen) == [(1, 0), (2, 0)]
    (error,) = raised
    text = "\n".join(bench.log) if bench.real else repr(error)
    assert "succeeded, but its result cannot be published" in text
    if not bench.real:
        assert isinstance(error, ResultNotPublished)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"topic": "not a topic!"}, "not a topic!"),
        ({"topic": "x" * 128}, "128 characters"),
        ({"topic": ""}, "topic"),
        ({"topic": "SCHEDULE_TOPIC_XXXX"}, "SCHEDULE_TOPIC_XXXX"),
        ({"message": b""}, "is empty"),
        ({"message": b"x" * (4 * 1024 * 1024 + 1)}, "the longest allowed"),
        ({"headers": {"UNIQ_KEY": "mine"}}, "UNIQ_KEY"),
        ({"headers": {"a": "\x01"}}, "0x01"),
        ({"headers": {"a": "x" * 40_000}}, "properties"),
        ({"keys": 5}, "keys"),
        ({"delay_ms": "soon"}, "delay_ms"),
        ({"delay_ms": 365 * 86_400_000}, "longest"),
        ({"deliver_at_ms": 1 << 53}, "longest"),
        ({"ordering_key": 1.5}, "the key that chooses a queue is 1.5"),
        ({"headers": {"a": "\ud800"}}, "not valid UTF-16"),
        ({"headers": {"a": "x" * 30_700}}, "the properties have 30893 bytes"),
        ({"delay_level": 1 << 40}, "DELAY=1099511627776 is not a delay level"),
        ({"message": object()}, "a body of type object cannot be written"),
        ({"message": "\ud800"}, "a body of type str cannot be written"),
        ({"nonsense": 1}, "a message has no option nonsense; there are tags, keys"),
        ({"timeout_s": 0}, "timeout_s is 0; expected a number of seconds above 0"),
        ({"timeout_s": "x"}, "timeout_s is 'x'"),
    ],
)
def test_what_cannot_be_published_is_refused(bench, options, said):
    options = {"message": "x", "topic": bench.name("Orders"), **options}
    message = options.pop("message")

    async def main():
        async with bench.running() as broker:
            with pytest.raises(ClientError, match=said):
                await broker.publish(message, **options)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"topic": None}, "the topic of a message is None"),
        ({"timeout_s": float("inf")}, "timeout_s is inf"),
        ({"timeout_s": -1}, "timeout_s is -1"),
        ({"ordering_key": [1]}, "the key that chooses a queue"),
        ({"headers": {"a": "\ud800"}}, "not valid UTF-16"),
    ],
)
def test_a_request_that_cannot_be_sent_is_refused(bench, options, said):
    async def main():
        async with bench.running() as broker:
            with pytest.raises(ClientError, match=said):
                await broker.request("x", **{"topic": bench.name("Prices"), **options})

    asyncio.run(main())


@pytest.mark.parametrize(
    ("bodies", "options", "said"),
    [
        (("a", b""), {}, "is empty"),
        (("a", object()), {}, "a body of type object cannot be written"),
        (("a", "b"), {"ordering_key": [1]}, "the key that chooses a queue"),
        (("a", "b"), {"delay_level": 3}, "delayed message cannot be part of a batch"),
        (("a", "b"), {"topic": "%RETRY%billing"}, "takes no batches"),
    ],
)
def test_what_cannot_be_published_as_a_batch_is_refused(bench, bodies, options, said):
    async def main():
        async with bench.running() as broker:
            with pytest.raises(ClientError, match=said):
                await broker.publish_batch(*bodies, **{"topic": bench.name("Orders"), **options})

    asyncio.run(main())


@pytest.mark.parametrize(
    ("topic", "options", "said"),
    [
        ("not a topic!", {}, "not a topic!"),
        ("Orders", {"group": "not a group!"}, "not a group!"),
        ("Orders", {"pull_batch": 0}, "pull_batch is 0"),
        ("Orders", {"expression": "||"}, "[Ee]xpression|tag"),
        ("Orders", {"allocation": "NOBODYS"}, "NOBODYS"),
    ],
)
def test_a_subscriber_that_cannot_be_is_refused_at_the_start(bench, topic, options, said):
    @bench.subscriber(topic, **{"group": "billing", **options})
    async def bill(body: str): ...

    async def main():
        with pytest.raises(ClientError, match=said):
            async with bench.running():
                pass
        if bench.real:
            await bench.broker.stop()

    asyncio.run(main())


def test_two_subscribers_of_one_group_are_refused_at_the_start(bench):
    @bench.subscriber("A", group="same")
    async def a(body: str): ...

    @bench.subscriber("B", group="same")
    async def b(body: str): ...

    async def main():
        with pytest.raises(SetupError, match="several subscribers have the group same"):
            async with bench.running():
                pass
        if bench.real:
            await bench.broker.stop()

    asyncio.run(main())


def test_a_request_that_gets_no_answer_ends_with_an_error(bench):
    silent = bench.name("Silent")

    @bench.subscriber(silent, no_reply=True)
    async def heard(body: str) -> str:
        return body

    async def main():
        async with bench.running() as broker:
            for topic in (silent, bench.name("Nobody")):
                with pytest.raises(CallTimeout, match="no reply to the request"):
                    await broker.request("x", topic, timeout_s=1)

    asyncio.run(main())


def test_sql92_chooses_by_headers(bench):
    pytest.importorskip("gantrymq_filter_sql92")
    sized = bench.name("Sized")

    @bench.subscriber(sized, expression="size > 5", expression_type="SQL92")
    async def large(size: int):
        bench.note(size)

    async def main():
        async with bench.running() as broker:
            await broker.publish(0, sized, headers={"size": 0})
            for size in (9, 4, 7):
                await broker.publish(size, sized, headers={"size": size})
            await bench.until(lambda: len(bench.seen) == 2)

    asyncio.run(main())
    assert sorted(bench.seen) == [7, 9]


def test_a_delayed_message_arrives(bench):
    orders = bench.name("Orders")

    @bench.subscriber(orders)
    async def bill(order: int):
        bench.note(order)

    async def main():
        async with bench.running() as broker:
            await broker.publish(1, orders, delay_level=1)
            await bench.until(lambda: bench.seen)

    asyncio.run(main())
    assert bench.seen == [1]


def test_a_batch_is_handed_out_in_lists_of_bounded_length(bench):
    lines = bench.name("Lines")

    @bench.subscriber(lines, batch=True, max_records=4)
    async def line(numbers: list[int], batch: GantryBatchMessage):
        assert len(batch.batch_headers) == len(numbers)
        bench.note(numbers)

    async def main():
        async with bench.running() as broker:
            await broker.publish_batch(*range(10), topic=lines, ordering_key="one")
            await bench.until(lambda: sum(map(len, bench.seen)) == 10)

    asyncio.run(main())
    assert [number for numbers in bench.seen for number in numbers] == list(range(10))
    assert max(map(len, bench.seen)) <= 4


def test_none_is_a_message_of_a_batch_at_any_position(bench):
    lines = bench.name("Lines")

    @bench.subscriber(lines)
    async def line(message: GantryMessage):
        bench.note(await message.decode())

    async def main():
        async with bench.running() as broker:
            results = await broker.publish_batch(None, "a", None, topic=lines, ordering_key="one")
            assert len(results) == 3
            await bench.until(lambda: len(bench.seen) == 3)

    asyncio.run(main())
    assert bench.seen == [None, "a", None]


@pytest.mark.parametrize(
    ("result", "published"),
    [([None], [None]), ((None, None), [None, None]), ([], []), (None, []), ("one", ["one"]), ([[]], [[]])],
)
def test_the_list_of_a_batch_publisher_is_published_whole(bench, result, published):
    orders, lines = bench.name("Orders"), bench.name("Lines")

    @bench.subscriber(orders)
    @bench.broker.publisher(lines, batch=True)
    async def split(order: int):
        return result if order == 1 else ["end"]

    @bench.subscriber(lines)
    async def line(message: GantryMessage):
        bench.note(await message.decode())

    async def main():
        async with bench.running() as broker:
            assert len(await broker.publish_batch(None, topic=lines)) == 1
            await broker.publish(1, orders, ordering_key="one")
            await broker.publish(2, orders, ordering_key="one")
            await bench.until(lambda: len(bench.seen) == len(published) + 2)

    asyncio.run(main())
    assert sorted(map(str, bench.seen)) == sorted(map(str, [None, *published, "end"]))


@pytest.mark.parametrize(
    ("policy", "tries"),
    [(AckPolicy.NACK_ON_ERROR, 2), (AckPolicy.REJECT_ON_ERROR, 1), (AckPolicy.ACK, 1), (AckPolicy.ACK_FIRST, 1)],
)
def test_a_handler_that_raises(bench, policy, tries):
    orders = bench.name("Orders")

    @bench.subscriber(orders, ack_policy=policy)
    async def bill(order: int, message: GantryMessage):
        bench.note((order, message.raw_message.reconsume_times))
        if order == 1 and not message.raw_message.reconsume_times:
            raise ZeroDivisionError

    async def main():
        async with bench.running():
            error = await bench.publish(1, orders)
            assert isinstance(error, ZeroDivisionError) is not bench.real
            await bench.publish(2, orders)
            await bench.until(lambda: len(bench.seen) == (1 + tries if bench.real else 2))

    asyncio.run(main())
    expected = [(1, number) for number in range(tries if bench.real else 1)]
    assert sorted(bench.seen) == [*expected, (2, 0)]
