"""The queues of a group as bars: what is read, in flight and waiting, who reads each, and which do not move."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from gantrymq_console.data.group import FINE, SLOW, GroupReports, QueueState
from gantrymq_console.values import Long, optional_long

_UNSUBSCRIBED: Final = frozenset({"not-subscribed", "lite-unsubscribed"})
_RESET: Final = "reset-pending"
_GOES_ON: Final = frozenset({SLOW, "different-subscriptions", "nothing-matches"})  # reasons of members that read
_STILL_MS: Final = 60_000
_UNREAD: Final = frozenset({"nobody-online", "not-owned", "owner-left", "lock-of-a-dead-client"})
BAD: Final = ("stuck", "unread")
MOST: Final = 512  # bars on a page
_ALL_OPEN: Final = 64  # bars; of more, only the first groups with a problem are unfolded
_MOST_OPEN: Final = 3
_LEAST_PERCENT: Final = 4.0  # of a part that is not empty, so that it can be seen


@attrs.frozen
class QueueBar:
    """One queue; None: unknown."""

    queue: int
    member: int | None  # its reader's place in `QueueBars.members`; None: nobody, or unknown
    state: str
    """One of: stuck (messages wait and its reader has not gone on for a minute), unread (messages wait and nobody reads
    it), moving, done (no message waits), idle (nobody reads it, none waits), unsubscribed (the group does not want what
    waits), unknown."""
    read: Long | None = attrs.field(converter=optional_long)  # messages that the group has consumed and that are stored
    in_flight: Long | None = attrs.field(converter=optional_long)  # pulled by the reader and not committed
    waiting: Long | None = attrs.field(converter=optional_long)

    @property
    def percent(self) -> tuple[float, float, float]:
        """Widths of the three parts; all 0 if nothing is known, or nothing is stored."""
        parts = [self.read or 0, self.in_flight or 0, self.waiting or 0]
        if not sum(parts):
            return 0.0, 0.0, 0.0
        wanted = [max(_LEAST_PERCENT, 100 * each / sum(parts)) if each else 0.0 for each in parts]
        scale = 100 / sum(wanted)
        first, second, third = (round(each * scale, 2) for each in wanted)
        return first, second, third


@attrs.frozen
class BarGroup:
    """The queues of a topic at one broker, those with a problem first."""

    topic: str
    broker: str
    bars: tuple[QueueBar, ...]
    bad: int  # queues with a problem
    waiting: Long | None = attrs.field(converter=optional_long)
    unfolded: bool

    @property
    def total(self) -> int:
        """Number of queues."""
        return len(self.bars)


@attrs.frozen
class BarMember:
    """A member in the legend."""

    client_id: str
    queues: int
    online: bool  # whether it is a member that is online, so that it has a page

    @staticmethod
    def letters(place: int) -> str:
        """Return A to Z, AA and so on: the sign of a member beside its colour."""
        text = ""
        while place >= 0:
            place, letter = divmod(place, 26)
            text = chr(65 + letter) + text
            place -= 1
        return text


@attrs.frozen
class QueueBars:
    """The bars of a group, those with a problem first."""

    members: tuple[BarMember, ...]
    groups: tuple[BarGroup, ...]
    unread: int  # queues that nobody reads
    unknown: int  # queues whose reader is not known
    bad: int  # queues with a problem
    more: int  # queues without a bar


def bars_of(reports: GroupReports) -> QueueBars:
    """Return the bars of a group."""
    queues = [queue for part in reports.brokers.values() for queue in part.queues]
    owners = Counter(each.owner for each in queues if each.owner is not None)
    online = {each.owner for each in queues if each.owner_online}
    members = sorted(owners, key=lambda each: (-owners[each], each))
    places = {client_id: place for place, client_id in enumerate(members)}
    found: dict[tuple[str, str], list[QueueState]] = {}
    for queue in queues:
        found.setdefault((queue.topic, queue.broker), []).append(queue)
    groups = sorted((_group(*where, each, places) for where, each in found.items()), key=_worst_first)
    shown, more = _shortened(groups)
    return QueueBars(
        tuple(BarMember(each, owners[each], each in online) for each in members),
        shown,
        sum(map(_is_nobodys, queues)),
        sum(1 for each in queues if each.owner is None and not (_is_nobodys(each) or _is_shared(each))),
        sum(each.bad for each in groups),
        more,
    )


def _shortened(groups: Sequence[BarGroup]) -> tuple[tuple[BarGroup, ...], int]:
    """Return the first groups, and how many queues the others have."""
    left, shown = MOST, []
    total = sum(each.total for each in groups)
    for place, each in enumerate(groups):
        if each.total > left:
            break
        left -= each.total
        unfolded = total <= _ALL_OPEN or (each.bad > 0 and place < _MOST_OPEN)
        shown.append(attrs.evolve(each, unfolded=unfolded))
    if not shown and groups:
        shown = [attrs.evolve(groups[0], bars=groups[0].bars[:MOST], unfolded=True)]
    return tuple(shown), total - sum(each.total for each in shown)


def _group(topic: str, broker: str, queues: Sequence[QueueState], places: Mapping[str, int]) -> BarGroup:
    bars = sorted((_bar(each, places) for each in queues), key=lambda each: (each.state not in BAD, each.queue))
    known = [each.behind for each in queues if each.behind is not None]
    waiting = sum(known) if len(known) == len(queues) else None
    return BarGroup(topic, broker, tuple(bars), sum(1 for each in bars if each.state in BAD), waiting, False)


def _worst_first(group: BarGroup) -> tuple[bool, int, str, str]:
    return not group.bad, -(group.waiting or 0), group.topic, group.broker


def _bar(queue: QueueState, places: Mapping[str, int]) -> QueueBar:
    place = places.get(queue.owner or "")
    if queue.behind is None:
        return QueueBar(queue.queue, place, _state(queue), None, None, None)
    at = queue.max_offset - queue.behind
    in_flight = None if queue.pulled is None else max(0, min(queue.pulled, queue.max_offset) - at)
    if place is None and not _is_shared(queue):
        in_flight = 0 if _is_nobodys(queue) else None  # what a member that left has pulled waits for the next one
    waiting = queue.behind - (in_flight or 0)
    return QueueBar(queue.queue, place, _state(queue), max(0, at - (queue.min_offset or 0)), in_flight, waiting)


def _is_shared(queue: QueueState) -> bool:
    """Return whether members pop, or broadcast, so that no one of them owns it."""
    return bool({queue.reason, queue.variant} & {"popped", "broadcasting"})


def _is_nobodys(queue: QueueState) -> bool:
    """Return whether no member reads a queue. One that goes on since before the broker's start is not named."""
    return queue.owner is None and queue.owner_known and not _is_shared(queue) and queue.reason != SLOW


def _goes_on(queue: QueueState) -> bool:
    """Return whether the committed offset has changed within a minute, or the reader may not have had time for it."""
    if queue.moved_ms_ago is not None and queue.moved_ms_ago < _STILL_MS:
        return True
    if queue.reason == _RESET:  # the reader's next pull begins there
        return _is_shared(queue) or (queue.last_pull_ms_ago or 0) < _STILL_MS
    return queue.reason == SLOW or (queue.reason in _GOES_ON and (queue.lag_ms or 0) < _STILL_MS)


def _state(queue: QueueState) -> str:
    if queue.behind is None:
        return "unknown"
    nobody = _is_nobodys(queue)
    if not queue.behind:
        return "idle" if nobody else "done"
    if queue.reason in _UNSUBSCRIBED:
        return "unsubscribed"
    if nobody or queue.reason in _UNREAD:
        return "unread"
    if queue.is_unsure:
        return "unknown"
    if queue.halted or queue.reason not in ("", *FINE):
        return "moving" if _goes_on(queue) else "stuck"
    return "moving" if queue.owner is not None or queue.reason else "unknown"
