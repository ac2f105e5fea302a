"""Entry point ``storage_memory``: the store ``memory``."""

from __future__ import annotations

from gantrymq.hooks import hookimpl
from gantrymq.interfaces import StoreRegistry
from gantrymq_storage_memory.store import MemoryStore


@hookimpl
def gantry_register_stores(registry: StoreRegistry) -> None:
    """Register the store."""
    registry.add("memory", MemoryStore)
