"""A store with nothing but what `MessageStore` requires, in a broker with all plugins."""

from importlib.util import find_spec
from types import ModuleType, SimpleNamespace

import pytest
from memory_client import MemoryClient

from gantrymq.errors import RequestNotSupported
from gantrymq.formats.record import iter_records
from gantrymq.hooks import hookimpl
from gantrymq.interfaces import (
    MessageStore,
    PopAck,
    PopRequest,
    PullRequest,
    SendBackRequest,
    SendRequest,
)
from gantrymq.model.names import HALF_TOPIC
from gantrymq.model.queue import Queue
from gantrymq.model.sys_flag import TRANSACTION_PREPARED
from gantrymq_testing.simulation import simulate_cluster

PLUGINS = ("schedule", "transaction", "pop", "filter_tag", "storage_memory")
pytestmark = pytest.mark.skipif(
    any(find_spec(f"gantrymq_{each}") is None for each in PLUGINS), reason=f"needs the plugins {', '.join(PLUGINS)}"
)

T0 = Queue("T", 0)


def make_store(context):
    """The required members of the memory store."""
    inner, store = context.store("memory"), SimpleNamespace()
    for name in vars(MessageStore):
        if not name.startswith("_"):
            setattr(store, name, getattr(inner, name))
    return store


@hookimpl
def gantry_register_stores(registry):
    registry.add("minimal", make_store)


def run(main):
    module = ModuleType("minimal")
    module.gantry_register_stores = gantry_register_stores
    simulate_cluster(main, settings={"store": "minimal"}, plugins=[("minimal", module)])


def bodies(answer):
    return [bytes(record.body) for buffer in answer.buffers for record in iter_records(buffer)]


def text(**own):
    return "".join(f"{name}\x01{value}\x02" for name, value in own.items())


def test_sends_pulls_offsets_retries_delays_and_pops():
    async def main(cluster):
        broker = cluster.broker
        await cluster.create_topic("T", 1)
        client = MemoryClient(broker, "one")
        client.heartbeat(consumers=["CG"], topics=["T"])
        await broker.messages.send(SendRequest("PG", "T", b"first", text(KEYS="k")))
        pulled = await broker.messages.pull(PullRequest("CG", "T", 0, 0, sys_flag=4, expression="*"), client)
        assert bodies(pulled) == [b"first"]
        broker.offsets.commit("CG", T0, 1)
        assert broker.offsets.committed("CG", T0) == 1
        (record,) = iter_records(pulled.buffers[0])
        await broker.messages.send_back(SendBackRequest("CG", record.log_offset, delay_level=1))
        await cluster.world.clock.sleep(2)
        assert broker.store.bounds(Queue("%RETRY%CG", 0)).max_offset == 1
        await broker.messages.send(SendRequest("PG", "T", b"later", text(TIMER_DELAY_SEC="3")))
        await cluster.world.clock.sleep(5)
        assert broker.store.bounds(T0).max_offset == 2
        popped = await broker.service("pop").receive(PopRequest("POP", "T", max_count=1, invisible_ms=10_000), client)
        (receipt,) = popped.receipts()
        await broker.service("pop").ack(PopAck.of("POP", "T", receipt))
        with pytest.raises(RequestNotSupported, match="does not support queries by key"):
            broker.messages.query("T", "k", 0, 1 << 62)
        with pytest.raises(RequestNotSupported, match="does not support offsets by time"):
            await broker.messages.offset_at(T0, 0)
        assert broker.store_capabilities.raw_log is None

    run(main)


def test_a_transactional_send_is_refused_with_the_reason():
    async def main(cluster):
        await cluster.create_topic("T", 1)
        own = text(UNIQ_KEY="id1", TRAN_MSG="true", PGROUP="PG")
        half = SendRequest("PG", "T", b"half", own, queue_id=0, sys_flag=TRANSACTION_PREPARED)
        with pytest.raises(
            RequestNotSupported, match="transactions need a store with queries by key, which the broker"
        ):
            await cluster.broker.messages.send(half)
        assert cluster.broker.store.bounds(Queue(HALF_TOPIC, 0)).max_offset == 0

    run(main)
