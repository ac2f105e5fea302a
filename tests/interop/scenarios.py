"""One run of every way to send with every way to consume, at one name server; the outcome is a table.

Each kind of send sends six messages, half of them with TagA, half with TagB, with their number as a property; Java's
client sends as many. Each kind of consumer consumes them in separate groups: one without a filter, one with TagA,
one by SQL92 and one that refuses each message once; Java's push consumer consumes all of them.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from harness import Driver, create_topic

from gantrymq.client import (
    Batching,
    Client,
    ClientError,
    Message,
    Producer,
    ReceivedMessage,
    ReconsumeLater,
    TransactionState,
    by_key,
)

COUNT: Final = 6
NUMBERS: Final = range(COUNT)
QUEUES: Final = 4
DEADLINE_S: Final = 120.0
JAVA: Final = "java"
SENDS: Final = ("send", "soon", "oneway", "batch", "gathered", "in order", "delayed", "transaction", JAVA)
WAYS: Final = ("loop", "handler", "batches", "acknowledging", "orderly", "broadcasting", "lite pull", "pop", "reader")
FILTERS: Final = {"all": ("*", "TAG"), "tags": ("TagA", "TAG"), "sql": ("number > 2", "SQL92")}
RETRYING: Final = ("handler", "acknowledging", "orderly", "pop")  # consumers that redeliver refused messages

Take = Callable[[ReceivedMessage], Awaitable[bool]]  # True if the message is consumed, False to have it redelivered
Way = Callable[[Client, str, str, str, str, Take], Awaitable[None]]


def wanted(send: str, filtered: str) -> set[str]:
    """Return the bodies that a consumer with this filter should receive from one kind of send."""
    if filtered == "sql":
        numbers = [
            number for number in NUMBERS if number > 2 and send != JAVA
        ]  # messages of Java's client have no such property
    else:
        numbers = [number for number in NUMBERS if filtered == "all" or number % 2 == 0]
    return {f"{send}-{number}" for number in numbers}


class Outcome:
    """The bodies that each group received, by kind of consumer and filter."""

    def __init__(self) -> None:
        self.got: defaultdict[tuple[str, str], list[ReceivedMessage]] = defaultdict(list)
        self.refused: Counter[tuple[str, str]] = Counter()  # by way and body
        self.problems: dict[str, ClientError] = {}  # of consumers that this server does not support
        self.java: list[str] = []

    def bodies(self, way: str, filtered: str) -> list[str]:
        """Bodies in the order in which they were consumed."""
        return [message.body.decode() for message in self.got[way, filtered]]

    def complete(self, way: str, filtered: str) -> bool:
        """Return whether everything expected was consumed."""
        kind = "all" if filtered == "again" else filtered
        return set().union(*(wanted(send, kind) for send in SENDS)) <= set(self.bodies(way, filtered))


async def scenarios(namesrv: str, topic: str, scratch: Path) -> Outcome:
    """Run all scenarios; the outcome lacks what was not consumed within DEADLINE_S."""
    create_topic(namesrv, topic, QUEUES)
    outcome = Outcome()
    driver = Driver("5.3.3", scratch, namesrv)
    async with Client(namesrv) as client:
        groups = [(way, filtered) for way in WAYS for filtered in (*FILTERS, *(["again"] if way in RETRYING else []))]
        running = [asyncio.create_task(_group(outcome, client, topic, *group, scratch)) for group in groups]
        pushing = await asyncio.to_thread(driver.push, topic, f"{topic}-java")
        await _send_all(client, topic)
        await asyncio.to_thread(driver.produce, topic, COUNT, tags="TagA,TagB", body_prefix=JAVA)
        await asyncio.wait(running, timeout=DEADLINE_S)
        every = set().union(*(wanted(send, "all") for send in SENDS))
        with contextlib.suppress(AssertionError):  # a missing message is reported by the test of its row
            await asyncio.to_thread(
                pushing.wait_for, lambda p: every <= {e["body"] for e in p.of("received")}, "all messages"
            )
        outcome.java = [str(event["body"]) for event in pushing.of("received")]
        pushing.stop()
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
    for task in running:
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error
    return outcome


# --- sending ----------------------------------------------------------------------------------------------------------


def _messages(topic: str, send: str, **more: int) -> list[Message]:
    return [
        Message(
            topic,
            f"{send}-{number}".encode(),
            tags="TagA" if number % 2 == 0 else "TagB",
            properties={"number": str(number)},
            **more,  # type: ignore[arg-type]
        )
        for number in NUMBERS
    ]


async def _send_all(client: Client, topic: str) -> None:
    producer = client.producer(f"{topic}-producers")
    await producer.wait_ready(topic, DEADLINE_S)
    for message in _messages(topic, "send"):
        assert (await producer.send(message)).ok
    await asyncio.gather(*(producer.send_soon(message) for message in _messages(topic, "soon")))
    for message in _messages(topic, "oneway"):
        await producer.send_oneway(message)
    await producer.send_batch(_messages(topic, "batch"))
    await _gathered(client, topic)
    for message in _messages(topic, "in order"):
        await producer.send(message, by_key("one"))
    for message in _messages(topic, "delayed", delay_level=1):
        await producer.send(message)
    await _transactions(client, topic)


async def _gathered(client: Client, topic: str) -> None:
    gathering: Producer = client.producer(f"{topic}-gathering", batching=Batching(max_wait_ms=50))
    results = await asyncio.gather(*(gathering.send(message) for message in _messages(topic, "gathered")))
    assert len({result.offset_id for result in results}) == COUNT


async def _transactions(client: Client, topic: str) -> None:
    producer = client.transaction_producer(f"{topic}-transactions", lambda message: TransactionState.COMMIT)
    for message in _messages(topic, "transaction"):
        async with producer.transaction(message):
            pass
    with contextlib.suppress(LookupError):
        async with producer.transaction(Message(topic, b"rolled back")):
            raise LookupError


# --- consuming --------------------------------------------------------------------------------------------------------


async def _group(outcome: Outcome, client: Client, topic: str, way: str, filtered: str, scratch: Path) -> None:
    """Consume with one group until it has everything expected, and a little longer to notice extra messages."""
    expression, kind = FILTERS.get(filtered, FILTERS["all"])

    async def take(message: ReceivedMessage) -> bool:
        key = (way, message.body.decode())
        if filtered == "again" and not outcome.refused[key]:
            outcome.refused[key] += 1
            return False
        outcome.got[way, filtered].append(message)
        return True

    consuming = asyncio.ensure_future(
        _WAYS[way](client, topic, f"{topic}-{way.replace(' ', '-')}-{filtered}", expression, kind, take)
        if way != "broadcasting"
        else _broadcasting(client, topic, f"{topic}-all-{filtered}", expression, kind, take, scratch)
    )
    try:
        while not outcome.complete(way, filtered):
            await asyncio.wait([consuming], timeout=0.1)
            if consuming.done():
                break
        await asyncio.wait([consuming], timeout=1.0)
    finally:
        consuming.cancel()
        await asyncio.wait([consuming])
    if not consuming.cancelled() and (error := consuming.exception()) is not None:
        if not isinstance(error, ClientError):
            raise error
        outcome.problems[way] = error


async def _loop(client: Client, topic: str, group: str, expression: str, kind: str, take: Take) -> None:
    options = {"expression": expression, "expression_type": kind}
    async for message in client.consumer(group, topic, consume_from="first", **options):
        await take(message)


async def _handler(
    client: Client, topic: str, group: str, expression: str, kind: str, take: Take, **settings: object
) -> None:
    consumer = client.consumer(
        group,
        topic,
        consume_from="first",
        expression=expression,
        expression_type=kind,
        **settings,  # type: ignore[arg-type]
    )

    async def handle(message: ReceivedMessage) -> None:
        if not await take(message):
            raise ReconsumeLater(1)

    await consumer.run(handle)


async def _batches(client: Client, topic: str, group: str, expression: str, kind: str, take: Take) -> None:
    consumer = client.consumer(group, topic, consume_from="first", expression=expression, expression_type=kind)
    async for batch in consumer.batches(8):
        for message in batch:
            await take(message)


async def _acknowledging(client: Client, topic: str, group: str, expression: str, kind: str, take: Take) -> None:
    consumer = client.consumer(
        group, topic, consume_from="first", expression=expression, expression_type=kind, auto_ack=False
    )
    async for message in consumer:
        if await take(message):
            assert consumer.ack(message)
        else:
            assert await consumer.nack(message, delay_level=1)


async def _orderly(client: Client, topic: str, group: str, expression: str, kind: str, take: Take) -> None:
    await _handler(client, topic, group, expression, kind, take, orderly=True, suspend_s=0.1)


async def _broadcasting(
    client: Client, topic: str, group: str, expression: str, kind: str, take: Take, scratch: Path
) -> None:
    folder = str(scratch / "offsets")
    await _handler(client, topic, group, expression, kind, take, broadcasting=True, offsets_folder=folder)


async def _lite_pull(client: Client, topic: str, group: str, expression: str, kind: str, take: Take) -> None:
    consumer = client.lite_pull(group, topic, consume_from="first", expression=expression, expression_type=kind)
    while True:
        for message in await consumer.poll(timeout_s=1):
            await take(message)


async def _pop(client: Client, topic: str, group: str, expression: str, kind: str, take: Take) -> None:
    consumer = client.pop_consumer(
        group, topic, consume_from="first", expression=expression, expression_type=kind, auto_ack=False
    )
    while True:
        for message in await consumer.pop(poll_s=1):
            if await take(message):
                await consumer.ack(message)
            else:
                await consumer.nack(message, delay_s=1)


async def _reader(client: Client, topic: str, group: str, expression: str, kind: str, take: Take) -> None:
    reader = client.reader(topic, start="first", follow=True, expression=expression, expression_type=kind)
    async for message in reader:
        await take(message)


_WAYS: Final[dict[str, Way]] = {
    "loop": _loop,
    "handler": _handler,
    "batches": _batches,
    "acknowledging": _acknowledging,
    "orderly": _orderly,
    "lite pull": _lite_pull,
    "pop": _pop,
    "reader": _reader,
}
