"""Backups of brokers that run: with every message acknowledged before, and no offset that is ahead of the messages."""

import asyncio
import itertools
from pathlib import Path

import pytest

from gantrymq.client import Client, Message
from gantrymq.errors import StoreLayoutError
from gantrymq.model.queue import Queue
from gantrymq.model.topic import TopicConfig
from gantrymq.world.real import RealFiles
from gantrymq_store_tools.backup import backup_store
from gantrymq_store_tools.check import check_store
from gantrymq_store_tools.restore import restore_store
from gantrymq_testing.cluster import Cluster
from gantrymq_testing.running_broker import RunningBroker

pytest.importorskip("gantrymq_storage_mmap")

NOW_MS = 1_795_245_252_000
SETTINGS = {"store": "mmap", "mappedFileSizeCommitLog": 65536, "mappedFileSizeConsumeQueue": 600}
INDEX = {"maxHashSlotNum": 50, "maxIndexNum": 100}
QUEUES = 2
TASKS = 4
BEFORE = 400  # messages that are acknowledged before the backup begins


def test_a_broker_under_sends(tmp_path):
    acknowledged, sent = [], set()

    async def load(running):
        """Send until the backup is complete; return what was acknowledged before it began, and committed offsets."""
        enough, done = asyncio.Event(), asyncio.Event()
        async with Client(running.namesrv) as client, client.producer("p", retries=0) as producer:

            async def send(task):
                for number in itertools.count():
                    body = f"{task}/{number} ".encode() * 40
                    sent.add(body)
                    await producer.send(Message("T", body, keys=f"k{task}x{number}"))
                    acknowledged.append(body)
                    if len(acknowledged) == BEFORE:
                        enough.set()
                    if done.is_set():
                        return

            async with asyncio.TaskGroup() as tasks:
                for task in range(TASKS):
                    tasks.create_task(send(task))
                await enough.wait()
                before = set(acknowledged)
                report = await asyncio.to_thread(
                    backup_store, RealFiles(), tmp_path / "ours" / "store", tmp_path / "backup", NOW_MS
                )
                assert len(acknowledged) > len(before), "nothing was sent during the backup"
                done.set()
        return before, report

    with RunningBroker(tmp_path / "ours", SETTINGS) as running:
        running.create_topic("T", QUEUES)
        before, report = asyncio.run(load(running))
    assert [finding for finding in report.findings if finding.damage] == []
    assert len(before) <= report.manifest.records <= len(sent)
    restore_store(RealFiles(), tmp_path / "backup", tmp_path / "again" / "store")
    with RunningBroker(tmp_path / "again", SETTINGS) as running:
        found = [message.body for message in running.pull("T")]
        running.send("T", b"more")
        assert len(running.pull("T")) == len(found) + 1
    assert len(found) == len(set(found))
    assert before <= set(found) <= sent


@pytest.mark.parametrize("index", ["of the broker", "of the restore"])
def test_offsets_keys_and_delays_of_a_broker_that_ran_for_minutes(gantrymq_simulation, index):
    pytest.importorskip("gantrymq_schedule")
    settings = {**SETTINGS, **INDEX}

    async def work(cluster):
        world = cluster.world
        clock, files = world.clock, world.files
        await cluster.create_topic("T", QUEUES)
        store, bodies = cluster.root / "store", set()
        async with cluster.consumer("g") as consumer:
            for number in range(150):
                body = b"%d " % number * 100
                bodies.add(body)
                await cluster.send("T", body, keys=f"key{number}")
                await clock.sleep(1.0)
            ends = {}
            for queue in await consumer.queues("T"):
                ends[queue.queue_id] = await consumer.max_offset(queue) - 3
                await consumer.commit(queue, ends[queue.queue_id])
        late = await _send_late(cluster)
        await clock.sleep(6.0)  # the offsets are saved every 5 s
        await cluster.send("T", b"last")
        report = backup_store(files, store, Path("/backup"), clock.now_ms())
        assert [finding for finding in report.findings if finding.damage] == []
        assert 0 < report.manifest.queues_to < report.manifest.log_end
        copied = [file.path for file in report.manifest.files if file.path.startswith("index/")]
        assert 0 < len(copied) < len(files.list(store / "index"))
        for number in range(20):
            await cluster.send("T", b"after the backup %d" % number)
        offset_ms = clock.utc_offset_ms if index == "of the restore" else None
        restore_store(files, Path("/backup"), Path("/again/store"), index=offset_ms)
        again = Cluster(world, Path("/again"), settings)
        await again.start()
        try:
            assert sorted(message.body for message in await again.pull("T")) == sorted([*bodies, b"last"])
            for queue_id, offset in ends.items():
                assert again.broker.offsets.committed("g", Queue("T", queue_id)) == offset
            for number in (0, 75, 149):
                found = await _by_key(again, f"key{number}")
                assert found == [b"%d " % number * 100]
            await again.send("T", b"more", keys="more")
            assert await _by_key(again, "more") == [b"more"]
            await clock.sleep(60.0)
            assert sorted(message.body for message in await again.pull("Late")) == late
        finally:
            await again.stop()
        checked = check_store(files, Path("/again/store"))
        assert checked.findings == []
        assert checked.index_files > len(copied)

    gantrymq_simulation(work, settings=settings)


