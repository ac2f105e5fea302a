"""Rows to brokers: many at once, rows of one lane one after the other.

A row without a lane goes to the next queue in turn. Those of a sharding key go to the queue that its hash chooses, as
Java's SelectMessageQueueByHash does, and each waits until the one before it is stored: so the order holds whatever is
tried again meanwhile.

Source: apache/rocketmq client/.../producer/selector/SelectMessageQueueByHash.java.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from itertools import groupby, islice
from typing import Any

from gantrymq.client import Producer
from gantrymq.errors import GantryError
from gantrymq.formats.tags_code import tags_code
from gantrymq.model.message import Message
from gantrymq.model.queue import MessageQueue
from gantrymq_spark.sink.rows import SinkRow

__all__ = ["ROWS_AT_ONCE", "queue_of_lane", "run_sending", "send_rows"]

ROWS_AT_ONCE = 2048  # rows held; the producer has limits of its own for what is under way
BATCH_BYTES = 1024 * 1024


async def send_rows(producer: Producer, rows: Iterable[SinkRow], *, batch_size: int, timeout_s: float) -> int:
    """Send all *rows*; returns how many.

    Args:
        producer: started.
        rows: taken as they are needed.
        batch_size: messages of one request, at most.
        timeout_s: of one send, its further attempts included.

    Raises:
        ClientError: as `Producer.send`; rows before it, and some behind it, may be stored.
    """
    sent, left = 0, iter(rows)
    while some := list(islice(left, ROWS_AT_ONCE)):
        lanes = await _lanes(producer, some)
        async with asyncio.TaskGroup() as group:
            for queue, own in lanes:
                group.create_task(_send_lane(producer, queue, own, batch_size, timeout_s))
        sent += len(some)
    return sent


def run_sending(work: Coroutine[Any, Any, int]) -> int:
    """Run *work* in a task's process; of all that failed together, the first that says something is raised."""
    try:
        return asyncio.run(work)
    except ExceptionGroup as several:
        raise _first(several) from None


def _first(problem: BaseException) -> BaseException:
    """Of all that failed together, the first that says something of its own."""
    while isinstance(problem, BaseExceptionGroup):
        told = [each for each in problem.exceptions if isinstance(each, (GantryError, BaseExceptionGroup))]
        problem = (told or problem.exceptions)[0]
    return problem


def queue_of_lane(lane: str | int, queues: Sequence[MessageQueue]) -> MessageQueue:
    """The queue of a lane: for a sharding key the one that Java's client chooses, for a number that one, or around."""
    return queues[(abs(tags_code(lane)) if isinstance(lane, str) else lane) % len(queues)]


async def _lanes(producer: Producer, rows: Sequence[SinkRow]) -> list[tuple[MessageQueue | None, list[SinkRow]]]:
    """Rows that are sent one after the other, and the queue that they go to."""
    free: list[tuple[MessageQueue | None, list[SinkRow]]] = []
    ordered: dict[MessageQueue, list[SinkRow]] = {}
    queues: dict[str, Sequence[MessageQueue]] = {}
    for row in rows:
        topic = row.message.topic
        if row.lane is None:
            if free and free[-1][1][-1].message.topic == topic and not row.alone:
                free[-1][1].append(row)
            else:
                free.append((None, [row]))
            continue
        if topic not in queues:
            queues[topic] = await producer.queues(topic)
        ordered.setdefault(queue_of_lane(row.lane, queues[topic]), []).append(row)
    return [*free, *ordered.items()]


async def _send_lane(
    producer: Producer, queue: MessageQueue | None, rows: Sequence[SinkRow], batch_size: int, timeout_s: float
) -> None:
    if batch_size == 1 and queue is None:
        async with asyncio.TaskGroup() as group:
            for row in rows:
                group.create_task(producer.send(row.message, timeout_s=timeout_s))
        return
    for alone, some in groupby(rows, key=lambda row: row.alone or batch_size == 1):
        if alone:
            for row in some:
                await producer.send(row.message, queue, timeout_s)
        else:
            for batch in _batches([row.message for row in some], batch_size):
                await producer.send_batch(batch, queue, timeout_s)


def _batches(messages: Sequence[Message], batch_size: int) -> Iterable[list[Message]]:
    batch: list[Message] = []
    size = 0
    for message in messages:
        if batch and (len(batch) >= batch_size or size + len(message.body) > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(message)
        size += len(message.body)
    if batch:
        yield batch
