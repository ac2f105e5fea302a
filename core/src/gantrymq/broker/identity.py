"""The broker's names and address, as used in routes, records and tools."""

from __future__ import annotations

import attrs

from gantrymq.model.hosts import format_address, pack_host


@attrs.frozen
class Identity:
    """Names and advertised address."""

    cluster: str
    broker_name: str
    broker_id: int  # 0: master
    host: str  # brokerIP1
    port: int
    ha: str = ""  # address of replication

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
        return pack_host(self.host, self.port)
