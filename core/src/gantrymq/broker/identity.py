"""Who this broker is, as routes, records and tools name it."""

from __future__ import annotations

import attrs

from gantrymq.model.hosts import format_address, pack_host


@attrs.frozen
class Identity:
    """Names and the address that is advertised."""

    cluster: str
    broker_name: str
    broker_id: int  # 0: master
    host: str  # brokerIP1
    port: int

    @property
    def address(self) -> str:
        """``host:port`` as routes carry it."""
        return format_address(self.host, self.port)

    @property
    def ha_address(self) -> str:
        """Where replication would listen; registrations must name it."""
        return format_address(self.host, self.port + 1)

    @property
    def packed_host(self) -> bytes:
        """Host and port as records carry them."""
        return pack_host(self.host, self.port)
