import asyncio

import attrs

from gantrymq.config import Settings
from gantrymq.formats.record import read_record
from gantrymq.interfaces import StoreContext
from gantrymq.model.queue import Queue
from gantrymq.world.real import real_world
from gantrymq_storage_memory import MemoryStore, plugin
from gantrymq_testing.store_contract_bench import START_MS, StandingClock, message


def started(world):
    store = MemoryStore(StoreContext(world, None, Settings(())))
    asyncio.run(store.start())
    return store


class Stores(dict):
    def add(self, name, factory):
        self[name] = factory


def test_the_plugin_offers_the_store_memory():
    stores = Stores()
    plugin.gantry_register_stores(stores)
    assert list(stores) == ["memory"]
    assert type(stores["memory"](StoreContext(real_world(), None, Settings(())))) is MemoryStore


def test_a_store_takes_no_messages_before_its_start():
    (result,) = MemoryStore(StoreContext(real_world(), None, Settings(()))).put([message()])
    assert result.problem == "the store is not started"


def test_a_message_put_before_its_topic_was_dropped_does_not_come_back():
    store = started(real_world())
    store.put([message(body=b"old")])
    store.drop("T")
    (result,) = store.put([message(body=b"new")])
    store.publish(result.end)
    assert store.bounds(Queue("T", 0)) == (0, 1)


def test_keys_and_unique_ids_find_the_newest_messages_oldest_first():
    clock = StandingClock(real_world().clock)
    store = started(attrs.evolve(real_world(), clock=clock))
    for number in range(4):
        clock.now = START_MS + number
        text = b"KEYS\x01a  b%d\x02UNIQ_KEY\x01U%d\x02" % (number, number)
        (result,) = store.put([message(properties=text)])
        store.publish(result.end)
    offsets = [entry.log_offset for entry in store.scan(0, result.end)]

    def found(key, begin_ms=0, end_ms=1 << 62, limit=32, topic="T"):
        records = store.query(topic, key, begin_ms, end_ms, limit).records
        return [read_record(record).log_offset for record in records]

    assert found("a") == offsets
    assert found("a", limit=2) == offsets[2:]
    assert found("a", START_MS + 1, START_MS + 2) == offsets[1:3]
    assert found("b3") == found("U3") == offsets[3:]
    assert found("a", topic="Other") == found("") == []
