"""Backups of running brokers, ours and Java's, are opened by both kinds: all messages acknowledged before are there."""

import asyncio
import hashlib
import itertools
import time
from contextlib import suppress
from pathlib import Path

import pytest
from harness import Driver, GantryServer, JavaBroker, JavaNameServer, create_topic, gantrymq
from harness.java_servers import SMALL_STORE
from harness.peers import used
from harness.probe import committed
from polling import until

from gantrymq.client import Client, Message, MessageQueue, SendFailed
from gantrymq.errors import FormatError
from gantrymq.loose_json import loads
from gantrymq_store_files.checkpoint import decode_checkpoint

pytestmark = pytest.mark.interop

JAVA = "5.3.3"
QUEUES = 4
TASKS = 4
COVERED_MS = 5000  # of messages: a Java broker does not read the first log files in its recovery
DEADLINE_S = 60.0
GROUP = "backups"
# Files of the log and of the queues fill within a second, an index file does not.
SETTINGS = {
    **SMALL_STORE,
    "mappedFileSizeCommitLog": "262144",
    "mappedFileSizeConsumeQueue": "600",
    "maxHashSlotNum": "20000",
    "maxIndexNum": "80000",
}
OURS = {**SETTINGS, "flushConsumeQueueThoroughInterval": "1000"}

Place = tuple[int, int]  # queue id, queue offset


def test_a_java_broker_opens_a_backup_of_our_running_broker(tmp_path: Path, topic: str) -> None:
    with GantryServer.both(tmp_path / "ours", settings=OURS) as server:
        create_topic(server.namesrv, topic, QUEUES)
        before, offsets = asyncio.run(_back_up_under_load(server.namesrv, server.store, tmp_path, topic))
        assert server.stop() == 0
    _restore(tmp_path, "java")
    _open_with_java(tmp_path, topic, before, offsets)


@pytest.mark.parametrize("opened_by", ["ours", pytest.param("java", marks=pytest.mark.long)])
def test_a_broker_opens_a_backup_of_a_running_java_broker(tmp_path: Path, topic: str, opened_by: str) -> None:
    with (
        JavaNameServer(JAVA, tmp_path / "namesrv1") as namesrv,
        JavaBroker(JAVA, tmp_path / "source", namesrv.address, settings=SETTINGS, keep=False) as broker,
    ):
        create_topic(namesrv.address, topic, QUEUES)
        before, offsets = asyncio.run(_back_up_under_load(namesrv.address, broker.store, tmp_path, topic))
    _restore(tmp_path, opened_by)
    if opened_by == "java":
        _open_with_java(tmp_path, topic, before, offsets)
        return
    with GantryServer.both(tmp_path / "again", store=tmp_path / "ours.store", settings=OURS) as server:
        _assert_all(Driver(JAVA, tmp_path / "reader", server.namesrv), topic, before)
        assert _committed(server.broker_address, topic, offsets) == offsets
        assert server.stop() == 0
    assert gantrymq(tmp_path / "check", "store", "check", str(tmp_path / "ours.store"))["findings"] == []


async def _back_up_under_load(
    namesrv: str, store: Path, scratch: Path, topic: str
) -> tuple[dict[Place, str], dict[int, int]]:
    """Send in several tasks, and back up meanwhile.

    Return the hashes of messages that were acknowledged before the backup began, and the committed offsets.
    """
    used("gantrymq.client")
    sent: dict[Place, str] = {}
    done, begun_ms = asyncio.Event(), time.time() * 1000

    async with (
        asyncio.timeout(DEADLINE_S),
        Client(namesrv) as client,
        client.producer("sending", retries=0) as producer,
    ):

        async def send(task: int) -> None:
            for number in itertools.count():
                body = f"{task}/{number} ".encode() * 50
                digest = hashlib.sha256(body).hexdigest()
                with suppress(SendFailed):  # a Java broker that waits 200 ms for a processor refuses sends
                    result = await producer.send(Message(topic, body, tags="TagA", keys=digest))
                    sent[result.queue.queue_id, result.queue_offset] = digest
                if done.is_set():
                    return
                await asyncio.sleep(0.005)  # real time: rate of the load

        def covered() -> bool:
            times = decode_checkpoint(path.read_bytes()) if (path := store / "checkpoint").exists() else None
            return times is not None and times.recovery_timestamp() > begun_ms + COVERED_MS

        async with asyncio.TaskGroup() as tasks:
            for task in range(TASKS):
                tasks.create_task(send(task))
            await until(covered, "a checkpoint", DEADLINE_S)
            offsets = await _commit(client, topic)
            await until(lambda: _saved(store, topic) == offsets, "saved offsets", DEADLINE_S)
            before = sent.copy()
            made = await asyncio.to_thread(
                gantrymq, scratch / "backup.home", "store", "backup", str(store), str(scratch / "backup")
            )
            done.set()
    assert len(sent) > len(before) + TASKS
    assert made["damaged"] is False
    assert made["clean"] is False
    assert made["records"] >= len(before)
    assert made["log_start"] < made["queues_to"] < made["log_end"]
    return before, offsets


