"""MACHINE_ROOM: consume only from brokers in given rooms; brokers are named ``<room>@<name>``.

Queues of other rooms, and of brokers without a room in their name, are not assigned. The largest even share is assigned
in runs, the rest one by one: with 4 queues and 3 members the first has queues 0 and 3.

Source: apache/rocketmq client/.../consumer/rebalance/AllocateMessageQueueByMachineRoom.java.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from gantrymq.plugin.model import MessageQueue

_ROOM_MARK = "@"


class MachineRoom:
    """Distributes the queues of some rooms."""

    name = "MACHINE_ROOM"

    def __init__(self, rooms: Collection[str]) -> None:
        """*rooms*: names of the rooms to consume from."""
        self._rooms = frozenset(rooms)

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Return the share of *client_id* in the queues of the rooms, in their order."""
        if client_id not in client_ids:
            return []
        here = [queue for queue in queues if room_of(queue.broker_name) in self._rooms]
        index = client_ids.index(client_id)
        size, more = divmod(len(here), len(client_ids))
        share = here[index * size : (index + 1) * size]
        return [*share, here[size * len(client_ids) + index]] if index < more else share


def room_of(broker_name: str) -> str | None:
    """Return the room in a broker's name; None if the name does not have two parts.

    Marks at the end are ignored, because Java's ``String.split`` drops trailing empty parts.
    """
    parts = broker_name.rstrip(_ROOM_MARK).split(_ROOM_MARK)
    return parts[0] if len(parts) == 2 else None


class Configured:
    """CONFIG: returns the configured queues, unchecked.

    They may not exist, may belong to another topic, or be assigned to other members too. Configure each member with its
    own list, and omit no queue. Source: apache/rocketmq client/.../rebalance/AllocateMessageQueueByConfig.java.
    """

    name = "CONFIG"

    def __init__(self, queues: Sequence[MessageQueue]) -> None:
        """*queues*: the answer, in order; empty without the setting."""
        self._queues = tuple(queues)

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Return the configured queues as a new list; the arguments are ignored."""
        return list(self._queues)
