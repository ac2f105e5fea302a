from gantrymq.config import Setting, Settings
from gantrymq.interfaces import StoreContext
from gantrymq_storage_memory import MemoryStore
from gantrymq_testing import StoreContract

SCHEMA = (Setting("maxMessageSize", "number", 4194304, "Largest stored body, bytes."),)  # as the broker declares it


class TestMemoryStore(StoreContract):
    durable = False

    def make_store(self, world, root, **settings):
        return MemoryStore(StoreContext(world, root, Settings(SCHEMA, settings)))
