"""MACHINE_ROOM_NEARBY-<inner>: queues stay in the room of their broker while it has members.

The room is the part before the first separator in a broker's name and in a client id: with "-" the broker ``hz-a`` and
the member ``hz-10.0.0.1@7`` are both in room hz. An inner strategy distributes the queues of a room among its members;
the queues of each room without members are distributed among all members.

Source: apache/rocketmq client/.../consumer/rebalance/AllocateMachineRoomNearby.java, where the application supplies
the rule that names rooms; the separator is ours.
"""

from __future__ import annotations

from collections.abc import Sequence

from gantrymq.errors import InvalidParameter
from gantrymq.plugin.interfaces import AllocationStrategy
from gantrymq.plugin.model import MessageQueue


class MachineRoomNearby:
    """An inner strategy, applied room by room."""

    def __init__(self, inner: AllocationStrategy, separator: str) -> None:
        """*separator*: ends the room in a name; not empty."""
        self.name = f"MACHINE_ROOM_NEARBY-{inner.name}"
        self._inner = inner
        self._separator = separator

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Return the share of *client_id* in its own room's queues, then in each room without members, sorted by name.

        Raises:
            InvalidParameter: a broker's name or a client id has no room.
        """
        if client_id not in client_ids:
            return []
        queues_in: dict[str, list[MessageQueue]] = {}
        for queue in queues:
            queues_in.setdefault(self._room("broker name", queue.broker_name), []).append(queue)
        members_in: dict[str, list[str]] = {}
        for member in client_ids:
            members_in.setdefault(self._room("client id", member), []).append(member)
        here = self._room("client id", client_id)
        share = self._inner.allocate(group, client_id, queues_in.pop(here, []), members_in[here])
        for room in sorted(queues_in.keys() - members_in.keys(), key=_java_order):
            share += self._inner.allocate(group, client_id, queues_in[room], client_ids)
        return share

    def _room(self, kind: str, name: str) -> str:
        room, mark, _ = name.partition(self._separator)
        if not mark or not room:
            raise InvalidParameter(
                f"the {kind} {name} names no room: {self.name} with separator={self._separator} expects it before the "
                f"first {self._separator}, as in room1{self._separator}{name}"
            )
        return room


def _java_order(text: str) -> bytes:
    """Return a sort key that orders strings as Java does, by UTF-16 units."""
    return text.encode("utf-16-be", "surrogatepass")
