"""Entry point ``nameserver``: registers the name server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gantrymq.plugin import hookimpl

if TYPE_CHECKING:
    from gantrymq.plugin.interfaces import NameServer, NameServerRegistry
    from gantrymq.plugin.remoting import ServerAccess
    from gantrymq.plugin.settings import Setting, Settings
    from gantrymq.plugin.world import World


@hookimpl
def gantry_register_name_servers(registry: NameServerRegistry) -> None:
    """Register the name server with routes in memory."""
    registry.add(MemoryNameServer())


class MemoryNameServer:
    """Name server with routes in memory, and RocketMQ's settings."""

    name = "memory"

    def settings(self) -> Sequence[Setting]:
        """Return the schema; by default, files are below the user's home folder."""
        from gantrymq_nameserver.settings import name_server_settings

        return name_server_settings()

    def build(
        self, world: World, settings: Settings, *, beside_broker: bool = False, access: ServerAccess | None = None
    ) -> NameServer:
        """Build a name server; only TLS files are opened. Raises ConfigError if one of them cannot be used."""
        from gantrymq_nameserver.server import NameServer

        return NameServer(world, settings, beside_broker=beside_broker, access=access)
