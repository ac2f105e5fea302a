"""A message store in memory: nothing outlives the process."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gantrymq_storage_memory.store import MemoryStore as MemoryStore
else:  # the entry point `gantrymq_storage_memory.plugin` imports this package in every server and command
    from gantrymq.plugin.lazy import lazy_exports

    __all__, __getattr__, __dir__ = lazy_exports(__name__, {"gantrymq_storage_memory.store": "MemoryStore"})
