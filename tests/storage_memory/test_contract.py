from gantrymq.config import Setting, Settings
from gantrymq.interfaces import StoreContext
from gantrymq_storage_memory import MemoryStore
from gantrymq_testing import RawLogContract, StoreContract

SCHEMA = (Setting("maxMessageSize", "number", 4194304, "Largest stored body, bytes."),)  # as the broker declares it


class MemoryStoreCases:
    durable = False

    def make_store(self, world, root, **settings):
        return MemoryStore(StoreContext(world, root, Settings(SCHEMA, settings)))


class TestMemoryStore(MemoryStoreCases, StoreContract):
    pass


class TestMemoryRawLog(MemoryStoreCases, RawLogContract):
    pass
