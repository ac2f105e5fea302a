"""A store that shows messages as soon as they are appended, before the gates have passed."""

from gantrymq.config import Setting, Settings
from gantrymq.interfaces import StoreContext
from gantrymq_storage_memory import MemoryStore
from gantrymq_testing import StoreContract

SCHEMA = [Setting("maxMessageSize", "number", 4194304, "longest body, bytes")]


class EarlyStore(MemoryStore):
    def put(self, messages):
        results = super().put(messages)
        super().publish(self.state().max_log_offset)
        return results

    def publish(self, up_to):
        return [entry for entry in self.scan(0, up_to) if entry.log_offset + entry.size <= up_to]


class TestEarlyStore(StoreContract):
    durable = False

    def make_store(self, world, root, **settings):
        return EarlyStore(StoreContext(world, root, Settings(SCHEMA, settings)))
