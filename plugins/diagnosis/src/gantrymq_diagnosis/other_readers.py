"""Clients that read for a group without being its members, because they send no heartbeat for it.

Pop consumers of gantrymq.client, and its consumers that choose their queues, are such clients. A broker knows them by
their pulls and pops only: one counts as long as its connection is open and it has asked within a minute.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from gantrymq.errors import RequestNotSupported
from gantrymq.plugin.interfaces import Broker, PopService
from gantrymq.plugin.model import Queue
from gantrymq.plugin.world import TimeSlices
from gantrymq_diagnosis.group_state import Read

RECENT_S: Final = 60.0  # a pull or pop waits for 30 s at most, if the client does not ask for more
_TOGETHER: Final = 100  # connections or queues between pauses


class OtherReaders:
    """The clients that read from one broker, for groups without members."""

    def __init__(self, broker: Broker, clients: Mapping[tuple[str, int], str]) -> None:
        self._broker = broker
        self._clock = broker.world.clock
        self._clients = clients
        self._slices = TimeSlices(broker.world.clock, _TOGETHER)
        self._pop = _pop_service(broker)

    @classmethod
    async def of(cls, broker: Broker) -> OtherReaders:
        """Read the open connections, in short steps."""
        slices, clients = TimeSlices(broker.world.clock, _TOGETHER), dict[tuple[str, int], str]()
        for each in broker.clients.connections():
            clients[each.connection.peer] = each.client_id or each.connection.address
            await slices.item_done()
        return cls(broker, clients)

    @property
    def names(self) -> Mapping[tuple[str, int], str]:
        """Client ids of the open connections, or addresses, by address."""
        return self._clients

    def popped(self, group: str, topic: str) -> Read | None:
        """Return who pops a topic for *group*."""
        last = None if self._pop is None else self._pop.last_pop(group, topic)
        return None if last is None else self._read(last.by, last.at)

    def pulled(self, group: str, queue: Queue) -> Read | None:
        """Return who pulls a queue for *group*."""
        for held in self._broker.held_pulls.of(group, queue):
            if held is not None and held.peer in self._clients:
                return Read(self._clients[held.peer], 0)
        last = self._broker.offsets.last_pull(group, queue)
        return None if last.by is None else self._read(last.by, last.at)

    async def reads(self, group: str, topics: Iterable[str]) -> bool:
        """Return whether one reads any queue of *topics* for *group*, in short steps."""
        for topic in topics:
            if self.popped(group, topic):
                return True
            config = self._broker.topics.get(topic)
            for queue_id in range(0 if config is None else config.read_queues):
                if self.pulled(group, Queue(topic, queue_id)):
                    return True
                await self._slices.item_done()
        return False

    def _read(self, by: tuple[str, int], at: float) -> Read | None:
        ago_s, client = self._clock.monotonic() - at, self._clients.get(by)
        return None if client is None or ago_s >= RECENT_S else Read(client, round(ago_s * 1000))


def _pop_service(broker: Broker) -> PopService | None:
    try:
        found: PopService = broker.service("pop")
    except RequestNotSupported:
        return None
    return found
