"""The broker's names and address, as used in routes, records and tools."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from gantrymq.model.hosts import format_address, pack_host


@attrs.frozen(eq=False)
class BrokerIdentity:
    """Names and advertised addresses."""

    cluster: str
    broker_name: str
    broker_id: int  # 0: master
    host: str  # of the main listener in routes: an IP address or a host name
    port: int
    ha: str = ""  # address of replication
    heartbeat_timeout_ms: int | None = None  # of a broker that sends heartbeats and may act as master
    ip: str = ""  # in message ids; empty: host
    listen_port: int = 0  # on which the main listener listens
    listeners: Mapping[str, str] = attrs.field(factory=dict)  # addresses of the other listeners in routes, by name

    @property
    def address(self) -> str:
        """``host:port`` for routes."""
        return format_address(self.host, self.port)

    @property
    def ha_address(self) -> str:
        """Address of replication; a required field of registrations. Nothing listens there without a plugin."""
        return self.ha or format_address(self.host, self.port + 1)

    @property
    def packed_host(self) -> bytes:
        """Host and port in the encoding of records."""
        return pack_host(self.ip or self.host, self.port)
