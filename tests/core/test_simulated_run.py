"""Name server, broker, one producer and one consumer in memory on a virtual clock: one seed, one run, byte for byte."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gantrymq.broker import BrokerServer
from gantrymq.broker.settings import SCHEMA
from gantrymq.client import Client, PullStatus, Reader
from gantrymq.client.message import Message
from gantrymq.config import Settings
from gantrymq.plugins import Plugins
from gantrymq.world import World
from gantrymq_nameserver.server import NameServer
from gantrymq_nameserver.settings import name_server_settings
from gantrymq_testing.simulated import Trace, simulate

NAME_SERVER = "127.0.0.1:9876"
MESSAGES = 40
STORES = {"memory": "gantrymq_storage_memory.plugin", "mmap": "gantrymq_storage_mmap.plugin"}


class Stores:
    """The registrations of a store plugin."""

    def __init__(self) -> None:
        self.stores = {}
        self.settings = []

    def add(self, name, factory=None):
        if factory is None:
            self.settings.append(name)
        else:
            self.stores[name] = factory


def plugins_with(store: str) -> Plugins:
    plugin = pytest.importorskip(STORES[store])
    found = Stores()
    plugin.gantry_register_stores(found)
    if hasattr(plugin, "gantry_register_config"):
        plugin.gantry_register_config(found)
    return Plugins(stores=found.stores, config=tuple(found.settings))


async def run(world: World, store: str) -> list[tuple[int, int, bytes]]:
    """Send MESSAGES messages while a consumer waits for them; return the received ones: (queue, offset, body)."""
    settings = Settings(name_server_settings(Path("/home")))
    settings.set("bindAddress", "127.0.0.1", "the test")
    name_server = NameServer(world, settings)
    await name_server.start()
    plugins = plugins_with(store)
    settings = Settings([*SCHEMA, *plugins.config])
    values = {
        "bindAddress": "127.0.0.1",
        "brokerName": "broker-a",
        "mappedFileSizeCommitLog": 65536,
        "namesrvAddr": NAME_SERVER,
        "storePathRootDir": "/store",
        "store": store,
    }
    for key, value in values.items():
        if key in settings.schema:
            settings.set(key, value, "the test")
    broker = BrokerServer(world, settings, plugins)
    await broker.start()
    received: list[tuple[int, int, bytes]] = []

    async def read(consumer: Reader, queue) -> None:
        offset = 0
        while len(received) < MESSAGES:
            found = await consumer.pull(queue, offset, suspend_ms=1000)
            offset = found.next_offset
            if found.status is PullStatus.FOUND:
                received.extend((queue.queue_id, each.queue_offset, bytes(each.body)) for each in found.messages)

    async with (
        Client(NAME_SERVER, world=world) as client,
        Client(NAME_SERVER, world=world) as other,
        client.producer("PG") as producer,
        other.reader(group="CG") as consumer,
    ):
        await producer.send(Message("T", b"0"))
        readers = [asyncio.ensure_future(read(consumer, queue)) for queue in await consumer.queues("T")]
        for number in range(1, MESSAGES):
            await producer.send(Message("T", str(number).encode() * 50))
            await world.clock.sleep(world.random.uniform(0, 0.2))
        await asyncio.gather(*readers)
    await broker.stop()
    await name_server.stop()
    await world.workers.close()
    return received


def traced(seed: int, store: str):
    trace = Trace(keep_bytes=False)
    received = simulate(seed, lambda world: run(world, store), trace=trace)
    return received, trace


@pytest.fixture(params=sorted(STORES))
def store(request: pytest.FixtureRequest) -> str:
    pytest.importorskip(STORES[request.param])
    return request.param


def test_every_message_arrives_once(store):
    received, trace = traced(1, store)
    assert sorted(body[: len(body) // 50 or 1] for _, _, body in received) == sorted(
        str(number).encode() for number in range(MESSAGES)
    )
    assert len({(queue, offset) for queue, offset, _ in received}) == MESSAGES
    kinds = {event.kind.partition(".")[0] for event in trace.events}
    assert kinds == {"net", "file"}


def test_one_seed_gives_one_run_byte_for_byte(store):
    first, first_trace = traced(7, store)
    second, second_trace = traced(7, store)
    assert first == second
    assert len(first_trace.events) > 500
    assert first_trace.events == second_trace.events


def test_another_seed_gives_another_run(store):
    assert traced(7, store)[1].digest() != traced(8, store)[1].digest()


def test_the_run_repeats_in_another_process_with_other_string_hashes_in_another_time_zone(store):
    """The result must not depend on the order of sets, addresses of objects, earlier runs or the environment."""
    digests = {traced(7, store)[1].digest()}
    program = f"import test_simulated_run as t; print(t.traced(7, {store!r})[1].digest())"
    for hash_seed, zone in (("1", "UTC"), ("2", "Asia/Tokyo")):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "TZ": zone, "PYTHONPATH": str(Path(__file__).parent)}
        done = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True, timeout=60
        )
        digests.add(done.stdout.strip())
    assert len(digests) == 1
