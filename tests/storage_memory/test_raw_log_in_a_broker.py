"""Records that are copied into the raw log of a running broker, and truncated there."""

import asyncio
from types import ModuleType

from gantrymq.config import Settings
from gantrymq.hooks import hookimpl
from gantrymq.interfaces import StoreContext
from gantrymq.world.real import real_world
from gantrymq_storage_memory import MemoryStore
from gantrymq_testing.store_contract_bench import message


def continued(log, *bodies):
    """The bytes of further messages, one for each body, after those of *log*."""

    async def main():
        store = MemoryStore(StoreContext(real_world(), None, Settings(())))
        await store.start()
        store.append_raw(0, log)
        store.put([message("Copied", body=body) for body in bodies])
        return store.read_log(len(log), 1 << 20)

    return asyncio.run(main())


class Recorder:
    """A dispatcher."""

    name = "recorder"

    def __init__(self):
        self.calls = []

    def position(self):
        return 0

    def dispatch(self, entries):
        self.calls += ["message" for entry in entries if entry.topic == "Copied"]

    def truncate(self, log_offset):
        self.calls.append(f"truncate {log_offset}")

    def flush(self):
        pass


def recording(recorder):
    module = ModuleType("recorder")

    @hookimpl
    def gantry_register_dispatchers(registry):
        registry.add("recorder", lambda context: recorder)

    module.gantry_register_dispatchers = gantry_register_dispatchers
    return module


def test_consumers_and_dispatchers_see_copied_records_until_they_are_removed(gantrymq_broker_factory):
    recorder = Recorder()
    broker = gantrymq_broker_factory(settings={"store": "memory"}, plugins=[recording(recorder)])
    log = broker.store.raw_log

    def pulled():
        return {each.body for each in broker.pull("Copied")}

    broker.send("Copied", b"own")
    end = broker.call(lambda: log.log_range().max_offset)
    data = continued(broker.call(lambda: log.read_log(0, end)), b"one", b"two")
    broker.call(lambda: log.append_raw(end, data))
    assert pulled() == {b"own", b"one", b"two"}
    broker.run(log.truncate(end))
    assert pulled() == {b"own"}
    broker.put("Copied", b"next")
    assert pulled() == {b"own", b"next"}
    assert recorder.calls == ["truncate 0", *["message"] * 3, f"truncate {end}", "message"]


def test_a_limit_holds_back_messages_until_it_moves(gantrymq_broker_factory):
    broker = gantrymq_broker_factory(settings={"store": "memory"})
    log = broker.store.raw_log
    broker.send("Limited", b"one")
    end = broker.call(lambda: log.log_range().max_offset)
    broker.call(lambda: log.limit_visibility(end))
    broker.put("Limited", b"two")
    assert [each.body for each in broker.pull("Limited")] == [b"one"]
    broker.call(lambda: log.limit_visibility(None))
    assert sorted(each.body for each in broker.pull("Limited")) == [b"one", b"two"]
