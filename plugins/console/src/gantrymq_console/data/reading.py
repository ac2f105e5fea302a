"""A topic read backwards within a deadline: the newest messages first, merged over its queues by store time.

Messages of one millisecond are in the order of broker and log offset, so a time and a number of messages to skip are
enough to continue later. A broker that does not answer in its share of the time is left out, and named.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

import attrs

from gantrymq.client.message import ReceivedMessage
from gantrymq.client.reading.backwards import FOREVER_MS, SLICE, Backwards
from gantrymq.errors import ClientError
from gantrymq.plugin.model import ALL, TAG
from gantrymq.plugin.world import Clock
from gantrymq_admin.asking import Asking, Missing
from gantrymq_console.data.cluster import HEAD_BYTES, Cluster
from gantrymq_console.data.routes import route_of

__all__ = ["ROUND_S", "Pace", "Walk", "Wanted"]

AT_ONCE: Final = 8  # queues that are read at the same time
ROUND_S: Final = 1.5  # for each broker, so that a silent one leaves time for the others
STATS_SHARE: Final = 0.5  # of the time, so that a silent broker leaves time to read from the others

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


class Walk(Generic[Row]):
    """Reads a topic backwards; `looked`, `read_bytes` and `reached_ms` are its progress."""

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
        self._clock = cluster.world.clock
        self.wanted = wanted
        self._rows = rows
        self._skip = wanted.skip
        self._reading: Backwards[Row] = Backwards(
            cluster.reader_of(body_bytes),
            lambda message: keep(message) if message.queue_id >= 0 else None,  # less: it could not be decoded
            begin_ms=wanted.begin_ms,
            end_ms=wanted.end_ms if wanted.end_ms is not None else FOREVER_MS,
            expression=wanted.expression,
            expression_type=wanted.expression_type,
        )
        self.missing: list[Missing] = []  # brokers that are left out from now on

    @property
    def is_done(self) -> bool:
        """Whether everything wanted was read."""
        return self._reading.is_done

    @property
    def reached_ms(self) -> int | None:
        """The store time down to which everything was yielded; None at the end."""
        return self._reading.reached_ms

    @property
    def looked(self) -> int:
        """Queue entries that were read."""
        return self._reading.looked

    @property
    def read_bytes(self) -> int:
        """Bytes of the records that were read."""
        return self._reading.read_bytes

    @property
    def unreadable(self) -> int:
        """Records that could not be decoded."""
        return self._reading.unreadable

    async def start(self, asking: Asking) -> None:
        """Ask for the ends of the queues. Raises NoRoute: no such topic."""
        wanted, admin = self.wanted, self._cluster.admin
        before = len(asking.missing)
        route = await route_of(self._cluster, asking, wanted.topic)
        brokers = {each.name: each.readable() for each in route.brokers}
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
        size = min(SLICE, max(4, 2 * self._rows // max(1, len(queues))))
        for queue, each in queues.items():
            if not each.count or each.updated_ms < wanted.begin_ms:
                continue
            high: int | None = each.max_offset
            if wanted.offset is not None:
                high = min(each.max_offset, wanted.offset + 1)
            elif each.updated_ms > end_ms:
                high = None
            self._reading.add(queue, each.min_offset, high, each.updated_ms, size)

    async def more(self, round_s: float = ROUND_S) -> list[Row]:
        """Read a slice of the queues that may have the newest messages. Return the messages whose order is final."""
        asking = Asking(self._clock, round_s)
        slices = self._reading.reads(AT_ONCE)
        answers = await asking.all(slices)
        self.missing += asking.missing
        self._reading.leave_out(slices.keys() - answers.keys())
        found = self._reading.take()
        left_out = sum(stored_ms == self.wanted.end_ms for stored_ms, _ in found[: self._skip])
        self._skip -= left_out
        return [row for _, row in found[left_out:]]

    def check_expression(self) -> None:
        """Raise ClientError if a broker refused to filter."""
        for each in self.missing:
            if self.wanted.is_filtered and each.reason == "refused":
                raise ClientError(each.sentence)
