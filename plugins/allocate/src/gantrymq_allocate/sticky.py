"""STICKY: even shares with minimal changes.

Every member has n/c queues, rounded down or up. Two rules decide which:

- The setting ``previous`` has the previous allocation. A member keeps its queues up to its share; only excess queues,
  queues of members that left, and new queues are assigned. No allocation with even shares moves fewer queues.
- Queues are assigned by affinity: each pair of queue and member has a number computed from their names, and pairs are
  chosen in descending order while the member has room. Most pairs stay highest when members join or leave, so most
  queues stay without any stored state.

There is no hidden state: the answer depends on settings, queues and members only, so all members compute the same. If
all members can be given the same previous allocation (by a broker that allocates for the group, or a script), it is
passed as ``previous``; independent consumers omit it.

No release of RocketMQ has a strategy of this name. Pull request 2169 of apache/rocketmq proposed one for brokers
(AllocateMessageQueueSticky.java) that stores its last answer in the object; name and purpose are from there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import md5

from gantrymq.plugin.model import MessageQueue

_MASK = 0xFFFFFFFFFFFFFFFF
_REMEMBERED = 16  # cached inputs, so that allocating for each member computes the answer once


class Sticky:
    """The strategy. Takes about 2 us per pair of a queue to assign and a member."""

    name = "STICKY"

    def __init__(self, previous: Mapping[str, Sequence[MessageQueue]] | None = None) -> None:
        """*previous*: previous queues by client id; a queue belongs to at most one member."""
        self._owner = {queue: member for member, queues in (previous or {}).items() for queue in queues}
        self._shares = lru_cache(maxsize=_REMEMBERED)(self._share_out)

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Return the queues of *client_id*, in their order. A repeated id counts once."""
        if client_id not in client_ids:
            return []
        owner = self._shares(tuple(queues), tuple(dict.fromkeys(client_ids)))
        return [queue for queue in queues if owner[queue] == client_id]

    def _share_out(self, queues: tuple[MessageQueue, ...], members: tuple[str, ...]) -> dict[MessageQueue, str]:
        """Return the member of each queue."""
        size, more = divmod(len(queues), len(members))
        room = dict.fromkeys(members, size)
        owner = self._kept(queues, room, more)
        for member in owner.values():
            room[member] -= 1
        extra = more + sum(left for left in room.values() if left < 0)
        affinities = _affinities([queue for queue in queues if queue not in owner], members)
        for queue, member in affinities:
            if queue in owner or (room[member] <= 0 and (room[member] < 0 or not extra)):
                continue
            extra -= room[member] == 0
            room[member] -= 1
            owner[queue] = member
        return owner

    def _kept(self, queues: Sequence[MessageQueue], room: Mapping[str, int], more: int) -> dict[MessageQueue, str]:
        """Return kept queues: up to the even share, plus one for the first *more* members that have one more."""
        had: dict[str, list[MessageQueue]] = {}
        for queue in queues:
            member = self._owner.get(queue)
            if member is not None and member in room:
                had.setdefault(member, []).append(queue)
        kept: dict[MessageQueue, str] = {}
        for member in room:
            mine = had.get(member, [])
            share = room[member]
            if len(mine) > share and more:
                more -= 1
                share += 1
            kept.update((queue, member) for queue, _ in _affinities(mine, (member,))[:share])
        return kept


def _affinities(queues: Sequence[MessageQueue], members: Sequence[str]) -> list[tuple[MessageQueue, str]]:
    """Return all pairs in descending order of their number."""
    of_members = [(_name_hash(member), member) for member in members]
    of_queues = [(_name_hash(str(queue)), queue) for queue in queues]
    numbered = [(_mix(left ^ right), queue, member) for left, queue in of_queues for right, member in of_members]
    return [(queue, member) for _, queue, member in sorted(numbered, reverse=True)]


def _name_hash(text: str) -> int:
    return int.from_bytes(md5(text.encode(), usedforsecurity=False).digest()[:8], "big")


def _mix(bits: int) -> int:
    """Spread 64 bits so that each depends on all: the finalizer of SplitMix64 (Steele, Lea and Flood, 2014)."""
    bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    bits = (bits ^ bits >> 27) * 0x94D049BB133111EB & _MASK
    return bits ^ bits >> 31
