"""Pages of the messages of a topic: the newest first, or those with a key; and a test for text in messages.

A topic is read backwards within a deadline, merged over its queues by store time. Messages of one millisecond are in
the order of broker and log offset, so a time and a number of messages to skip are enough to continue later. A broker
that does not answer in its share of the time is left out, and named.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

import attrs

from gantrymq.client import ReceivedMessage
from gantrymq.client.admin import FOREVER_MS
from gantrymq.errors import ClientError
from gantrymq.plugin.client import SLICE, Backwards
from gantrymq.plugin.model import ALL, TAG
from gantrymq.plugin.names import DLQ_PREFIX, RETRY_PREFIX
from gantrymq.plugin.sys_flag import INNER_BATCH
from gantrymq.plugin.world import Clock
from gantrymq_admin.asking import Asking, Missing
from gantrymq_console.data.cluster import HEAD_BYTES, Cluster, readable_of, route_of
from gantrymq_console.values import Long

_AT_ONCE: Final = 8  # queues that are read at the same time
ROUND_S: Final = 1.5  # for each broker, so that a silent one leaves time for the others
_STATS_SHARE: Final = 0.5  # of the time, so that a silent broker leaves time to read from the others

Kept = TypeVar("Kept")
_EXCERPT: Final = 300  # characters
_BRIEF_BYTES: Final = 4096  # of a body that are decompressed if it is not shown
SEARCHED_BYTES: Final = 1024 * 1024  # the same for a search for text
_MOST_BYTES: Final = 8 * 1024 * 1024  # read for one page
MOST_LOOKED: Final = 20_000  # queue entries looked at for one page
_MOST_FILTERED: Final = 500_000  # the same for a tag, for which brokers read only the entries


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


class Walk(Generic[Kept]):
    """Reads a topic backwards; `looked`, `read_bytes` and `reached_ms` are its progress."""

    def __init__(
        self,
        cluster: Cluster,
        wanted: Wanted,
        keep: Callable[[ReceivedMessage], Kept | None],
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
        self._reading: Backwards[Kept] = Backwards(
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
        stats = await asking.all(
            {
                name: admin.topic_stats(address, wanted.topic)
                for name, address in readable_of(route).items()
                if wanted.queue is None or wanted.queue[0] == name
            },
            _STATS_SHARE,
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

    async def more(self, round_s: float = ROUND_S) -> list[Kept]:
        """Read a slice of the queues that may have the newest messages. Return the messages whose order is final."""
        asking = Asking(self._clock, round_s)
        slices = self._reading.reads(_AT_ONCE)
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


@attrs.frozen
class Row:
    """One message of a list."""

    id: str  # for links
    at: str  # broker:queue:offset for links, if no id finds the message
    topic: str
    unique_id: str
    offset_id: str
    broker: str
    queue_id: int
    queue_offset: Long
    keys: str
    tags: str
    born_ms: int
    stored_ms: int
    body_bytes: Long
    is_shortened: bool  # whether *body_bytes* are only the beginning of a body, the rest of which was not decompressed
    failures: int
    excerpt: str | None  # the beginning of the body; None if the user's role does not permit to read it
    problem: str  # why the body could not be decoded


@attrs.frozen
class Listing:
    """A page of messages, the newest first, and where the next one begins."""

    rows: Sequence[Row]
    looked: int  # queue entries, or messages with the key
    read_bytes: Long
    unreadable: int = 0
    half_searched: int = 0  # messages with a body so large that only its beginning was searched
    next_ms: int | None = None  # store time to continue at; None: there are no more
    next_skip: int = 0
    stopped: bool = False  # at a limit, before the page was full
    more_in_one_second: bool = False  # messages with the key that no query returns


def row_of(message: ReceivedMessage, *, with_body: bool) -> Row:
    """Return the row of a message."""
    unique_id = message.properties.get("UNIQ_KEY", "")
    copies = message.topic.startswith((RETRY_PREFIX, DLQ_PREFIX))  # which share their unique ids
    return Row(
        message.offset_id if copies or not unique_id else unique_id,
        f"{message.broker_name}:{message.queue_id}:{message.queue_offset}" if message.sys_flag & INNER_BATCH else "",
        message.topic,
        unique_id,
        message.offset_id,
        message.broker_name,
        message.queue_id,
        Long(message.queue_offset),
        message.keys or "",
        message.tags or "",
        message.born_timestamp,
        message.store_timestamp,
        Long(len(message.body)),
        message.is_shortened,
        message.reconsume_times,
        excerpt_of(message.body) if with_body else None,
        "" if message.is_shortened else message.body_problem,
    )


def excerpt_of(body: bytes) -> str:
    """Return the beginning of a body as text; hexadecimal digits if it is none."""
    part = body[: _EXCERPT * 4]
    try:
        text = part.decode("utf-8", "strict" if len(body) <= len(part) else "ignore")
    except UnicodeDecodeError:
        return part[: _EXCERPT // 3].hex(" ")
    return part[: _EXCERPT // 3].hex(" ") if "\0" in text else text[:_EXCERPT]


class Contains:
    """A test for a text in the body or a property, which ignores the case of ASCII letters."""

    def __init__(self, text: str) -> None:
        self._needle = text.encode("utf-8", "replace").lower()
        self._lowered = text.lower()
        self._half: set[tuple[str, int, int]] = set()

    @property
    def half_searched(self) -> int:
        """Messages without it in the part of the body that was decompressed."""
        return len(self._half)

    def __call__(self, message: ReceivedMessage) -> bool:
        """Return whether *message* has the text."""
        if any(self._lowered in each.lower() for each in message.properties.values()):
            return True
        found = self._needle in message.body.lower()
        if message.is_shortened and not found:
            self._half.add((message.broker_name, message.queue_id, message.queue_offset))  # it may be tested twice
        return found


async def newest(
    cluster: Cluster,
    asking: Asking,
    wanted: Wanted,
    rows: int,
    *,
    with_body: bool,
    test: Contains | None = None,
) -> Listing:
    """Return up to *rows* messages, as many as can be found before the deadline.

    Raises:
        NoRoute: no such topic.
        ClientError: a broker refused the expression.
    """

    def keep(message: ReceivedMessage) -> Row | None:
        return row_of(message, with_body=with_body) if test is None or test(message) else None

    most_looked = _MOST_FILTERED if wanted.expression != ALL and wanted.expression_type == TAG else MOST_LOOKED
    walk = Walk(cluster, wanted, keep, rows=rows, body_bytes=SEARCHED_BYTES if test is not None else HEAD_BYTES)
    await walk.start(asking)
    found: list[Row] = []
    while len(found) <= rows and not walk.is_done and asking.left_s > 0.2:
        if walk.read_bytes >= _MOST_BYTES or walk.looked >= most_looked:
            break
        found += await walk.more(min(asking.left_s, ROUND_S))
        walk.check_expression()
    asking.missing += walk.missing
    return attrs.evolve(page_of(found, rows, walk, wanted), half_searched=test.half_searched if test is not None else 0)


def page_of(found: Sequence[Row], rows: int, walk: Walk[Row], wanted: Wanted) -> Listing:
    """Return the page of *rows* messages, and where the next one begins."""
    shown = found[:rows]
    read_bytes = Long(walk.read_bytes)
    full = len(found) > rows
    if not full and walk.is_done:
        return Listing(shown, walk.looked, read_bytes, walk.unreadable)
    at = shown[-1].stored_ms if full else walk.reached_ms
    skip = sum(each.stored_ms == at for each in shown)
    if at == wanted.end_ms:
        skip += wanted.skip
    return Listing(shown, walk.looked, read_bytes, walk.unreadable, 0, at, skip, not full)


async def by_key(
    cluster: Cluster,
    asking: Asking,
    topic: str,
    key: str,
    *,
    with_body: bool,
    begin_ms: int = 0,
    end_ms: int | None = None,
) -> Listing:
    """Return the newest messages with *key* or unique id *key*; a broker returns 64 at most. Raises NoRoute."""
    route = await route_of(cluster, asking, topic)
    end = end_ms if end_ms is not None else FOREVER_MS
    answers = await asking.all(
        {
            name: cluster.admin.query_message_page(
                topic, key, begin_ms, end, broker=name, max_body_bytes=HEAD_BYTES if with_body else _BRIEF_BYTES
            )
            for name in readable_of(route)
        }
    )
    for name, page in answers.items():
        asking.missing += [Missing(name, "failed", each) for each in page.problems.values()]
    at = max((each.next_end_ms for each in answers.values() if each.next_end_ms is not None), default=None)
    found = [each for page in answers.values() for each in page.messages if begin_ms <= each.store_timestamp]
    shown = [each for each in found if at is None or each.store_timestamp > at]
    shown.sort(key=lambda each: (-each.store_timestamp, each.broker_name, -each.log_offset, -each.queue_offset))
    return Listing(
        [row_of(each, with_body=with_body) for each in shown],
        len(found),
        Long(sum(each.store_size for each in found)),
        next_ms=at,
        more_in_one_second=any(each.hidden for each in answers.values()),
    )
