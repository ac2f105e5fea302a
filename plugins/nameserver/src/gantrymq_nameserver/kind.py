"""What the command line is given: the settings of a name server, and how one is built.

The server's modules are imported when it is built: a broker without one in its process loads this plugin too.
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
    """Routes in memory, under RocketMQ's settings."""

    name = "memory"

    def settings(self) -> Sequence[Setting]:
        """The schema; files lie below the user's home folder where nothing else is set."""
        from gantrymq_nameserver.settings import name_server_settings

        return name_server_settings()

    def build(self, world: World, settings: Settings, *, beside_broker: bool = False) -> NameServer:
        """A name server that opened nothing but files of TLS. Raises ConfigError: one of them cannot be used."""
        from gantrymq_nameserver.server import NameServer

        return NameServer(world, settings, beside_broker=beside_broker)
