"""The loads of a measurement: sends, a consumer that reads a backlog, and the topic and group created for them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import attrs

from gantrymq.client import Admin, Message, Producer, ReceivedMessage
from gantrymq.errors import ClientError, NoRoute
from gantrymq.plugin.model import GroupConfig, TopicConfig
from gantrymq.plugin.names import RETRY_PREFIX
from gantrymq.plugin.world import Clock, World
from gantrymq_admin.bench.measuring import Figures

PREFIX = "GantryMQBench"
_ROUTE_S = 10.0  # time limit for name servers to know a topic
_LOOK_AGAIN_S = 0.05
MODES = ("sync", "async", "oneway", "batch")
_SILENT_S = 30.0  # a measurement without messages for this long fails


def own_name(world: World) -> str:
    """Return an unused name."""
    return f"{PREFIX}-{world.random.getrandbits(32):08x}"


@asynccontextmanager
async def own_place(
    admin: Admin,
    name: str,
    queues: int,
    cluster: str | None,
    *,
    group: bool,
    keep: bool,
    clock: Clock,
    tell: Callable[[str], object],
) -> AsyncIterator[tuple[str, ...]]:
    """Create a topic *name*, with *group* a consumer group as well, at the masters of a cluster.

    Yields the masters' addresses, once name servers know the topic. Both are deleted after the block, unless *keep*;
    *tell* receives a message about each deletion that fails.

    Raises:
        ClientError: a server does not create it.
    """
    masters = await admin.create_topic_in(TopicConfig(name, queues, queues), cluster)
    try:
        if group:
            await admin.create_group_in(GroupConfig(name), cluster)
        await _known(admin, name, len(masters), clock)
        yield masters
    finally:
        if not keep:
            try:
                if group:
                    for master in masters:
                        await admin.delete_group(master, name, clean_offsets=True)
                    await admin.delete_topic(RETRY_PREFIX + name, cluster)
                await admin.delete_topic(name, cluster)
            except ClientError as problem:  # the measurements remain valid
                tell(f"{name} is left behind: {problem}")


async def _known(admin: Admin, topic: str, brokers: int, clock: Clock) -> None:
    deadline = clock.monotonic() + _ROUTE_S
    while True:
        try:
            if len((await admin.route(topic)).brokers) >= brokers:
                return
        except NoRoute:
            if clock.monotonic() > deadline:
                raise
        if clock.monotonic() > deadline:
            return  # some brokers are enough to continue
        await clock.sleep(_LOOK_AGAIN_S)


async def about(admin: Admin, cluster: str | None) -> list[dict[str, Any]]:
    """Return the context of figures: each broker's name, address, version and flush mode."""
    info = await admin.clusters()
    found = []
    for broker in info.brokers:
        address = broker.master
        if address is None or (cluster is not None and broker.cluster != cluster):
            continue
        settings = await admin.broker_settings(address)
        found.append({"broker": broker.name, "address": address, "flush": settings.get("flushDiskType")})
    return found


def messages_of(mode: str, batch: int) -> int:
    """Return the number of messages per call."""
    return batch if mode == "batch" else 1


def call_of(producer: Producer, mode: str, topic: str, body: bytes, batch: int) -> Callable[[], Awaitable[object]]:
    """One call: *sync* waits for `send`, *async* for the result of `send_async`, *oneway* for the socket."""

    def sync() -> Awaitable[object]:
        return producer.send(Message(topic, body))

    def begun() -> Awaitable[object]:
        return producer.send_async(Message(topic, body))

    def oneway() -> Awaitable[object]:
        return producer.send_oneway(Message(topic, body))

    def batched() -> Awaitable[object]:
        return producer.send_batch([Message(topic, body) for _ in range(batch)])

    return {"sync": sync, "async": begun, "oneway": oneway, "batch": batched}[mode]


@attrs.frozen
class Drained:
    """Result of reading a backlog."""

    first_s: float  # from the start of the consumer to its first message
    figures: Figures  # from the first message to the last


async def drained(
    messages: AsyncIterator[ReceivedMessage], count: int, clock: Clock, cpu_s: Callable[[], float]
) -> Drained:
    """Consume *count* messages one by one, from a consumer just started.

    Raises:
        ClientError: no message arrived for `_SILENT_S`.
    """
    taken = 0

    async def take() -> tuple[float, float, float, float]:
        nonlocal taken
        await anext(messages)
        first, cpu = clock.monotonic(), cpu_s()
        taken = 1
        while taken < count:
            await anext(messages)
            taken += 1
        return first, clock.monotonic(), cpu, cpu_s()

    began = clock.monotonic()
    work = asyncio.ensure_future(take())
    try:
        seen = -1
        while not work.done() and seen != taken:
            seen = taken
            await _either(work, clock)
        if not work.done():
            raise ClientError(f"no message came for {_SILENT_S:g} s; {taken} of {count} were consumed")
        first, last, cpu_first, cpu_last = work.result()
    finally:
        work.cancel()
    return Drained(first - began, Figures(count - 1, last - first, cpu_last - cpu_first, ()))


async def one_by_one(
    producer: Producer, topic: str, body: bytes, messages: AsyncIterator[ReceivedMessage], count: int, clock: Clock
) -> list[float]:
    """Return the latencies from send to delivery in seconds, sorted; each message is sent after the previous one
    arrived.

    Raises:
        ClientError: a send fails, or a message does not arrive within `_SILENT_S`.
    """

    async def arrival() -> float:
        await anext(messages)
        return clock.monotonic()

    times = []
    for _ in range(count):
        coming = asyncio.ensure_future(arrival())
        try:
            began = clock.monotonic()
            await producer.send(Message(topic, body))
            await _either(coming, clock)
            if not coming.done():
                raise ClientError(f"a message did not come for {_SILENT_S:g} s")
            times.append(coming.result() - began)
        finally:
            coming.cancel()
    return sorted(times)


async def _either(work: asyncio.Future[Any], clock: Clock) -> None:
    """Wait for *work*, at most `_SILENT_S`."""
    pause = asyncio.ensure_future(clock.sleep(_SILENT_S))
    try:
        await asyncio.wait([work, pause], return_when=asyncio.FIRST_COMPLETED)
    finally:
        pause.cancel()
