"""A store of ours whose broker was killed under load opens in a Java broker, with every acknowledged message.

After the kill, some seconds of queue entries are lost with the process, the checkpoint is older, the next file of the
log is preallocated and empty, and `abort` exists: Java rebuilds the missing entries from our log. Then the Java broker
stores more, stops, and we open the store again.
"""

import asyncio
import hashlib
import random
from collections import Counter
from pathlib import Path

import attrs
import pytest
from harness import Driver, GantryServer, JavaBroker, JavaNameServer, create_topic, gantrymq
from harness.java_servers import SMALL_STORE
from harness.peers import used
from harness.process import Event
from polling import wait_until

from gantrymq.client import Client, Producer
from gantrymq.client.message import Message
from gantrymq.errors import GantryError
from gantrymq_store_files.checkpoint import Checkpoint, decode_checkpoint
from gantrymq_store_files.queue_entry import ENTRY

pytestmark = pytest.mark.interop

CLIENTS = {"4.9.7": "4.9.8", "5.3.3": "5.3.3"}  # the client tested with a server version
QUEUES = 4
TASKS = 6
LOAD_S = 3.0
MORE_S = 1.0  # from a new checkpoint, with all queue entries written, to the kill
PAUSE_S = 0.02
DEADLINE_S = 60.0
# Files of the log and of the queues fill within a second.
SETTINGS = {**SMALL_STORE, "mappedFileSizeCommitLog": "262144", "mappedFileSizeConsumeQueue": "600"}
OURS = {**SETTINGS, "flushConsumeQueueThoroughInterval": "3000"}

Place = tuple[str, int, int]  # topic, queue id, queue offset


@attrs.define
class Sent:
    """Return each sent message by the SHA-256 of its body, and the positions of the acknowledged ones."""

    bodies: set[str] = attrs.field(factory=set)
    places: dict[Place, str] = attrs.field(factory=dict)


@pytest.mark.parametrize("version", [pytest.param("4.9.7", marks=pytest.mark.long), "5.3.3"])
def test_a_java_broker_has_every_acknowledged_message_of_a_killed_store(
    version: str, tmp_path: Path, topic: str
) -> None:
    topics = (f"{topic}A", f"{topic}B")
    with GantryServer.both(tmp_path / "ours", settings=OURS) as server:
        store = server.store
        for name in topics:
            create_topic(server.namesrv, name, QUEUES)
        sent = asyncio.run(_load_and_kill(server, topics))
    assert (store / "abort").exists()
    assert len(list((store / "commitlog").iterdir())) > 3
    assert _checkpoint(store).queue_timestamp > 0
    assert 0 < _entries(store) < len(sent.places)

    with (
        JavaNameServer(version, tmp_path / "namesrv") as namesrv,
        JavaBroker(version, tmp_path / "java", namesrv.address, store=store, settings=SETTINGS),
    ):
        driver = Driver(CLIENTS[version], tmp_path / "first", namesrv.address)
        served = _served(driver, topics)
        _assert_acknowledged(sent, served)
        for name in topics:
            added = driver.produce(name, 40, body_prefix=f"added to {name}")
            new = {(name, e["queueId"], e["queueOffset"]): e["bodySha256"] for e in added}
            assert not new.keys() & served.keys()
            served |= new
        assert _served(driver, topics) == served
    assert not (store / "abort").exists()

    with GantryServer.both(tmp_path / "again", store=store, settings=SETTINGS) as server:
        driver = Driver(CLIENTS[version], tmp_path / "second", server.namesrv)
        assert _served(driver, topics) == served
        assert server.stop() == 0
    assert gantrymq(tmp_path / "check", "store", "check", str(store))["findings"] == []


async def _load_and_kill(server: GantryServer, topics: tuple[str, ...]) -> Sent:
    """Send in several tasks, singly and in batches, and kill the broker while all of them wait for their answers."""
    used("gantrymq.client")
    sent, rng, killed = Sent(), random.Random(1), asyncio.Event()

    async def send(producer: Producer, task: int) -> None:
        number = 0
        while True:
            name, count = rng.choice(topics), rng.choice((1, 1, 1, 5))
            numbers = range(number, number + count)
            bodies = [f"{task}/{each} ".encode() + rng.randbytes(rng.randint(0, 1500)) for each in numbers]
            number += count
            messages = [Message(name, body, tags="TagA", keys=f"k{task}x{number}") for body in bodies]
            hashes = [hashlib.sha256(body).hexdigest() for body in bodies]
            sent.bodies.update(hashes)
            try:
                result = await (producer.send_batch(messages) if count > 1 else producer.send(messages[0]))
            except GantryError:
                assert killed.is_set()
                return
            for step, each in enumerate(hashes):
                place = (name, result.queue.queue_id, result.queue_offset + step)
                assert place not in sent.places
                sent.places[place] = each
            await asyncio.sleep(rng.uniform(0, PAUSE_S))  # real time: rate of the load

    async with (
        asyncio.timeout(DEADLINE_S),
        Client(server.namesrv) as client,
        client.producer("killed", retries=0) as producer,
        asyncio.TaskGroup() as tasks,
    ):
        for task in range(TASKS):
            tasks.create_task(send(producer, task))
        await asyncio.sleep(LOAD_S)  # real time: length of the load
        before = _checkpoint(server.store)
        await asyncio.to_thread(wait_until, lambda: _checkpoint(server.store) != before, "a checkpoint", DEADLINE_S)
        await asyncio.sleep(MORE_S)  # real time: length of the load
        killed.set()
        server.kill()
    return sent


def _checkpoint(store: Path) -> Checkpoint:
    """The checkpoint; all zero before the first."""
    path = store / "checkpoint"
    return decode_checkpoint(path.read_bytes()) if path.exists() else Checkpoint()


def _entries(store: Path) -> int:
    """Return the number of queue entries in the files."""
    files = [path.read_bytes() for path in (store / "consumequeue").rglob("*") if path.is_file()]
    return sum(size > 0 for data in files for _, size, _ in ENTRY.iter_unpack(data))


def _served(driver: Driver, topics: tuple[str, ...]) -> dict[Place, str]:
    """Return what a client reads from every queue; check that each starts at 0, has no gap, and each message is there
    once."""
    found: dict[Place, str] = {}
    for topic in topics:
        events = driver.run("pull", topic=topic)
        received = [e for e in events if e["event"] == "received"]
        places = [(topic, int(e["queueId"]), int(e["queueOffset"])) for e in received]
        queues: list[Event] = [e for e in events if e["event"] == "queue"]
        assert [e["queueId"] for e in queues] == list(range(QUEUES))
        assert sorted(places) == [(topic, e["queueId"], n) for e in queues for n in range(e["maxOffset"])]
        found |= dict(zip(places, (e["bodySha256"] for e in received), strict=True))
    return found


def _assert_acknowledged(sent: Sent, served: dict[Place, str]) -> None:
    """Check that each acknowledged message is at its position, and that the others are there once or not at all."""
    missing = {place: body for place, body in sent.places.items() if served.get(place) != body}
    assert not missing, f"{len(missing)} of {len(sent.places)}, such as {list(missing.items())[:3]}"
    times = Counter(served.values())
    assert times.keys() <= sent.bodies
    assert times.most_common(1)[0][1] == 1
