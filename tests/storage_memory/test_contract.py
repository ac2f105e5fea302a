from types import SimpleNamespace

from gantrymq.config import Setting, Settings
from gantrymq.interfaces import MessageStore, StoreContext
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


class TestMinimalStore(MemoryStoreCases, StoreContract):
    """The tests of optional interfaces are skipped."""

    def make_store(self, world, root, **settings):
        inner, store = super().make_store(world, root, **settings), SimpleNamespace()
        for name in vars(MessageStore):
            if not name.startswith("_"):
                setattr(store, name, getattr(inner, name))
        return store
