"""Moves of queues when the members of a group change. No I/O.

A `Shares` has the queues of each member; two of them define the moves between them. The strategy is called once per
member, as each would call it, so a queue assigned to two members, or to none, is detected.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import attrs

from gantrymq.interfaces import AllocationStrategy
from gantrymq.model.queue import MessageQueue

Shares = Mapping[str, Sequence[MessageQueue]]


@attrs.frozen
class Move:
    """One queue with changed readers."""

    queue: MessageQueue
    before: tuple[str, ...]  # sorted; empty: no reader; more than one: a strategy that shares queues
    after: tuple[str, ...]


@attrs.frozen
class Plan:
    """The assignments before and after a change; equal if nothing changes."""

    queues: tuple[MessageQueue, ...]  # sorted
    before: Shares
    after: Shares

    @property
    def members(self) -> list[str]:
        """All members before or after, sorted."""
        return sorted({*self.before, *self.after})

    def moves(self) -> list[Move]:
        """Queues with different readers before and after, sorted."""
        before, after = _readers(self.before), _readers(self.after)
        queues = sorted({*before, *after})
        found = (Move(queue, before.get(queue, ()), after.get(queue, ())) for queue in queues)
        return [move for move in found if move.before != move.after]

    def unread(self) -> list[MessageQueue]:
        """Queues without a reader after the change."""
        read = _readers(self.after)
        return [queue for queue in self.queues if queue not in read]

    def shared(self) -> list[MessageQueue]:
        """Queues with more than one reader after the change."""
        return [queue for queue, readers in sorted(_readers(self.after).items()) if len(readers) > 1]


def make_plan(
    strategy: AllocationStrategy,
    group: str,
    queues: Iterable[MessageQueue],
    before: Iterable[str],
    after: Iterable[str],
) -> Plan:
    """Call *strategy* for every member, before and after. Raises the strategy's exceptions."""
    ordered = tuple(sorted(queues))
    return Plan(ordered, _shares(strategy, group, ordered, before), _shares(strategy, group, ordered, after))


def in_words(queues: Iterable[MessageQueue]) -> str:
    """Format queues by broker, with ranges: ``broker-a 0-3 7, broker-b 0``; ``-`` without any."""
    by_broker: dict[str, list[int]] = {}
    for queue in sorted(queues):
        by_broker.setdefault(queue.broker_name, []).append(queue.queue_id)
    return ", ".join(f"{broker} {' '.join(_ranges(ids))}" for broker, ids in by_broker.items()) or "-"


def _shares(
    strategy: AllocationStrategy, group: str, queues: Sequence[MessageQueue], members: Iterable[str]
) -> dict[str, list[MessageQueue]]:
    ordered = sorted(members)
    return {member: strategy.allocate(group, member, queues, ordered) for member in ordered}


def _readers(shares: Shares) -> dict[MessageQueue, tuple[str, ...]]:
    readers: dict[MessageQueue, tuple[str, ...]] = {}
    for member, queues in sorted(shares.items()):
        for queue in queues:
            readers[queue] = (*readers.get(queue, ()), member)
    return readers


def _ranges(ids: Sequence[int]) -> list[str]:
    ranges: list[list[int]] = []
    for queue_id in ids:
        if ranges and queue_id == ranges[-1][1] + 1:
            ranges[-1][1] = queue_id
        else:
            ranges.append([queue_id, queue_id])
    return [str(first) if first == last else f"{first}-{last}" for first, last in ranges]
