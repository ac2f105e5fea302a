"""How queues move when the members of a group change. No I/O.

A `Shares` is what each member reads; two of them make the moves between them. Members are asked one by one, as they
would answer on their own, so a strategy that gives a queue to two members, or to none, is seen to do so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import attrs

from gantrymq.interfaces import AllocationStrategy
from gantrymq.model.queue import MessageQueue

Shares = Mapping[str, Sequence[MessageQueue]]


@attrs.frozen
class Move:
    """One queue whose readers change."""

    queue: MessageQueue
    before: tuple[str, ...]  # sorted; empty: nobody, more than one: a strategy that shares queues
    after: tuple[str, ...]


@attrs.frozen
class Plan:
    """The shares before and after a change; equal where nothing changes."""

    queues: tuple[MessageQueue, ...]  # sorted
    before: Shares
    after: Shares

    @property
    def members(self) -> list[str]:
        """Everyone who is a member before or after, sorted."""
        return sorted({*self.before, *self.after})

    def moves(self) -> list[Move]:
        """Queues whose readers are not the same before and after, sorted."""
        before, after = _readers(self.before), _readers(self.after)
        queues = sorted({*before, *after})
        found = (Move(queue, before.get(queue, ()), after.get(queue, ())) for queue in queues)
        return [move for move in found if move.before != move.after]

    def unread(self) -> list[MessageQueue]:
        """Queues that nobody reads after the change."""
        read = _readers(self.after)
        return [queue for queue in self.queues if queue not in read]

    def shared(self) -> list[MessageQueue]:
        """Queues that more than one member reads after the change."""
        return [queue for queue, readers in sorted(_readers(self.after).items()) if len(readers) > 1]


def make_plan(
    strategy: AllocationStrategy,
    group: str,
    queues: Iterable[MessageQueue],
    before: Iterable[str],
    after: Iterable[str],
) -> Plan:
    """Ask *strategy* for every member, before and after. Raises what the strategy raises."""
    ordered = tuple(sorted(queues))
    return Plan(ordered, _shares(strategy, group, ordered, before), _shares(strategy, group, ordered, after))


def in_words(queues: Iterable[MessageQueue]) -> str:
    """Queues for people, by broker, with ranges: ``broker-a 0-3 7, broker-b 0``; ``-`` without any."""
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
