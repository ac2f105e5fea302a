"""One row for each connection of a client; for request 65024. Computed in short steps, some 5 us for each."""

from __future__ import annotations

from operator import attrgetter
from typing import Any, Final

import attrs

from gantrymq.plugin.interfaces import BrokerConsumers, ClientConnection
from gantrymq.plugin.world import TimeSlices

__all__ = ["ConnectionRow", "ConnectionTable", "connection_table"]

TOGETHER: Final = 16  # connections between pauses
MAX_GROUPS: Final = 20  # of each kind in a row; a connection may be in a thousand


@attrs.define
class ConnectionRow:
    """One open connection that has sent a request, as of a heartbeat or of its first request."""

    online: ClientConnection

    @property
    def name(self) -> str:
        """The client id, or the address without a heartbeat."""
        return self.online.client_id or self.online.connection.address

    @property
    def searched(self) -> str:
        """The text to search in: client id, address and groups, one a line."""
        online = self.online
        return "\n".join((online.client_id, online.connection.address, *online.producers, *online.consumers))

    def as_json(self) -> dict[str, Any]:
        """Return the members of the response."""
        online, channel = self.online, self.online.connection
        return {
            "client_id": online.client_id,
            "address": channel.address,
            "language": online.language,
            "version": online.version,
            "listener": channel.listener,
            "encrypted": channel.encrypted,
            "certificate": channel.certificate,
            "user": "" if online.principal is None else online.principal.name,
            "since_ms": online.since_ms,
            "heard_ms": online.heard_ms,
            "producers": list(online.producers[:MAX_GROUPS]),
            "consumers": list(online.consumers[:MAX_GROUPS]),
            "more_groups": sum(max(0, len(each) - MAX_GROUPS) for each in (online.producers, online.consumers)),
        }


@attrs.frozen
class ConnectionTable:
    """The rows of all connections."""

    rows: list[ConnectionRow]
    computed_ms: int  # wall time


async def connection_table(broker: BrokerConsumers) -> ConnectionTable:
    """Return a row for each connection."""
    slices, rows = TimeSlices(broker.world.clock, TOGETHER), list[ConnectionRow]()
    for each in broker.clients.connections():
        rows.append(ConnectionRow(each))
        await slices.item_done()
    rows.sort(key=attrgetter("name"))
    return ConnectionTable(rows, broker.world.clock.now_ms())
