"""`gantrymq store check` on the store of a broker under load, Java's or ours, and after the broker was killed."""

import asyncio
import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from harness import GantryServer, JavaBroker, JavaNameServer, create_topic
from harness.java_servers import SMALL_STORE
from harness.peers import used
from polling import wait_until

from gantrymq.client import Client, Producer
from gantrymq.client.message import Message
from gantrymq.errors import GantryError
from gantrymq_store_files.checkpoint import Checkpoint, decode_checkpoint

pytestmark = pytest.mark.interop

PROGRAM = str(Path(sys.executable).parent / "gantrymq")
QUEUES = 4
# Files of the log fill within seconds, and checkpoints are taken every two seconds.
OFTEN = {"flushConsumeQueueThoroughInterval": "2000", "flushCommitLogThoroughInterval": "2000"}
SETTINGS = {**SMALL_STORE, **OFTEN, "mappedFileSizeCommitLog": "262144"}
TASKS = 4
MOVED_MS = 1_000  # the last checkpoint covers at least this part of the load
PAUSE_S = 0.005
DEADLINE_S = 60.0


class Server(NamedTuple):
    """The part of a server's interface that the test needs."""

    namesrv: str
    store: Path
    kill: Callable[[], object]


@pytest.fixture(params=["ours", pytest.param("4.9.7", marks=pytest.mark.long), "5.3.3"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    """A name server and a broker with their store."""
    version = request.param
    if version == "ours":
        with GantryServer.both(tmp_path / "ours", settings=SETTINGS) as ours:
            yield Server(ours.namesrv, ours.store, ours.kill)
        return
    with (
        JavaNameServer(version, tmp_path / "namesrv") as namesrv,
        JavaBroker(version, tmp_path / "java", namesrv.address, settings=SETTINGS) as broker,
    ):
        yield Server(namesrv.address, broker.store, broker.kill)


def test_a_store_is_judged_up_to_its_checkpoint_while_its_broker_runs(server: Server, topic: str) -> None:
    create_topic(server.namesrv, topic, QUEUES)
    reports = asyncio.run(_check_under_load(server, topic))
    for code, report in reports:
        assert report["findings"] == []
        assert (code, report["in_use"], report["damaged"]) == (3, True, False)
    vouched = [report["vouched_to"] for _, report in reports]
    assert vouched == sorted(vouched)
    assert reports[-1][1]["records"] > 0

    code, left = _check(server.store)
    assert (code, left["damaged"], left["in_use"], left["clean_stop"]) == (0, False, False, False)
    assert left["records"] > reports[-1][1]["records"]
    assert all(finding["recovery"] or finding["kind"] == "store.abort" for finding in left["findings"])


async def _check_under_load(server: Server, topic: str) -> list[tuple[int, dict[str, Any]]]:
    """Check while messages are sent, before and after the checkpoint has moved far; then kill the broker."""
    used("gantrymq.client")
    rng, killed = random.Random(1), asyncio.Event()

    async def send(producer: Producer, task: int) -> None:
        number = 0
        while not killed.is_set():
            number += 1
            body = rng.randbytes(rng.randint(1, 900))
            try:
                await producer.send(Message(topic, body, tags="TagA", keys=f"{task}x{number}"))
            except GantryError as error:
                if killed.is_set():
                    return
                if "start flow control" not in str(error):  # the machine is busy
                    raise
            await asyncio.sleep(PAUSE_S)  # real time: rate of the load

    def moved() -> bool:
        return _checkpoint(server.store).recovery_timestamp() > first_ms + MOVED_MS

    async with (
        asyncio.timeout(DEADLINE_S),
        Client(server.namesrv) as client,
        client.producer("load", retries=0) as producer,
        asyncio.TaskGroup() as tasks,
    ):
        await producer.send(Message(topic, b"first"))  # a busy machine can take seconds until the first is stored
        first_ms = time.time_ns() // 1_000_000
        for task in range(TASKS):
            tasks.create_task(send(producer, task))
        found = [await asyncio.to_thread(_check, server.store) for _ in range(2)]
        await asyncio.to_thread(wait_until, moved, "a checkpoint", DEADLINE_S)
        found += [await asyncio.to_thread(_check, server.store) for _ in range(3)]
        killed.set()
        server.kill()
    return found


def _check(store: Path) -> tuple[int, dict[str, Any]]:
    """Run `gantrymq store check` and return its exit code and report."""
    words = [PROGRAM, "store", "check", str(store), "--output", "json"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    return done.returncode, json.loads(done.stdout)


def _checkpoint(store: Path) -> Checkpoint:
    """The checkpoint; all zero before the first."""
    path = store / "checkpoint"
    return decode_checkpoint(path.read_bytes()) if path.exists() else Checkpoint()
