"""A store that gives the third message of a queue, and each one after it, the offset of the one before."""

from gantrymq.config import Setting, Settings
from gantrymq.interfaces import StoreContext
from gantrymq.model.queue import Queue
from gantrymq_storage_memory import MemoryStore
from gantrymq_testing import StoreContract

SCHEMA = [Setting("maxMessageSize", "number", 4194304, "longest body, bytes")]


class RepeatingStore(MemoryStore):
    def put(self, messages):
        results = []
        for message in messages:
            queue = Queue(message.topic, message.queue_id)
            if self._next.get(queue, 0) == 2:
                self._next[queue] = 1
            results += super().put([message])
        return results


class TestRepeatingStore(StoreContract):
    durable = False

    def make_store(self, world, root, **settings):
        return RepeatingStore(StoreContext(world, root, Settings(SCHEMA, settings)))
