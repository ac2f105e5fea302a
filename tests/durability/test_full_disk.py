"""A broker on a disk without a free byte: what is refused, served, reported and preserved.

The table is in docs/operations/resource-limits.md.

The disk is a real small file system, filled by the test; without permission to mount the tests are skipped.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from durability_rig.broker_process import BrokerProcess
from durability_rig.ledger import Ledger
from durability_rig.load import make_load_topics, read_everything
from durability_rig.pages import FREE_PORT, Pages
from durability_rig.small_disks import SmallDisk, small_disk
from polling import until

from gantrymq.client import Client, Message, Producer, Reader, SendFailed
from gantrymq.commands.repeated_lines import MOST
from gantrymq.errors import BrokerRefused
from gantrymq.model.queue import MessageQueue
from gantrymq.model.topic import TopicConfig

MOUNT_BYTES = 24 * 1024 * 1024
SERVICE_NOT_AVAILABLE = 14
ONCE = 1  # the one send that meets the full disk first may be told this instead
GROUP, TOPIC = "full-disk-group", "LoadA"
RESUME_S = 10.0
SEND_S = 1.0  # so long a producer tries a broker that is not ready
MOST_TOPICS = 200
SENDS = 200
POPPED = 2000
MOST_LINES = 200
REVIVED_S = 60.0
# No log file is deleted, however full the disk; offsets are saved soon.
SETTINGS = {**FREE_PORT, "cleanFileForciblyEnable": "false", "flushConsumerOffsetInterval": 200}


@pytest.fixture
def small(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SmallDisk]:
    """A folder on its own file system, by default a tmpfs."""
    with small_disk(tmp_path / "small", MOUNT_BYTES, getattr(request, "param", "tmpfs")) as disk:
        yield disk


class Run:
    """One store on the small disk and its ledger."""

    def __init__(self, small: SmallDisk, scratch: Path) -> None:
        self.ledger = Ledger()
        self.refusals: list[BrokerRefused] = []
        self._small, self._scratch = small, scratch / "processes"
        self._rng = random.Random(1)

    def broker(self) -> BrokerProcess:
        """Start it."""
        return BrokerProcess(self._small.folder / "store", self._scratch, SETTINGS)

    async def send(self, producer: Producer) -> bool:
        """Send one message; whether it was acknowledged."""
        number, message = self.ledger.write(TOPIC, self._rng, size=8000)
        try:
            result = await producer.send(message, timeout_s=SEND_S)
        except SendFailed as error:
            if not isinstance(error.__cause__, BrokerRefused):
                raise
            self.refusals.append(error.__cause__)
            return False
        self.ledger.acknowledge("one", [number], result)
        return True

    async def until_refused(self, producer: Producer) -> None:
        """Send until the broker refuses, and some more, which have to be refused alike."""
        while await self.send(producer):
            assert len(self.ledger.messages) < 20_000, "the disk did not fill"
        for _ in range(2):
            assert not await self.send(producer)
        codes = [error.response_code for error in self.refusals]
        assert set(codes[1:]) == {SERVICE_NOT_AVAILABLE}, self.refusals
        assert codes[0] in (SERVICE_NOT_AVAILABLE, ONCE)
        assert "free space" in self.refusals[-1].remark
        assert "writes resume by themselves" in self.refusals[-1].remark

    async def until_taken(self, producer: Producer) -> None:
        """Send until the broker takes messages again, and some more."""
        await until(lambda: self.send(producer), "accepted send", RESUME_S, lambda: str(self.refusals[-1]))
        for _ in range(SENDS):
            assert await self.send(producer), self.refusals[-1]

    async def assert_all_there(self, namesrv: str) -> None:
        """Everything acknowledged is read, at its place, once."""
        findings = self.ledger.compare(*await read_everything(namesrv))
        assert findings.problems == 0, findings


def test_a_full_disk_refuses_sends_and_nothing_else_and_says_why(small: SmallDisk, tmp_path: Path) -> None:
    run = Run(small, tmp_path)

    async def work(broker: BrokerProcess) -> None:
        ready = broker.ready()
        namesrv, address, pages = ready["namesrv"], ready["broker"], Pages(broker.errors)
        await make_load_topics(namesrv, run.ledger)
        async with (
            Client(namesrv) as client,
            client.producer("full", retries=0) as producer,
            client.reader(group=GROUP) as consumer,
            client.admin as admin,
        ):
            for _ in range(SENDS):
                assert await run.send(producer)
            assert (pages.get("/healthz").status, pages.value("gantrymq_store_writable")) == (200, 1)
            small.fill()
            await run.until_refused(producer)
            await run.assert_all_there(namesrv)
            queue = await commit(consumer, 7)
            cause = (await admin.runtime_info(address))["storeRefusalCause"]
            assert cause in ("no_room", "disk_ratio")
            health = pages.get("/healthz")
            assert health.status == 503
            assert "free space" in health.text
            assert pages.value("gantrymq_store_writable") == 0
            assert f'cause="{cause}"' in pages.get("/metrics").text
            small.free()
            await run.until_taken(producer)
            assert (
                "storeRefusalCause" not in await admin.runtime_info(address)
                or not (await admin.runtime_info(address))["storeRefusalCause"]
            )
            assert (pages.get("/healthz").status, pages.value("gantrymq_store_writable")) == (200, 1)
            await until_saved(small, queue, 7)

    with run.broker() as broker:
        asyncio.run(work(broker))
        broker.kill()
    assert len(run.refusals) >= 3
    with run.broker() as broker:
        asyncio.run(run.assert_all_there(broker.namesrv()))
        assert asyncio.run(committed(broker.namesrv())) == 7
        assert "Traceback" not in broker.errors
        assert broker.terminate() == 0


def test_a_full_disk_with_many_popped_messages_is_logged_in_few_lines(small: SmallDisk, tmp_path: Path) -> None:
    run = Run(small, tmp_path)

    async def work(broker: BrokerProcess) -> None:
        namesrv = broker.ready()["namesrv"]
        await make_load_topics(namesrv, run.ledger)
        async with (
            Client(namesrv) as client,
            client.producer("full", retries=0) as producer,
            client.pop_consumer("popping", TOPIC, invisible_s=10) as consumer,
        ):
            await asyncio.gather(*(producer.send(Message(TOPIC, b"popped")) for _ in range(POPPED)))
            popped = 0
            while popped < POPPED:
                popped += len(await consumer.pop(32, poll_s=5))
            small.fill()
            began = len(broker.errors.splitlines())
            await until(lambda: broker.errors.count("could not be given back") >= MOST, "tries", REVIVED_S)
            late = (producer.send(Message(TOPIC, b"late"), timeout_s=SEND_S) for _ in range(SENDS))
            refused = await asyncio.gather(*late, return_exceptions=True)
            assert all(isinstance(each, SendFailed) for each in refused), refused
            assert len(broker.errors.splitlines()) - began < MOST_LINES, broker.errors

    with run.broker() as broker:
        asyncio.run(work(broker))
        broker.kill()


@pytest.mark.parametrize(
    ("small", "end"), [("tmpfs", "stopped"), ("ext4", "killed"), ("xfs", "killed")], indirect=["small"]
)
def test_a_broker_starts_on_a_disk_without_a_free_byte_and_serves_readers(
    small: SmallDisk, tmp_path: Path, end: str
) -> None:
    run = Run(small, tmp_path)

    async def before(namesrv: str) -> None:
        await make_load_topics(namesrv, run.ledger)
        async with (
            Client(namesrv) as client,
            client.producer("full", retries=0) as producer,
            client.reader(group=GROUP) as consumer,
        ):
            for _ in range(SENDS):
                assert await run.send(producer)
            await until_saved(small, await commit(consumer, 3), 3)

    async def full(namesrv: str) -> None:
        async with Client(namesrv) as client, client.producer("full", retries=0) as producer:
            await run.assert_all_there(namesrv)
            assert await committed(namesrv) == 3
            await run.until_refused(producer)
            await run.assert_all_there(namesrv)
            small.free()
            await run.until_taken(producer)
            await run.assert_all_there(namesrv)

    with run.broker() as broker:
        asyncio.run(before(broker.namesrv()))
        if end == "killed":
            broker.kill()
        else:
            assert broker.terminate() == 0
    small.fill()
    with run.broker() as broker:
        asyncio.run(full(broker.namesrv()))
        broker.kill()
    with run.broker() as broker:
        asyncio.run(run.assert_all_there(broker.namesrv()))
        assert broker.terminate() == 0


def test_commits_made_on_a_full_disk_survive_a_stop_on_it(small: SmallDisk, tmp_path: Path) -> None:
    run = Run(small, tmp_path)

    async def work(namesrv: str) -> None:
        await make_load_topics(namesrv, run.ledger)
        async with (
            Client(namesrv) as client,
            client.producer("full", retries=0) as producer,
            client.reader(group=GROUP) as consumer,
        ):
            for _ in range(SENDS):
                assert await run.send(producer)
            await until_saved(small, await commit(consumer, 3), 3)
            small.fill()
            await run.until_refused(producer)
            for offset in range(4, 7):  # repeatedly, while sends would use the freed space
                await until_saved(small, await commit(consumer, offset), offset)
                assert not await run.send(producer)

    with run.broker() as broker:
        asyncio.run(work(broker.namesrv()))
        broker.terminate()
    assert small.free_bytes == 0
    with run.broker() as broker:
        assert asyncio.run(committed(broker.namesrv())) == 6, broker.errors
        asyncio.run(run.assert_all_there(broker.namesrv()))


def test_tables_that_not_even_the_reserve_has_room_for_are_told_and_saved_later(
    small: SmallDisk, tmp_path: Path
) -> None:
    run = Run(small, tmp_path)
    made: list[str] = []

    async def work(broker: BrokerProcess) -> None:
        ready = broker.ready()
        namesrv, address, pages = ready["namesrv"], ready["broker"], Pages(broker.errors)

        def unwritten() -> bool:
            return "gantrymq_file_unwritten{" in pages.get("/metrics").text

        await make_load_topics(namesrv, run.ledger)
        async with (
            Client(namesrv) as client,
            client.producer("full", retries=0) as producer,
            client.reader(group=GROUP) as consumer,
            client.admin as admin,
        ):
            for _ in range(SENDS):
                assert await run.send(producer)
            await commit(consumer, 3)
            await until_group_saved(small)  # the refusal would name this file otherwise
            small.fill()
            (small.folder / "store" / "config" / "reserve").unlink(missing_ok=True)
            small.fill()  # another program uses it
            with pytest.raises(BrokerRefused, match=r"topics.json cannot be written: No space left"):
                while len(made) < MOST_TOPICS:
                    name = f"Made{len(made)}".ljust(100, "x")
                    await admin.create_topic(address, TopicConfig(name, read_queues=1, write_queues=1))
                    made.append(name)
            assert unwritten()
            health = pages.get("/healthz")
            assert health.status == 503
            assert "topics.json cannot be written" in health.text
            assert "topics.json" in (await admin.runtime_info(address))["unwrittenFiles"]
            await run.assert_all_there(namesrv)
            await commit(consumer, 5)
            small.free()
            await until(lambda: not unwritten(), "end of the metric of the file")
            assert pages.get("/healthz").status == 200
            await run.until_taken(producer)

    with run.broker() as broker:
        asyncio.run(work(broker))
        broker.kill()
    with run.broker() as broker:
        assert set(made) <= set(asyncio.run(topics(broker.namesrv())))
        asyncio.run(run.assert_all_there(broker.namesrv()))


async def topics(namesrv: str) -> list[str]:
    """The topics of the broker."""
    async with Client(namesrv) as client, client.admin as admin:
        return await admin.topics()


async def commit(consumer: Reader, offset: int) -> MessageQueue:
    """Read the first queue, as which the group comes to be, and commit *offset* in it."""
    queue = (await consumer.queues(TOPIC))[0]
    assert (await consumer.pull(queue, 0)).messages
    await consumer.commit(queue, offset)
    assert await consumer.committed(queue) == offset
    return queue


async def committed(namesrv: str) -> int | None:
    """Return the group's committed offset in the first queue."""
    async with Client(namesrv) as client, client.reader(group=GROUP) as consumer:
        return await consumer.committed((await consumer.queues(TOPIC))[0])


async def until_saved(small: SmallDisk, queue: MessageQueue, offset: int) -> None:
    """Wait until the file of offsets has that of *queue*."""
    await until_written(small, "consumerOffset.json", f'"{TOPIC}@{GROUP}":{{{queue.queue_id}:{offset}')


async def until_group_saved(small: SmallDisk) -> None:
    """Wait until the file of groups has that of the tests, which the broker creates at its first pull."""
    await until_written(small, "subscriptionGroup.json", f'"{GROUP}"')


async def until_written(small: SmallDisk, name: str, part: str) -> None:
    """Wait until the file *name* of the store's configuration contains *part*."""
    path = small.folder / "store" / "config" / name

    def written() -> bool:
        try:
            return part in path.read_text()
        except FileNotFoundError:  # none yet, or renamed to the backup while it is replaced
            return False

    await until(written, f"{part} in {path}", RESUME_S)
