"""Iteration over single queues, for `Reader`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Protocol

from gantrymq.client.argument_types import check_number
from gantrymq.client.calls.outages import Outages
from gantrymq.client.errors import FilterRefused
from gantrymq.client.message import ReceivedMessage
from gantrymq.client.reading.pull_result import PullResult, PullStatus
from gantrymq.errors import BrokerRefused, ClientError, NoRoute
from gantrymq.model.queue import MessageQueue
from gantrymq.model.subscription import TAG
from gantrymq.world import Clock

_HOLD_MS = 15_000  # how long a broker may hold a pull at the end of a queue, as Java's push consumer has it
MOST = 256  # maximum messages per pull
AGAIN_S = 1.0  # pause after a pull that failed
_PASSING_CODES = frozenset({1, 2, 14, 215, 1500})  # system error, busy, not available, flow control, stopping


class QueueReader(Protocol):
    """The calls of a `Reader` that iteration uses."""

    async def queues(self, topic: str | None = None) -> tuple[MessageQueue, ...]:
        """See `Reader.queues`."""

    async def pull(
        self,
        queue: MessageQueue,
        offset: int,
        *,
        max_count: int = 32,
        expression: str | None = None,
        expression_type: str | None = None,
        suspend_ms: int = 0,
    ) -> PullResult:
        """See `Reader.pull`."""

    async def min_offset(self, queue: MessageQueue) -> int:
        """See `Reader.min_offset`."""

    async def max_offset(self, queue: MessageQueue) -> int:
        """See `Reader.max_offset`."""

    async def offset_for_timestamp(self, queue: MessageQueue, time_ms: int) -> int:
        """See `Reader.offset_for_timestamp`."""


async def read(
    consumer: QueueReader,
    queue: MessageQueue,
    start: int,
    *,
    end: int | None = None,
    expression: str = "*",
    expression_type: str = TAG,
) -> AsyncGenerator[ReceivedMessage, None]:
    """Yield the messages of *queue* from queue offset *start* to its end, or from the first one that still exists.

    Stops before offset *end*, so that reading a growing queue terminates. Errors as `Reader.pull`.
    """
    if end is not None:
        check_number("end", end, 0)
    at = start
    while end is None or at < end:
        result = await consumer.pull(queue, at, max_count=MOST, expression=expression, expression_type=expression_type)
        for message in result.messages:
            if end is not None and message.queue_offset >= end:
                return
            yield message
        if _at_end(result, at):
            return
        at = result.next_offset


async def follow(
    consumer: QueueReader,
    queue: MessageQueue,
    start: int,
    *,
    clock: Clock,
    outages: Outages,
    problem: Callable[[str], object],
    expression: str = "*",
    expression_type: str = TAG,
) -> AsyncGenerator[ReceivedMessage, None]:
    """Yield the messages of *queue* from queue offset *start*, then new ones, without end.

    An unreachable or busy broker is retried every second and reported to *outages*; *problem* receives warnings about
    deleted offsets.

    Errors as `Reader.pull`, except transient ones.
    """
    at = start
    while True:
        try:
            result = await consumer.pull(
                queue,
                at,
                max_count=MOST,
                expression=expression,
                expression_type=expression_type,
                suspend_ms=_HOLD_MS,
            )
        except ClientError as error:
            if not is_transient(error):
                raise
            doing = f"reading {queue.topic} of {queue.broker_name}, trying again every {AGAIN_S:g} s"
            outages.failed(doing, error)
            await clock.sleep(AGAIN_S)
            continue
        if result.status is PullStatus.OFFSET_ILLEGAL:
            problem(
                f"{queue.broker_name} queue {queue.queue_id} has no offset {at} (it has {result.min_offset} to "
                f"{result.max_offset}); continuing at {result.next_offset}"
            )
        for message in result.messages:
            yield message
        at = result.next_offset


def _at_end(result: PullResult, asked: int) -> bool:
    if result.status is PullStatus.NO_NEW_MSG:
        return True
    return (result.status is PullStatus.OFFSET_ILLEGAL and result.next_offset >= result.max_offset) or (
        result.next_offset == asked and not result.messages
    )


def is_transient(error: ClientError) -> bool:
    """Return whether a retry of the request may succeed: the server is unreachable, busy or restarting."""
    if isinstance(error, BrokerRefused):
        return error.response_code in _PASSING_CODES and not isinstance(error, FilterRefused)
    return error.retriable or isinstance(error, NoRoute)