async def _by_key(namesrv: str, topic: str, key: str) -> list[str]:
    """Return the hashes of the messages with a key."""
    async with Client(namesrv) as client, client.admin as admin:
        return [hashlib.sha256(message.body).hexdigest() for message in await admin.query_message(topic, key)]


async def _commit(client: Client, topic: str) -> dict[int, int]:
    """Commit an offset in each queue for a group, and return them."""
    reader, offsets = client.reader(group=GROUP), {}
    async with reader:
        for queue in await reader.queues(topic):
            offsets[queue.queue_id] = await reader.max_offset(queue) // 2
            await reader.commit(MessageQueue(topic, queue.broker_name, queue.queue_id), offsets[queue.queue_id])
    return offsets


def _saved(store: Path, topic: str) -> dict[int, int]:
    try:
        table = loads((store / "config" / "consumerOffset.json").read_bytes())["offsetTable"]
        return {int(queue_id): offset for queue_id, offset in table.get(f"{topic}@{GROUP}", {}).items()}
    except (OSError, FormatError):  # not there yet, or being written
        return {}


def _restore(tmp_path: Path, name: str) -> None:
    words = ["store", "restore", str(tmp_path / "backup"), str(tmp_path / f"{name}.store")]
    if name == "java":
        words.append("--rebuild-index")
    assert gantrymq(tmp_path / "restore", *words)["restored"] is True


def _open_with_java(tmp_path: Path, topic: str, before: dict[Place, str], offsets: dict[int, int]) -> None:
    with (
        JavaNameServer(JAVA, tmp_path / "namesrv2") as namesrv,
        JavaBroker(
            JAVA, tmp_path / "java", namesrv.address, store=tmp_path / "java.store", settings=SETTINGS
        ) as broker,
    ):
        driver = Driver(JAVA, tmp_path / "java.reader", namesrv.address)
        served = _assert_all(driver, topic, before)
        assert _committed(broker.address, topic, offsets) == offsets
        first = next(iter(before.values()))  # its key is its hash
        assert asyncio.run(_by_key(namesrv.address, topic, first)) == [first]
        added = driver.produce(topic, 40, body_prefix="added")
        new = {(e["queueId"], e["queueOffset"]): e["bodySha256"] for e in added}
        assert not new.keys() & served.keys()
        assert _served(driver, topic) == served | new


def _committed(broker: str, topic: str, offsets: dict[int, int]) -> dict[int, int | None]:
    return {queue_id: committed(broker, GROUP, topic, queue_id) for queue_id in offsets}


def _assert_all(driver: Driver, topic: str, before: dict[Place, str]) -> dict[Place, str]:
    served = _served(driver, topic)
    assert before.items() <= served.items()
    return served


def _served(driver: Driver, topic: str) -> dict[Place, str]:
    """Return what a client reads from every queue; check that each starts at 0 and has each message once."""
    events = driver.run("pull", topic=topic)
    received = [event for event in events if event["event"] == "received"]
    places = [(int(event["queueId"]), int(event["queueOffset"])) for event in received]
    queues = [event for event in events if event["event"] == "queue"]
    assert sorted(places) == [(event["queueId"], number) for event in queues for number in range(event["maxOffset"])]
    return dict(zip(places, (event["bodySha256"] for event in received), strict=True))
