"""Entry point ``storage_memory``: the store ``memory``."""

from __future__ import annotations

from gantrymq.plugin import hookimpl
from gantrymq.plugin.interfaces import StoreRegistry
from gantrymq_storage_memory.store import MemoryStore


@hookimpl
def gantry_register_stores(registry: StoreRegistry) -> None:
    """Register the store."""
    registry.add("memory", MemoryStore)
