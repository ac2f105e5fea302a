"""A topic read backwards: the newest messages first, merged over its queues by store time.

Brokers read forwards only. A `Walk` reads slices of each queue from its end, and yields messages once every queue
has been read back to their store time. Messages of one millisecond are in the order of broker and log offset, so a
time and a number of messages to skip are enough to continue later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

import attrs

from gantrymq.client.message import ReceivedMessage
from gantrymq.client.reading.pull_result import PullStatus
from gantrymq.errors import ClientError
from gantrymq.model.queue import MessageQueue
from gantrymq.model.subscription import ALL, TAG
from gantrymq.world import Clock
from gantrymq_console.data.asking import Asking, Missing
from gantrymq_console.data.cluster import HEAD_BYTES, Cluster

__all__ = ["ROUND_S", "Pace", "Walk", "Wanted"]

AT_ONCE: Final = 8  # queues that are read at the same time
PULL: Final = 32  # messages; brokers return fewer of large or old ones
SLICE_BYTES: Final = 256 * 1024
MOST_FILTERED: Final = 4096  # queue entries of a slice if the broker filters
RESTARTS: Final = 3  # of a slice that turns out to be too large
ROUND_S: Final = 1.5  # for each broker, so that a silent one leaves time for the others
STATS_SHARE: Final = 0.5  # of the time, so that a silent broker leaves time to read from the others
FOREVER_MS: Final = 2**62

DECODED_BYTES: Final = 2 * 1024 * 1024  # bodies of a slice, decompressed

Row = TypeVar("Row")


@attrs.frozen
class Wanted:
    """Which messages of a topic are read."""

    topic: str
    begin_ms: int = 0  # lowest store time
    end_ms: int | None = None  # highest store time
    skip: int = 0  # messages stored at *end_ms* that are left out
    expression: str = ALL
    expression_type: str = TAG
    queue: tuple[str, int] | None = None  # broker and id; None for all queues
    offset: int | None = None  # highest queue offset of *queue*

    @property
    def is_filtered(self) -> bool:
        """Whether the broker filters."""
        return (self.expression, self.expression_type) != (ALL, TAG)


class Pace:
    """Limits the bytes read per second."""

    def __init__(self, clock: Clock, bytes_per_s: float) -> None:
        self._clock = clock
        self._rate = bytes_per_s
        self._free_at = clock.monotonic()

    async def spend(self, count: int) -> None:
        """Return when *count* more bytes may be read."""
        now = self._clock.monotonic()
        self._free_at = max(self._free_at, now) + count / self._rate
        if self._free_at - now > 1:
            await self._clock.sleep(self._free_at - now - 1)


@attrs.frozen
class _Seen(Generic[Row]):
    """What is kept of a message that was read. Its body may be large."""

    queue_offset: int
    stored_ms: int
    store_size: int
    body_size: int
    place: tuple[int, str, int, int]
    row: Row | None
    is_readable: bool


@attrs.define(eq=False)
class _Tail:
    """The part of a queue that is not read yet: offsets from *low* to before *high*."""

    queue: MessageQueue
    low: int
    high: int | None  # None: the first one after the time wanted, not asked for yet
    bound_ms: int  # no message of the part was stored later
    size: int  # entries of the next slice


class Walk(Generic[Row]):
    """Reads a topic backwards; `looked`, `read_bytes` and `reached_ms` tell how far it is."""

    def __init__(
        self,
        cluster: Cluster,
        wanted: Wanted,
        keep: Callable[[ReceivedMessage], Row | None],
        *,
        rows: int = 50,
        body_bytes: int = HEAD_BYTES,
    ) -> None:
        """Create it.

        Args:
            cluster: where the topic is.
            wanted: messages to read.
            keep: makes the result of a message, None for a message that is left out.
            rows: number of results wanted, which decides how much is read at first.
            body_bytes: how much of a compressed body is decompressed.
        """
        self._cluster = cluster
        self._reader = cluster.reader_of(body_bytes)
        self.wanted = wanted
        self._keep = keep
        self._rows = rows
        self._tails: list[_Tail] = []
        self._waiting: list[tuple[tuple[int, str, int, int], Row]] = []  # read, but others may be newer
        self._skip = wanted.skip
        self.looked = 0  # queue entries
        self.read_bytes = 0
        self.unreadable = 0  # records that could not be decoded
        self.missing: list[Missing] = []  # brokers that are left out from now on

    @property
    def is_done(self) -> bool:
        """Whether everything wanted was read."""
        return not self._tails and not self._waiting

    @property
    def reached_ms(self) -> int | None:
        """The store time down to which everything was yielded; None at the end."""
        bounds = [each.bound_ms for each in self._tails]
        if not bounds and not self._waiting:
            return None
        return max([*bounds, *(-place[0] for place, _ in self._waiting[:1])])

    async def start(self, asking: Asking) -> None:
        """Ask for the ends of the queues. Raises NoRoute: no such topic."""
        wanted, admin = self.wanted, self._cluster.admin
        route = await asking.needed(admin.route(wanted.topic))
        brokers = {each.name: each.readable() for each in route.brokers}
        before = len(asking.missing)
        stats = await asking.all(
            {
                name: admin.topic_stats(address, wanted.topic)
                for name, address in brokers.items()
                if address is not None and (wanted.queue is None or wanted.queue[0] == name)
            },
            STATS_SHARE,
        )
        self.missing += asking.missing[before:]
        del asking.missing[before:]
        queues = {queue: each for part in stats.values() for queue, each in part.items()}
        if wanted.queue is not None:
            queues = {queue: each for queue, each in queues.items() if queue.queue_id == wanted.queue[1]}
        end_ms = wanted.end_ms if wanted.end_ms is not None else FOREVER_MS
        size = min(PULL, max(4, 2 * self._rows // max(1, len(queues))))
        for queue, each in queues.items():
            if not each.count or each.updated_ms < wanted.begin_ms:
                continue
            high: int | None = each.max_offset
            if wanted.offset is not None:
                high = min(each.max_offset, wanted.offset + 1)
            elif each.updated_ms > end_ms:
                high = None
            self._tails.append(_Tail(queue, each.min_offset, high, min(each.updated_ms, end_ms), size))
        self._drop_read()

    async def more(self, round_s: float = ROUND_S) -> list[Row]:
        """Read a slice of the queues whose messages may be the newest, and return what is in order now."""
        self._tails.sort(key=lambda tail: -tail.bound_ms)
        by_broker: dict[str, list[_Tail]] = {}
        for tail in self._tails[:AT_ONCE]:
            by_broker.setdefault(tail.queue.broker_name, []).append(tail)
        asking = Asking(self._cluster.world.clock, round_s)
        answers = await asking.all({name: self._read_all(tails) for name, tails in by_broker.items()})
        self.missing += asking.missing
        silent = by_broker.keys() - answers.keys()
        self._tails = [each for each in self._tails if each.queue.broker_name not in silent]
        self._drop_read()
        self._waiting.sort(key=lambda each: each[0])
        return self._in_order()

    def check_expression(self) -> None:
        """Raise ClientError if a broker refused to filter."""
        for each in self.missing:
            if self.wanted.is_filtered and each.reason == "refused":
                raise ClientError(each.sentence)

    def _in_order(self) -> list[Row]:
        bound = max((each.bound_ms for each in self._tails), default=-1)
        ready = 0
        while ready < len(self._waiting) and -self._waiting[ready][0][0] > bound:
            ready += 1
        found, self._waiting = self._waiting[:ready], self._waiting[ready:]
        left_out = 0
        for place, _ in found[: self._skip]:
            left_out += -place[0] == self.wanted.end_ms
        self._skip -= left_out
        return [row for _, row in found[left_out:]]

    def _drop_read(self) -> None:
        begin = self.wanted.begin_ms
        self._tails = [
            each for each in self._tails if (each.high is None or each.high > each.low) and each.bound_ms >= begin
        ]

    async def _read_all(self, tails: Sequence[_Tail]) -> None:
        found = await asyncio.gather(*(self._read(each) for each in tails))
        self._waiting += [(each.place, each.row) for part in found for each in part if each.row is not None]

    def _seen(self, message: ReceivedMessage) -> _Seen[Row]:
        wanted, stored_ms, is_readable = self.wanted, message.store_timestamp, message.queue_id >= 0
        is_wanted = wanted.begin_ms <= stored_ms and (wanted.end_ms is None or stored_ms <= wanted.end_ms)
        return _Seen(
            message.queue_offset,
            stored_ms,
            message.store_size,
            len(message.body),
            (-stored_ms, message.broker_name, -message.log_offset, -message.queue_offset),
            self._keep(message) if is_readable and is_wanted else None,
            is_readable,
        )

    async def _read(self, tail: _Tail) -> list[_Seen[Row]]:
        """Return the messages of the next slice of a queue, and move the part that is not read yet."""
        if tail.high is None:
            assert self.wanted.end_ms is not None
            tail.high = await self._cluster.reader.offset_for_timestamp(tail.queue, self.wanted.end_ms + 1)
        high = tail.high
        low = max(tail.low, high - tail.size)
        messages, low = await self._slice(tail, low, high)
        readable = [each for each in messages if each.is_readable]
        self.unreadable += len(messages) - len(readable)
        self.looked += high - low
        tail.high = low
        if low <= tail.low:
            return readable
        first_ms = readable[0].stored_ms if readable and readable[0].queue_offset == low else None
        if first_ms is None:
            first_ms = await self._time_at(tail.queue, low)
        if first_ms is not None:
            tail.bound_ms = min(tail.bound_ms, first_ms)
        if self.wanted.is_filtered and len(readable) < PULL // 4:
            tail.size = min(MOST_FILTERED, tail.size * 2)
        elif tail.size < PULL and _share(readable) < 0.5:
            tail.size = min(PULL, tail.size * 2)
        return readable

    async def _slice(self, tail: _Tail, low: int, high: int) -> tuple[list[_Seen[Row]], int]:
        """Return the messages from *low* to before *high*, and the offset at which they begin in the end.

        That is higher than *low* if messages are large, or were deleted meanwhile.
        """
        wanted, reader = self.wanted, self._reader
        found: list[_Seen[Row]] = []
        at, restarts = low, 0
        while at < high:
            result = await reader.pull(
                tail.queue,
                at,
                max_count=min(PULL, high - at),
                expression=wanted.expression,
                expression_type=wanted.expression_type,
            )
            if result.status is PullStatus.OFFSET_ILLEGAL and result.next_offset > at:
                low = at = tail.low = min(high, result.next_offset)
                found.clear()
                continue
            part = [self._seen(each) for each in result.messages if each.queue_offset < high]
            found += part
            self.read_bytes += sum(each.store_size for each in part)
            if result.next_offset <= at:
                break
            at = min(high, result.next_offset)
            size = _better_size(found, at - low, high - low)
            if restarts < RESTARTS and high - size > at:
                low = at = high - size
                tail.size, restarts = size, restarts + 1
                found.clear()
        return found, low

    async def _time_at(self, queue: MessageQueue, offset: int) -> int | None:
        """Return the store time of the message at *offset*, whether it matches the filter or not."""
        result = await self._reader.pull(queue, offset, max_count=1, expression=ALL, expression_type=TAG)
        return result.messages[0].store_timestamp if result.messages else None


def _share(found: Sequence[_Seen[Row]]) -> float:
    """Return how much of a slice the messages fill by their bytes; 1 or more if they fill it."""
    stored, decoded = sum(each.store_size for each in found), sum(each.body_size for each in found)
    return max(stored / SLICE_BYTES, decoded / DECODED_BYTES)


def _better_size(found: Sequence[_Seen[Row]], read: int, size: int) -> int:
    """Return the number of entries a slice should have, judged by the first *read* of *size* entries."""
    share = max(_share(found), len(found) / (2 * PULL)) / read
    return max(1, int(1 / share)) if share * size > 2 else size
