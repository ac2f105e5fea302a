"""Reading queues backwards, newest message first, merged by store time.

Pulls only go forward, so a queue is read in slices before its end, each by pulls from the start of the slice. With a
subscription expression the broker filters; while nothing matches, the slices grow.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Iterable, Mapping
from itertools import islice
from typing import Final, NamedTuple, TypeVar

import attrs

from gantrymq.client.message import ReceivedMessage
from gantrymq.client.reading.pull_result import PullStatus
from gantrymq.client.reading.queue_reading import QueueReader
from gantrymq.model.queue import MessageQueue

__all__ = ["BackwardPage", "read_back"]

SLICE: Final = 32  # messages
MAX_SLICE: Final = 8192  # of a filtered queue without matching messages
AT_ONCE: Final = 64  # concurrent requests

Got = TypeVar("Got")


@attrs.frozen
class BackwardPage:
    """Messages of `Reader.read_back`, and where to go on."""

    messages: tuple[ReceivedMessage, ...]  # newest first, by store time; those of one queue in descending order
    ends: Mapping[MessageQueue, int]
    """The queues with earlier messages, with the offset before which to go on; empty at the beginning of all queues."""
    scanned: int  # queue entries looked at, matching or not

    @property
    def more(self) -> bool:
        """Whether there may be earlier messages."""
        return bool(self.ends)


class _Found(NamedTuple):
    """A message that was read, but not yet taken."""

    queue_offset: int
    stored_ms: int
    message: ReceivedMessage


@attrs.define
class _Filter:
    """What is asked of every queue."""

    reader: QueueReader
    expression: str
    expression_type: str
    before_ms: int | None
    max_bytes: int  # of the bodies of one slice


@attrs.define(eq=False)
class _Queue:
    """One queue: messages at *low* and later were read, those in *found* not yet taken."""

    queue: MessageQueue
    low: int
    size: int  # of the next slice
    min_offset: int = 0
    found: deque[_Found] = attrs.field(factory=deque)
    scanned: int = 0

    @property
    def end(self) -> int:
        """The offset before which to go on."""
        return self.found[-1].queue_offset + 1 if self.found else self.low

    @property
    def exhausted(self) -> bool:
        """Whether there are no earlier messages."""
        return not self.found and self.low <= self.min_offset

    async def read_slice(self, wanted: _Filter) -> None:
        """Read the messages of the slice before *low*."""
        start, low = max(self.min_offset, self.low - self.size), self.low
        found, size, at = deque[_Found](), 0, start
        skipped = dropped = False
        while at < low:
            result = await wanted.reader.pull(
                self.queue,
                at,
                max_count=min(SLICE, low - at),
                expression=wanted.expression,
                expression_type=wanted.expression_type,
            )
            self.min_offset = max(self.min_offset, result.min_offset)
            place, stored_ms = at - 1, 0
            for message in result.messages:
                # a record that cannot be decoded may have neither offset nor time
                place = message.queue_offset if message.queue_offset >= 0 else place + 1
                stored_ms = message.store_timestamp if message.store_timestamp > 0 else stored_ms
                if place >= low:
                    break
                if wanted.before_ms is not None and stored_ms >= wanted.before_ms:
                    skipped = True
                    continue
                found.append(_Found(place, stored_ms, message))
                size += len(message.body)
                while size > wanted.max_bytes and len(found) > 1:
                    size -= len(found.popleft().message.body)
                    dropped = True
            if result.next_offset <= at or result.status is PullStatus.NO_NEW_MSG:
                break
            at = result.next_offset
        self.found, self.low = found, found[0].queue_offset if dropped else max(start, min(self.min_offset, low))
        self.scanned += low - self.low
        if dropped:
            self.size = len(found)
        else:
            self.size = SLICE if found or skipped else min(self.size * 4, MAX_SLICE)


async def read_back(
    reader: QueueReader,
    ends: Mapping[MessageQueue, int],
    *,
    before_ms: int | None,
    max_count: int,
    max_bytes: int,
    max_scanned: int,
    expression: str,
    expression_type: str,
) -> BackwardPage:
    """Return messages before *ends*; see `Reader.read_back`."""
    queues = [_Queue(queue, end, _slice_size(max_count, len(ends))) for queue, end in ends.items() if end > 0]
    wanted = _Filter(reader, expression, expression_type, before_ms, max(1, max_bytes // max(1, len(queues))))
    messages, size = list[ReceivedMessage](), 0
    while len(messages) < max_count and size < max_bytes and sum(each.scanned for each in queues) < max_scanned:
        unread = [each for each in queues if not each.found and not each.exhausted]
        if unread:
            await each_of(each.read_slice(wanted) for each in unread)
            continue
        newest = max((each for each in queues if each.found), key=lambda each: each.found[-1].stored_ms, default=None)
        if newest is None:
            break
        taken = newest.found.pop().message
        messages.append(taken)
        size += len(taken.body)
    return BackwardPage(
        tuple(messages),
        {each.queue: each.end for each in queues if not each.exhausted},
        sum(each.scanned for each in queues),
    )


async def first_ends(
    reader: QueueReader, queues: Iterable[MessageQueue], before_ms: int | None
) -> dict[MessageQueue, int]:
    """Return the offsets at which to begin: the ends of *queues*, or shortly after *before_ms*."""
    listed = tuple(queues)
    ends = await each_of(map(reader.max_offset, listed))
    if before_ms is not None:
        # near the end of a queue, brokers return the last offset, stored before the time, or the one after it
        found = await each_of(reader.offset_for_timestamp(queue, before_ms) for queue in listed)
        ends = [min(end, offset + 1) for end, offset in zip(ends, found, strict=True)]
    return dict(zip(listed, ends, strict=True))


async def each_of(calls: Iterable[Awaitable[Got]]) -> list[Got]:
    """Await *calls*, AT_ONCE at a time; return the results in order. Raises the first error after the others ended."""
    left, results = iter(calls), list[Got]()
    while batch := list(islice(left, AT_ONCE)):
        for result in await asyncio.gather(*batch, return_exceptions=True):
            if isinstance(result, BaseException):
                raise result
            results.append(result)
    return results


def _slice_size(max_count: int, queues: int) -> int:
    """Return the size of the first slices: with many queues, most of their messages would not be needed."""
    return max(1, min(SLICE, -(-2 * max_count // max(1, queues))))
