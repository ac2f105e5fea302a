"""Measures how fast a consumer reads a backlog, and the latency of a message from send to delivery."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import attrs

from gantrymq.client import Message, Producer, ReceivedMessage
from gantrymq.errors import ClientError
from gantrymq.plugin.world import Clock
from gantrymq_admin.bench.measuring import Figures

__all__ = ["Drained", "drained", "one_by_one"]

SILENT_S = 30.0  # a measurement without messages for this long fails


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
        ClientError: no message arrived for `SILENT_S`.
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
            raise ClientError(f"no message came for {SILENT_S:g} s; {taken} of {count} were consumed")
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
        ClientError: a send fails, or a message does not arrive within `SILENT_S`.
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
                raise ClientError(f"a message did not come for {SILENT_S:g} s")
            times.append(coming.result() - began)
        finally:
            coming.cancel()
    return sorted(times)


async def _either(work: asyncio.Future[Any], clock: Clock) -> None:
    """Wait for *work*, at most `SILENT_S`."""
    pause = asyncio.ensure_future(clock.sleep(SILENT_S))
    try:
        await asyncio.wait([work, pause], return_when=asyncio.FIRST_COMPLETED)
    finally:
        pause.cancel()
