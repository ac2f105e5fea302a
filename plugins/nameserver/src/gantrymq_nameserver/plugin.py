"""Entry point ``nameserver``: registers the name server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gantrymq.hooks import hookimpl
from gantrymq_nameserver.kind import MemoryNameServer

if TYPE_CHECKING:
    from gantrymq.interfaces import NameServerRegistry


@hookimpl
def gantry_register_name_servers(registry: NameServerRegistry) -> None:
    """Register the name server with routes in memory."""
    registry.add(MemoryNameServer())