def test_deleted_topics_batch_queues_and_ext_files(gantrymq_simulation):
    settings = {**SETTINGS, "enableConsumeQueueExt": True, "mappedFileSizeConsumeQueueExt": 4096}

    async def work(cluster):
        world = cluster.world
        clock, files = world.clock, world.files
        for topic in ("Again", "Gone", "T", "B"):
            await cluster.create_topic(topic, 1)
        cluster.broker.topics.put(TopicConfig("B", 1, 1, attributes={"queue.type": "BatchCQ"}))
        expected = {"B": []}

        async def send(topic, count):
            for number in range(count):
                body = b"%d at %d" % (number, clock.now_ms())
                expected.setdefault(topic, []).append(body)
                await cluster.send(topic, body, tags="red")

        async with (
            Client(cluster.namesrv, world=world) as client,
            client.producer("p") as producer,
            client.admin as admin,
        ):
            await send("Gone", 20)
            await send("Again", 20)
            await admin.delete_topic("Again")
            del expected["Again"]
            for _ in range(60):
                for topic in ("T", "B"):
                    await send(topic, 2)
                bodies = [b"batch %d" % number for number in range(3)]
                await producer.send_batch([Message("B", body) for body in bodies])
                expected["B"] += bodies
                await clock.sleep(2.0)
            await cluster.create_topic("Again", 1)
            await send("Again", 3)
            await send("Gone", 3)
            await admin.delete_topic("Gone")
            del expected["Gone"]
        report = backup_store(files, cluster.root / "store", Path("/backup"), clock.now_ms())
        assert [finding for finding in report.findings if finding.damage] == []
        used = {file.path.split("/")[0] for file in report.manifest.files if file.used}
        assert used >= {"batchconsumequeue", "consumequeue_ext"}
        restore_store(files, Path("/backup"), Path("/again/store"))
        again = Cluster(world, Path("/again"), settings)
        await again.start()
        try:
            for topic, bodies in expected.items():
                assert [message.body for message in await again.pull(topic)] == bodies
            assert again.broker.topics.get("Gone") is None
        finally:
            await again.stop()
        assert check_store(files, Path("/again/store")).findings == []

    gantrymq_simulation(work, settings=settings)


async def _send_late(cluster):
    await cluster.create_topic("Late", 1)
    async with Client(cluster.namesrv, world=cluster.world) as client, client.producer("late") as producer:
        await producer.send(Message("Late", b"in 30 s", delay_level=4))
        await producer.send(Message("Late", b"in 40 s", delay_ms=40_000))
    return [b"in 30 s", b"in 40 s"]


async def _by_key(cluster, key):
    async with Client(cluster.namesrv, world=cluster.world) as client, client.admin as admin:
        return [message.body for message in await admin.query_message("T", key)]


def test_neither_a_broker_nor_a_tool_uses_an_interrupted_restore(tmp_path, small):
    backup_store(small.files, small.root, tmp_path / "backup", NOW_MS)
    victim = next((tmp_path / "backup" / "store" / "consumequeue").rglob("0" * 20))
    victim.write_bytes(b"damaged")
    with pytest.raises(Exception, match="the backup is damaged"):
        restore_store(small.files, tmp_path / "backup", tmp_path / "again" / "store")
    settings = {**SETTINGS, "mappedFileSizeCommitLog": 8192}
    running = RunningBroker(tmp_path / "again", settings)
    with pytest.raises(StoreLayoutError, match=r"restore\.incomplete"):
        running.start()
