"""A message store in memory: nothing outlives the process."""

from gantrymq_storage_memory.store import MemoryStore

__all__ = ["MemoryStore"]
