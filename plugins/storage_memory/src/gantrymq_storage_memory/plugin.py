"""Entry point ``storage_memory``: the store ``memory``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gantrymq.plugin import hookimpl

if TYPE_CHECKING:
    from gantrymq.plugin.interfaces import MessageStore, StoreContext, StoreRegistry


@hookimpl
def gantry_register_stores(registry: StoreRegistry) -> None:
    """Register the store, which is imported when it is selected."""

    def make(context: StoreContext) -> MessageStore:
        from gantrymq_storage_memory.store import MemoryStore

        return MemoryStore(context)

    registry.add("memory", make)
