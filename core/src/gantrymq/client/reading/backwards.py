"""Reading queues backwards, newest message first, merged by store time.

Pulls only go forward, so a queue is read in slices before its end, each by pulls from the start of the slice. A message
is yielded once every queue was read back to its store time. With a subscription expression the broker filters; while
little matches, the slices grow; while messages are large, they shrink.

`Backwards` has no deadline and asks nothing by itself: its caller awaits what `Backwards.reads` returns, broker by
broker, so that a silent broker can be left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from heapq import heappop, heappush
from itertools import count, islice
from typing import Any, Final, Generic, NamedTuple, TypeVar

import attrs

from gantrymq.client.message import ReceivedMessage
from gantrymq.client.reading.pull_result import PullStatus
from gantrymq.client.reading.queue_reading import QueueReader
from gantrymq.model.queue import MessageQueue
from gantrymq.model.subscription import ALL, TAG

SLICE: Final = 32  # messages; brokers return fewer of large or old ones
SLICE_BYTES: Final = 256 * 1024  # records of a slice
_INFLATION: Final = 8  # how much larger the bodies of a slice may be than its records, because they were compressed
MAX_SLICE: Final = 4096  # of a filtered queue with few matching messages
_RESTARTS: Final = 3  # of a slice that turns out to be too large
AT_ONCE: Final = 64  # concurrent requests
FOREVER_MS: Final = 2**62

Got = TypeVar("Got")
Row = TypeVar("Row")


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


@attrs.frozen
class _Seen(Generic[Row]):
    """What is kept of a message: its body may be large."""

    queue_offset: int
    log_offset: int
    stored_ms: int  # 0 of a record that cannot be decoded
    record_bytes: int
    body_bytes: int
    readable: bool
    row: Row | None


@attrs.define(eq=False)
class _Tail:
    """The part of a queue that is not read yet: offsets from *low* to before *high*."""

    queue: MessageQueue
    low: int
    high: int | None  # None: the first one after `Backwards.end_ms`, not asked for yet
    bound_ms: int  # no message of the part counts as stored later
    size: int  # entries of the next slice

    @property
    def is_read(self) -> bool:
        """Whether nothing is left."""
        return self.high is not None and self.high <= self.low


class _Place(NamedTuple):
    """Position of a message in the result: the order of fields is that of messages, with `number` for ties."""

    before_ms: int  # negative store time, or that of a later message of the queue if the clock was set back
    broker: str
    log_offset: int  # negative
    queue_offset: int  # negative
    number: int


class Backwards(Generic[Row]):
    """Reads parts of queues backwards; `looked` and `reached_ms` tell how far it is."""

    def __init__(
        self,
        reader: QueueReader,
        keep: Callable[[ReceivedMessage], Row | None],
        *,
        begin_ms: int = 0,
        end_ms: int = FOREVER_MS,
        expression: str = ALL,
        expression_type: str = TAG,
        slice_bytes: int = SLICE_BYTES,
    ) -> None:
        """Create it without queues.

        Args:
            reader: sends the requests.
            keep: makes the result of a message, None for a message that is left out. It is called more than once for
                some messages. The message is not kept.
            begin_ms: lowest store time.
            end_ms: highest store time.
            expression: what the broker selects.
            expression_type: of the expression.
            slice_bytes: size of the records that are read of a queue at a time, or of one message.
        """
        self._reader = reader
        self._keep = keep
        self._begin_ms, self._end_ms = begin_ms, end_ms
        self._expression, self._expression_type = expression, expression_type
        self._is_filtered = (expression, expression_type) != (ALL, TAG)
        self._slice_bytes = slice_bytes
        self._tails: list[_Tail] = []
        self._waiting: list[tuple[_Place, MessageQueue, Row]] = []  # read, but others may be newer; a heap
        self._numbers = count()
        self.looked = 0  # queue entries
        self.read_bytes = 0
        self.unreadable = 0  # records that cannot be decoded

    def add(
        self, queue: MessageQueue, low: int, high: int | None, bound_ms: int = FOREVER_MS, size: int = SLICE
    ) -> None:
        """Add the offsets from *low* to before *high*.

        Args:
            queue: of any broker.
            low: first offset, or less.
            high: None for the first one stored after `end_ms`, of which there must be one.
            bound_ms: store time of the last message, or later.
            size: entries of the first slice.
        """
        self._tails.append(_Tail(queue, low, high, min(bound_ms, self._end_ms), size))
        self._drop_read()

    @property
    def is_done(self) -> bool:
        """Whether everything was read and taken."""
        return not self._tails and not self._waiting

    @property
    def reached_ms(self) -> int | None:
        """The store time down to which everything was taken; None at the end."""
        bounds = [each.bound_ms for each in self._tails]
        bounds += [-place.before_ms for place, _, _ in self._waiting[:1]]
        return max(bounds, default=None)

    @property
    def ends(self) -> dict[MessageQueue, int]:
        """The queues with messages that were not taken, with the offset before which to go on."""
        found = {each.queue: each.high for each in self._tails if each.high is not None}
        for place, queue, _ in self._waiting:
            found[queue] = max(found.get(queue, 0), 1 - place.queue_offset)
        return found

    def reads(self, at_once: int = AT_ONCE) -> dict[str, Coroutine[Any, Any, None]]:
        """Return what to await next, by broker name: slices of the queues whose messages may be the newest.

        Call `leave_out` with the brokers of those that failed.

        Args:
            at_once: maximum number of queues.
        """
        self._tails.sort(key=lambda tail: -tail.bound_ms)
        by_broker: dict[str, list[_Tail]] = {}
        for tail in self._tails[:at_once]:
            by_broker.setdefault(tail.queue.broker_name, []).append(tail)
        return {name: self._read_all(tails) for name, tails in by_broker.items()}

    def leave_out(self, brokers: Collection[str]) -> None:
        """Read no more of *brokers*."""
        self._tails = [each for each in self._tails if each.queue.broker_name not in brokers]

    def take(self, most: int | None = None, *, ties: bool = False) -> list[tuple[int, Row]]:
        """Return the next results that are in order, with the store times that ordered them.

        Args:
            most: maximum number; None for all.
            ties: whether to return messages of a millisecond of which not all were read yet.
        """
        bound = max((each.bound_ms for each in self._tails), default=-1) - ties
        found: list[tuple[int, Row]] = []
        while self._waiting and -self._waiting[0][0].before_ms > bound and (most is None or len(found) < most):
            place, _, row = heappop(self._waiting)
            found.append((-place.before_ms, row))
        return found

    def _drop_read(self) -> None:
        self._tails = [each for each in self._tails if not each.is_read and each.bound_ms >= self._begin_ms]

    async def _read_all(self, tails: Sequence[_Tail]) -> None:
        bounds = {tail.queue: tail.bound_ms for tail in tails}
        slices = await each_of(self._read(each) for each in tails)
        for tail, found in zip(tails, slices, strict=True):
            bound_ms = bounds[tail.queue]
            for each in reversed(found):
                bound_ms = min(bound_ms, each.stored_ms or bound_ms)
                if each.row is not None:
                    place = _Place(
                        -bound_ms,
                        tail.queue.broker_name,
                        -each.log_offset,
                        -each.queue_offset,
                        next(self._numbers),
                    )
                    heappush(self._waiting, (place, tail.queue, each.row))
            tail.bound_ms = min(tail.bound_ms, bound_ms)
        self._drop_read()

    async def _read(self, tail: _Tail) -> list[_Seen[Row]]:
        """Return the messages of the next slice of a queue, and move the part that is not read yet."""
        if tail.high is None:
            tail.high = await self._reader.offset_for_timestamp(tail.queue, self._end_ms + 1)
        high = tail.high
        found, low = await self._slice(tail, max(tail.low, high - tail.size), high)
        self.unreadable += sum(not each.readable for each in found)
        self.looked += high - low
        tail.high = low
        if low > tail.low:
            if not (found and found[0].queue_offset == low and found[0].stored_ms):
                tail.bound_ms = min(tail.bound_ms, await self._time_at(tail.queue, low) or tail.bound_ms)
            self._adapt(tail, found)
        return found

    def _adapt(self, tail: _Tail, found: Sequence[_Seen[Row]]) -> None:
        if self._is_filtered and len(found) < SLICE // 4:
            tail.size = min(MAX_SLICE, tail.size * 2)
        elif tail.size < SLICE and self._share(found) < 0.5:
            tail.size = min(SLICE, tail.size * 2)

    async def _slice(self, tail: _Tail, low: int, high: int) -> tuple[list[_Seen[Row]], int]:
        """Return the messages from *low* to before *high*, and the offset at which they begin in the end.

        That is higher than *low* if messages are large, or were deleted meanwhile.
        """
        found: list[_Seen[Row]] = []
        at, restarts = low, 0
        while at < high:
            result = await self._reader.pull(
                tail.queue,
                at,
                max_count=min(SLICE, high - at),
                expression=self._expression,
                expression_type=self._expression_type,
            )
            tail.low = max(tail.low, min(result.min_offset, high))
            if result.status is PullStatus.OFFSET_ILLEGAL and result.next_offset > at:
                low = at = tail.low = min(high, max(tail.low, result.next_offset))
                found.clear()
                continue
            before = len(found)
            offset = at - 1
            for message in result.messages:
                # a record that cannot be decoded may have neither offset nor time
                offset = message.queue_offset if message.queue_offset >= 0 else offset + 1
                if offset >= high:
                    break
                found.append(self._seen(message, offset))
            self.read_bytes += sum(each.record_bytes for each in found[before:])
            if result.next_offset <= at or result.status is PullStatus.NO_NEW_MSG:
                break
            at = min(high, result.next_offset)
            size = self._better_size(found, at - low, high - low)
            if restarts < _RESTARTS and high - size > at:
                low = at = high - size
                tail.size, restarts = size, restarts + 1
                found.clear()
        return found, low

    def _seen(self, message: ReceivedMessage, offset: int) -> _Seen[Row]:
        stored_ms, readable = max(0, message.store_timestamp), message.queue_id >= 0
        is_wanted = not stored_ms or self._begin_ms <= stored_ms <= self._end_ms
        row = self._keep(message) if is_wanted else None
        size = len(message.body)
        return _Seen(offset, max(0, message.log_offset), stored_ms, message.store_size, size, readable, row)

    async def _time_at(self, queue: MessageQueue, offset: int) -> int | None:
        """Return the store time of the message at *offset*, whether it matches the filter or not."""
        result = await self._reader.pull(queue, offset, max_count=1, expression=ALL, expression_type=TAG)
        return result.messages[0].store_timestamp if result.messages else None

    def _share(self, found: Sequence[_Seen[Row]]) -> float:
        """Return how much of a slice the messages fill by their bytes; 1 or more if they fill it."""
        records, bodies = sum(each.record_bytes for each in found), sum(each.body_bytes for each in found)
        return max(records, bodies / _INFLATION) / self._slice_bytes

    def _better_size(self, found: Sequence[_Seen[Row]], read: int, size: int) -> int:
        """Return the number of entries a slice should have, judged by the first *read* of *size* entries."""
        share = max(self._share(found), len(found) / (2 * SLICE)) / read
        return max(1, int(1 / share)) if share * size > 2 else size


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
    reading: Backwards[ReceivedMessage] = Backwards(
        reader,
        lambda message: message,
        end_ms=before_ms - 1 if before_ms is not None else FOREVER_MS,
        expression=expression,
        expression_type=expression_type,
        slice_bytes=max(1, min(SLICE_BYTES, max_bytes // max(1, len(ends)))),
    )
    # with many queues, most messages of a whole slice of each would not be needed
    first = max(1, min(SLICE, -(-2 * max_count // max(1, len(ends)))))
    for queue, end in ends.items():
        reading.add(queue, 0, end, size=first)
    messages, size = list[ReceivedMessage](), 0
    while len(messages) < max_count and size < max_bytes:
        for _, message in reading.take(1, ties=True):
            messages.append(message)
            size += len(message.body)
            break
        else:
            if reading.looked >= max_scanned or not (slices := reading.reads()):
                break
            await each_of(slices.values())
    return BackwardPage(tuple(messages), reading.ends, reading.looked)


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
