"""The name server kind registered with the command line: its settings and its factory.

The server's modules are imported when it is built, because brokers without a name server load this plugin too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gantrymq.config import Setting, Settings
    from gantrymq.interfaces import NameServer
    from gantrymq.world import World

__all__ = ["MemoryNameServer"]


class MemoryNameServer:
    """Name server with routes in memory, and RocketMQ's settings."""

    name = "memory"

    def settings(self) -> Sequence[Setting]:
        """Return the schema; by default, files are below the user's home folder."""
        from gantrymq_nameserver.settings import name_server_settings

        return name_server_settings()

    def build(self, world: World, settings: Settings, *, beside_broker: bool = False) -> NameServer:
        """Build a name server; only TLS files are opened. Raises ConfigError if one of them cannot be used."""
        from gantrymq_nameserver.server import NameServer

        return NameServer(world, settings, beside_broker=beside_broker)
