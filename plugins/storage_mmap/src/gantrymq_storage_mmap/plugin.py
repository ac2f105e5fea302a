"""Entry point ``storage_mmap``: the store ``mmap`` and its settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gantrymq.plugin import hookimpl

if TYPE_CHECKING:
    from gantrymq.plugin.interfaces import ConfigRegistry, MessageStore, StoreContext, StoreRegistry


@hookimpl
def gantry_register_config(registry: ConfigRegistry) -> None:
    """Declare the store's settings."""
    from gantrymq_storage_mmap.settings import SCHEMA

    for setting in SCHEMA:
        registry.add(setting)


@hookimpl
def gantry_register_stores(registry: StoreRegistry) -> None:
    """Register the store ``mmap``, the default of the setting ``store``; it is imported when it is selected."""

    def make(context: StoreContext) -> MessageStore:
        from gantrymq_storage_mmap.store import MmapStore

        return MmapStore(context)

    registry.add("mmap", make)
