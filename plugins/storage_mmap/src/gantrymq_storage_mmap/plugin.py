"""Entry point ``storage_mmap``: the store ``mmap`` and its settings."""

from __future__ import annotations

from gantrymq.plugin import hookimpl
from gantrymq.plugin.interfaces import ConfigRegistry, StoreRegistry
from gantrymq_storage_mmap.settings import SCHEMA
from gantrymq_storage_mmap.store import MmapStore


@hookimpl
def gantry_register_config(registry: ConfigRegistry) -> None:
    """Declare the store's settings."""
    for setting in SCHEMA:
        registry.add(setting)


@hookimpl
def gantry_register_stores(registry: StoreRegistry) -> None:
    """Register the store ``mmap``, the default of the setting ``store``."""
    registry.add("mmap", MmapStore)
