"""What is left to consume at one broker, before it may be stopped without keeping messages from their consumers.

A number counts only while nothing has been stored at the broker since it was computed: brokers count all messages that
they store, also those that they store for themselves, such as copies for another try. Each look notes that counter with
its time. A row is current if the counter was the same before the row was computed as it is now.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Mapping
from typing import Final

import attrs

from gantrymq.client import ReceivedMessage
from gantrymq.client.admin import QueueProgress, RequestNotServed
from gantrymq.errors import BrokerRefused, ClientError
from gantrymq.plugin import names
from gantrymq.plugin.model import PERM_WRITE, MessageQueue
from gantrymq.plugin.remoting import ResponseCode
from gantrymq.plugin.world import monotonic_ms
from gantrymq_admin.asking import Asking
from gantrymq_admin.brokers import rate
from gantrymq_admin.consumption.pops import MOST, REVIVE_GROUP, REVIVE_PREFIX, Pops, read_newest
from gantrymq_admin.progress import committed_at
from gantrymq_admin.summaries import MAX_ROWS, GroupSummaries, summary_page
from gantrymq_admin.transactions import list_transactions
from gantrymq_console.data.brokers import accepts_sends
from gantrymq_console.data.cluster import BrokerAddress, Cluster
from gantrymq_console.data.groups import ask_group, is_system
from gantrymq_console.data.table import limited
from gantrymq_console.values import Long, optional_long, record_of

DEADLINE_S: Final = 7.0  # a broker with much to drain may be slow
PERMISSION: Final = "brokerPermission"  # a setting
_RESERVE_S: Final = 3.0  # of the deadline, for the requests after those about groups
_OLDEST_MS: Final = 120_000  # after which a row is asked for again, whatever was stored
_LISTED_MS: Final = 15_000  # age of a broker's list of groups
_LATELY_MS: Final = 10_000  # in which stored messages count as arriving
_MOST_MARKS: Final = 64
_TRANSACTION_GROUP: Final = "CID_RMQ_SYS_TRANS"  # whose offset has passed the decided half messages
_LEVEL: Final = "scheduleMessageOffset_"  # names of runtime info
_TIMERS: Final = ("timerCongestNum", "timerOffsetBehind")
_STORED: Final = "putMessageTimesTotal"
_WITHOUT_TIMERS: Final = "V4_"  # begin of versions


@attrs.frozen
class GroupLeft:
    """What a group has left at the broker; None: not known."""

    name: str
    lag: Long | None = attrs.field(converter=optional_long)  # messages not consumed
    late_ms: int | None  # age of the oldest one; 0 without one
    late_at_most: bool  # whether `late_ms` is an upper bound only
    retries: Long | None = attrs.field(converter=optional_long)  # messages on its retry topics
    members: int | None
    read_by_others: bool  # see `GroupRow.read_by_others`
    current: bool  # whether nothing has been stored at the broker since

    @property
    def is_done(self) -> bool:
        """Whether nothing was left."""
        return self.lag == 0 and self.retries == 0

    @property
    def is_unused(self) -> bool:
        """Whether it has neither members nor offsets: it was never used here, or its members keep their offsets."""
        return self.lag is None and not self.retries and self.members == 0


@attrs.frozen
class Left:
    """What is left at one broker; None: not known."""

    broker: str
    address: str
    permission: int | None  # brokerPermission: 2 write, 4 read
    routed: bool | None  # whether the name servers let producers send to it
    in_per_s: float | None
    arrives: bool | None  # whether it stored messages lately, or since the last look
    groups: tuple[GroupLeft, ...]  # those with something left or unknown, the most messages first
    unused: tuple[str, ...]  # groups without members and offsets
    total: int | None  # groups
    done: int  # groups without messages left
    checking: int  # of these, those that are asked again, because something was stored since
    unasked: int  # groups that were not asked yet
    delayed: Long | None = attrs.field(converter=optional_long)  # messages that wait for their time or another try
    halves: Long | None = attrs.field(converter=optional_long)  # undecided half messages
    halves_at_most: bool
    popped: Long | None = attrs.field(converter=optional_long)  # pops that are not acknowledged
    waits_for: tuple[str, ...] = attrs.field(init=False)  # words for what must end, or become known
    empty: bool = attrs.field(init=False)  # whether everything is known to be consumed

    @waits_for.default
    def _waits_for(self) -> tuple[str, ...]:
        unknown = any(each.lag is None or each.retries is None for each in self.groups)
        waits = {
            "open": self.closed is False,
            "open_unknown": self.closed is None,
            "arrives": self.arrives is True,
            "arrives_unknown": self.arrives is None,
            "groups": any(each.lag or each.retries for each in self.groups),
            "groups_unknown": unknown or self.total is None,
            "unused": bool(self.unused),
            "checking": bool(self.checking or self.unasked),
        }
        for word in ("delayed", "halves", "popped"):
            number = getattr(self, word)
            waits |= {word: bool(number), f"{word}_unknown": number is None}
        return tuple(word for word, is_so in waits.items() if is_so)

    @empty.default
    def _empty(self) -> bool:
        return not self.waits_for

    @property
    def behind(self) -> int:
        """Number of groups that are known to have messages left."""
        return sum(bool(each.lag or each.retries) for each in self.groups)

    @property
    def untold(self) -> int:
        """Number of groups of which brokers do not tell what is left."""
        return len(self.groups) - self.behind

    @property
    def closed(self) -> bool | None:
        """Whether producers are kept away; None: not known."""
        if self.permission is None or self.routed is None:
            return None
        return not self.permission & PERM_WRITE and not self.routed


@attrs.frozen
class _Row:
    lag: int | None
    late_ms: int | None
    late_at_most: bool
    retries: int | None
    members: int | None
    read_by_others: bool
    asked_ms: int  # of the monotonic clock


@attrs.define
class _Known:
    """What is remembered of one broker."""

    marks: list[tuple[int, int]] = attrs.field(factory=list)  # times in ms, and the counter of stored messages
    rows: dict[str, _Row] = attrs.field(factory=dict)

    def mark(self, now_ms: int, counter: int) -> None:
        """Add a mark. Of those with one counter the first and the last are enough."""
        if [each[1] for each in self.marks[-2:]] == [counter, counter]:
            del self.marks[-1]
        self.marks.append((now_ms, counter))
        del self.marks[:-_MOST_MARKS]

    def is_current(self, row: _Row) -> bool:
        """Return whether nothing was stored since *row* was computed."""
        place = bisect_right(self.marks, (row.asked_ms, 1 << 62))
        return place > 0 and self.marks[place - 1][1] == self.marks[-1][1]

    def arrives(self) -> bool | None:
        """Return whether messages were stored lately, or since the last look; None: it is not known yet."""
        if not self.marks:
            return None
        now_ms, counter = self.marks[-1]
        since = next((place for place, each in enumerate(reversed(self.marks)) if each[1] != counter), None)
        began_ms = self.marks[0 if since is None else -since][0]  # the counter is the same from then on
        if now_ms - began_ms >= _LATELY_MS:
            return False
        return None if since is None else True


async def left_at(cluster: Cluster, at: BrokerAddress, asking: Asking) -> Left:
    """Return what is left at a broker. Failed requests are in `Asking.missing`; what they would tell is unknown."""
    looked: dict[str, _Known] = cluster.kept.setdefault("draining", {})
    for address in looked.keys() - {each.address for each in cluster.known.values()}:
        del looked[address]
    known = looked.setdefault(at.address, _Known())
    admin, address, name = cluster.admin, at.address, at.name
    info = await asking.one(name, _mark(cluster, address, known))
    if info is None:  # the other requests would wait for it, too
        known.marks.clear()
        return Left(name, address, None, None, None, None, (), (), None, 0, 0, 0, None, None, False, None)
    settings, halves, popped, groups, routed = await asyncio.gather(
        asking.one(f"settings of {name}", admin.broker_settings(address)),
        asking.one(f"transactions of {name}", _halves(cluster, address)),
        asking.one(f"pops of {name}", _popped(cluster, address, f"{REVIVE_PREFIX}{at.cluster}")),
        asking.one(f"groups of {name}", _groups(cluster, address, known, asking)),
        accepts_sends(cluster, name),
    )
    info = await asking.one(name, _mark(cluster, address, known)) or info
    rows = [
        record_of(GroupLeft, row, name=group, current=known.is_current(row))
        for group, row in known.rows.items()
        if groups is not None and group in groups
    ]
    unused = sorted(each.name for each in rows if each.is_unused)
    left = [each for each in rows if not each.is_done and not each.is_unused]
    left.sort(key=lambda each: (-(each.lag or 0) - (each.retries or 0), each.name))
    permission = (settings or {}).get(PERMISSION, "")
    undecided, at_most = halves or (None, False)
    return Left(
        name,
        address,
        int(permission) if permission.isdecimal() else None,
        routed,
        rate(info.get("putTps")),
        known.arrives(),
        tuple(left),
        tuple(unused),
        None if groups is None else len(groups),
        len(rows) - len(left) - len(unused),
        sum(each.is_done and not each.current for each in rows),
        0 if groups is None else len(groups - known.rows.keys()),
        _delayed(info),
        undecided,
        at_most,
        popped,
    )


async def _mark(cluster: Cluster, address: str, known: _Known) -> dict[str, str]:
    """Return the runtime info, and note the number of stored messages."""
    info = await cluster.admin.runtime_info(address)
    stored = info.get(_STORED, "")
    if stored.isdecimal():
        known.mark(monotonic_ms(cluster.world.clock), int(stored))
    return info


async def _groups(cluster: Cluster, address: str, known: _Known, asking: Asking) -> frozenset[str]:
    """Return the groups of the broker, without its own, and update the rows of as many as the deadline permits."""
    try:
        found = await _summaries(cluster, address, known)
    except RequestNotServed:
        found = frozenset(name for name in await cluster.admin.groups(address) if not is_system(name))
        await _ask_each(cluster, address, known, asking, found)
    for name in known.rows.keys() - found:
        del known.rows[name]
    return found


async def _summaries(cluster: Cluster, address: str, known: _Known) -> frozenset[str]:
    found: set[str] = set()
    start, total = 0, 1
    while start < total:
        page = await summary_page(cluster.admin, address, GroupSummaries, order="name", start=start, most=MAX_ROWS)
        # A list that a busy broker has made long ago may lack groups: its rows are not current.
        computed_ms = monotonic_ms(cluster.world.clock) - page.age_ms if page.age_ms < _LISTED_MS else -1
        for each in page.groups:
            known.rows[each.group] = record_of(
                _Row, each, lag=each.behind, late_at_most=False, retries=each.retry_behind, asked_ms=computed_ms
            )
            found.add(each.group)
        start, total = start + MAX_ROWS, page.total
    return frozenset(found)


async def _ask_each(cluster: Cluster, address: str, known: _Known, asking: Asking, groups: frozenset[str]) -> None:
    """Ask for the groups that are unknown or not current, the oldest first."""

    async def one(name: str) -> None:
        if asking.left_s < _RESERVE_S:
            return
        asked_ms = monotonic_ms(cluster.world.clock)
        try:
            row = await ask_group(cluster, address, name)
        except ClientError:
            known.rows.pop(name, None)
            return
        known.rows[name] = record_of(_Row, row, asked_ms=asked_ms)

    now_ms = monotonic_ms(cluster.world.clock)
    ages = {name: now_ms - row.asked_ms for name, row in known.rows.items()}
    done = {name for name, row in known.rows.items() if not row.lag and not row.retries and known.is_current(row)}
    old = [name for name in groups if name not in done or ages[name] > _OLDEST_MS]
    await limited(sorted(old, key=lambda name: -ages.get(name, 1 << 62)), one)


async def _halves(cluster: Cluster, address: str) -> tuple[int, bool]:
    """Return the number of undecided half messages, and whether it is an upper bound."""
    try:
        return (await list_transactions(cluster.admin, address, start=0, count=1)).undecided, False
    except RequestNotServed:
        progress = await _progress(cluster, address, _TRANSACTION_GROUP, names.HALF_TOPIC)
        return sum(max(0, each.max_offset - each.committed) for each in progress.values()), True


async def _popped(cluster: Cluster, address: str, topic: str) -> int:
    """Return the number of pops that are not acknowledged, at most that of the records of a long revive log.

    The group of that log commits the offset of the last finished record, not of the next one. A Java broker leaves
    acknowledgements at its end unfinished until another pop is due, so the records are read.

    Source: apache/rocketmq broker/.../processor/PopReviveService.java (getReviveMessage begins at the offset plus 1).
    """
    many = 0
    processed: dict[int, int] = {}
    records: list[ReceivedMessage] = []
    for queue, each in (await _progress(cluster, address, REVIVE_GROUP, topic)).items():
        committed: int | None = each.committed
        if each.max_offset and not committed:  # 0 without a commit, too
            committed = await committed_at(cluster.admin, address, REVIVE_GROUP, queue)
        processed[queue.queue_id] = -1 if committed is None else committed
        unfinished = each.max_offset - processed[queue.queue_id] - 1
        if unfinished > MOST:
            many += unfinished
        elif unfinished > 0:
            records += await read_newest(cluster.reader, queue, each.max_offset)
    return many + Pops(records, processed).in_flight


async def _progress(cluster: Cluster, address: str, group: str, topic: str) -> dict[MessageQueue, QueueProgress]:
    """Return the progress of a group of the broker in one of the broker's topics; none without that topic."""
    try:
        return await cluster.admin.group_progress(address, group, topic)
    except BrokerRefused as refused:
        if refused.response_code != ResponseCode.TOPIC_NOT_EXIST:
            raise
        return {}


def _delayed(info: Mapping[str, str]) -> int | None:
    """Return the number of messages that wait in delay levels and timers; None: it is not known."""
    waiting = 0
    for name, text in info.items():
        if name.startswith(_LEVEL):
            position, _, end = text.partition(",")
            if not (position.isdecimal() and end.isdecimal()):
                return None
            waiting += max(0, int(end) - int(position))
    for name in _TIMERS:
        text = info.get(name, "0" if info.get("brokerVersionDesc", "").startswith(_WITHOUT_TIMERS) else "")
        if not text.isdecimal():
            return None
        waiting += int(text)
    return waiting
