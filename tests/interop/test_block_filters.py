"""The official Java client reads a backlog by SQL92: our broker delivers the same with block filters and without."""

import asyncio
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("gantrymq_filter_sql92")
pytest.importorskip("gantrymq_metrics")

from harness import Driver, GantryServer, create_topic
from harness.peers import used
from harness.ports import free_port
from harness.process import Event, Process

from gantrymq.config import Setting, Settings
from gantrymq.interfaces import StoreContext, StoreMessage
from gantrymq.world.real import real_world
from gantrymq_storage_mmap.settings import SCHEMA
from gantrymq_storage_mmap.store import MmapStore

pytestmark = pytest.mark.interop

JAVA = "5.3.3"
TOPIC = "Shared"
MESSAGES, QUEUES, TENANTS, RUN = 300_000, 8, 100, 75  # in each queue a tenant's messages come in runs
KEYS = (*SCHEMA, Setting("maxMessageSize", "number", 4 * 1024**2, "declared by the broker"))
READINGS = ("t1", "t2", "t7", "t7")  # the first two mark and build


def tenant_of(number: int) -> str:
    return f"t{number // QUEUES // RUN % TENANTS}"


def test_a_java_consumer_gets_the_same_messages_with_and_without_block_filters(tmp_path: Path) -> None:
    store = tmp_path / "store"
    asyncio.run(fill(store))
    found = {}
    for most_bytes in (0, 32 * 1024**2):
        with reading(tmp_path / str(most_bytes), store, most_bytes) as (client, hits):
            found[most_bytes] = [asked(client, tenant) for tenant in READINGS]
            assert (hits() > 0) is (most_bytes > 0)
    without, with_filters = found.values()
    assert without == with_filters
    wanted = sorted(str(number) for number in range(MESSAGES) if tenant_of(number) == "t7")
    assert without[2:] == [wanted, wanted]
    used(f"rocketmq-client {JAVA}")
    used("gantrymq broker")


async def fill(root: Path) -> None:
    """Store the backlog, with a body of its number in each message."""
    settings = Settings(KEYS, {"mappedFileSizeCommitLog": 64 * 1024**2})
    store = MmapStore(StoreContext(real_world(), root, settings, print))
    await store.start()
    for first in range(0, MESSAGES, 1000):
        numbers = range(first, first + 1000)
        results = store.put(
            [
                StoreMessage(TOPIC, number % QUEUES, b"%d" % number, f"tenant\x01{tenant_of(number)}\x02".encode())
                for number in numbers
            ]
        )
        store.publish(results[-1].end)
        await asyncio.sleep(0)
    await store.stop()


@contextmanager
def reading(scratch: Path, store: Path, most_bytes: int) -> Iterator[tuple[Process, "Hits"]]:
    """Our broker on *store*, and a client."""
    port = free_port()
    settings = {
        "sql92BlockFilterBytes": str(most_bytes),
        "metricsExporterType": "PROM",
        "metricsPromExporterPort": str(port),
        "metricsPromExporterHost": "127.0.0.1",
    }
    with GantryServer.both(scratch, store=store, settings=settings) as server:
        create_topic(server.namesrv, TOPIC, queues=QUEUES)
        with Driver(JAVA, scratch / "client", server.namesrv).start("select", topic=TOPIC) as client:
            yield client, Hits(port)
        assert server.stop() == 0


class Hits:
    """The number of blocks that the broker skipped."""

    def __init__(self, port: int) -> None:
        self._address = f"http://127.0.0.1:{port}/metrics"

    def __call__(self) -> float:
        with urllib.request.urlopen(self._address, timeout=30) as answer:
            lines = answer.read().decode().splitlines()
        (line,) = [each for each in lines if each.startswith("gantrymq_filter_blocks_asked_total") and 'hit"' in each]
        return float(line.rpartition(" ")[2])


def asked(client: Process, tenant: str) -> list[str]:
    """Return the bodies that the pull consumer gets from the whole topic, sorted."""

    def answers(process: Process) -> list[Event]:
        return [event for event in list(process.events) if event["event"] in ("pulled", "refused")]

    before = len(answers(client))
    client.write_line(f"pull\tsql\ttenant = '{tenant}'")
    (answer,) = client.wait_for(lambda process: answers(process)[before:], f"the messages of {tenant}")
    assert answer["event"] == "pulled", answer
    return list(answer["bodies"])
