"""One row for each connection of a client; for request 65024. Computed in short steps, some 5 us for each."""

from __future__ import annotations

from operator import attrgetter
from typing import Any, Final

import attrs

from gantrymq.plugin.interfaces import BrokerConsumers, ClientConnection
from gantrymq.plugin.world import TimeSlices

_TOGETHER: Final = 16  # connections between pauses
_MAX_GROUPS: Final = 20  # of each kind in a row; a connection may be in a thousand


@attrs.define
class ConnectionRow:
    """One open connection that has sent a request, as of a heartbeat or of its first request."""

    online: ClientConnection

    @property
    def name(self) -> str:
        """The client id, or the address without a heartbeat."""
        return self.client_id or self.online.connection.address

    @property
    def client_id(self) -> str:
        """The client id of the last heartbeat, also of a refused one; empty without one."""
        refusal = self.online.refusal
        return self.online.client_id or ("" if refusal is None else refusal.client_id)

    @property
    def searched(self) -> str:
        """The text to search in: client id, address and groups, one a line."""
        online = self.online
        refused = () if online.refusal is None else online.refusal.consumers
        groups = (*online.producers, *online.consumers, *refused)
        return "\n".join((self.client_id, online.connection.address, *groups))

    def as_json(self) -> dict[str, Any]:
        """Return the members of the response."""
        online, channel, refusal = self.online, self.online.connection, self.online.refusal
        principal = online.principal or (None if refusal is None else refusal.principal)
        return {
            "client_id": self.client_id,
            "address": channel.address,
            "language": online.language,
            "version": online.version,
            "listener": channel.listener,
            "encrypted": channel.encrypted,
            "certificate": channel.certificate,
            "user": "" if principal is None else principal.name,
            "since_ms": online.since_ms,
            "heard_ms": online.heard_ms,
            "producers": list(online.producers[:_MAX_GROUPS]),
            "consumers": list(online.consumers[:_MAX_GROUPS]),
            "refused": "" if refusal is None else refusal.reason,
            "refused_groups": [] if refusal is None else list(refusal.consumers),
            "more_groups": sum(max(0, len(each) - _MAX_GROUPS) for each in (online.producers, online.consumers)),
        }


@attrs.frozen
class ConnectionTable:
    """The rows of all connections."""

    rows: list[ConnectionRow]
    computed_ms: int  # wall time


async def connection_table(broker: BrokerConsumers) -> ConnectionTable:
    """Return a row for each connection."""
    slices, rows = TimeSlices(broker.world.clock, _TOGETHER), list[ConnectionRow]()
    for each in broker.clients.connections():
        rows.append(ConnectionRow(each))
        await slices.item_done()
    rows.sort(key=attrgetter("name"))
    return ConnectionTable(rows, broker.world.clock.now_ms())
