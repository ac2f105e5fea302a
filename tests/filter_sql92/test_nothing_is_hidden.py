"""Consumers with bits get the same messages as without, whatever happens to the broker meanwhile.

Messages arrive, groups change their subscriptions, topics are deleted and created again, files are deleted, settings
change, the broker stops, is killed, and loses the end of its log; after each of these every group reads everything.
"""

import asyncio
import random
from pathlib import Path

import pytest

from gantrymq.broker import BrokerServer
from gantrymq.formats.record import iter_records
from gantrymq.interfaces import PullRequest, StoreMessage
from gantrymq.model import properties as property_text
from gantrymq.model.queue import Queue
from gantrymq.model.topic import TopicConfig
from gantrymq_filter_sql92.expression import compiled
from gantrymq_testing.cluster import Cluster
from gantrymq_testing.simulated import SimulatedProcess, simulate

pytest.importorskip("gantrymq_storage_mmap")
pytest.importorskip("gantrymq_diagnosis")  # request 329

from sql_client import SqlClient

PORT = 10911
ROOT = Path("/gantrymq")
LOG_BYTES = 32_768
T0 = Queue("T", 0)
VALUES = ("x", "y", "z", "1", "01", "1.0", "2")
EXPRESSIONS = (
    "a = 'x'",
    "a = 'y' AND n > 3",
    "a IN ('x', 'z')",
    "a = 1",
    "a = 2 OR n = 7",
    "n BETWEEN 2 AND 5",
    "a <> 'x'",
    "a = 'nobody'",
    "b IS NOT NULL AND a = 'z'",
    "b = 'late'",
)
SETTINGS = {
    "store": "mmap",
    "enableConsumeQueueExt": "true",
    "enableCalcFilterBitMap": "true",
    "mappedFileSizeCommitLog": LOG_BYTES,
    "mappedFileSizeConsumeQueue": 2000,
    "mappedFileSizeConsumeQueueExt": 4096,
    "filterDataCleanTimeSpan": "60000",
    "fileReservedTime": 0,
    "bindAddress": "10.0.0.1",
    "brokerIP1": "10.0.0.1",
    "listenPort": PORT,
    "brokerName": "broker-a",
}


class Rig:
    """A broker, three groups, and a hand that breaks things."""

    broker_address = f"10.0.0.1:{PORT}"

    def __init__(self, world, seed):
        self.world, self.rng = world, random.Random(seed)
        self.loop = asyncio.get_running_loop()
        self.number = self.version = 1
        self.wanted = {}  # group to its expression
        self.denied = self.read = 0

    async def start(self):
        self.number += 1
        self.process = SimulatedProcess(self.world, self.loop, "10.0.0.1", self.number)
        cluster = Cluster(self.process.world, ROOT, SETTINGS)
        cluster.settings.set("namesrvAddr", "", "a test")
        self.plugins = cluster.plugins
        self.settings = cluster.settings
        self.server = BrokerServer(self.process.world, cluster.settings, cluster.plugins)
        await self.process.run(self.server.start())
        self.broker = cluster.broker

    def service(self, name):
        return next(each for each in self.plugins.services if each.name == name)

    def make_topic(self):
        if self.broker.topics.get("T") is None:
            self.process.enter(self.broker.topics.put, TopicConfig("T", 1, 1))

    # --- events -----------------------------------------------------------------------------------------------------

    async def messages(self):
        self.make_topic()
        few = self.rng.sample(VALUES, self.rng.choice((1, 2, 5)))

        async def put():
            for _ in range(self.rng.randrange(20, 150)):
                found = {"a": self.rng.choice(few), "n": str(self.rng.randrange(9))}
                if self.rng.random() < 0.1:
                    found["b"] = self.rng.choice(("late", ""))
                await self.broker.messages.put(StoreMessage("T", 0, b"", property_text.encode(found)))
                if self.rng.random() < 0.1:
                    await self.process.world.clock.sleep(0.003)

        await self.process.run(put())

    async def messages_while_minds_change(self):
        await asyncio.gather(self.messages(), self.another_expression())

    async def another_expression(self):
        group = self.rng.choice(("G", "H", "I"))
        self.wanted[group] = self.rng.choice(EXPRESSIONS)
        self.version += 1
        await self.heartbeat(group)

    async def heartbeat(self, group):
        async with SqlClient(self, f"client-{group}") as client:
            await client.subscribe(group, ("T", self.wanted[group], self.version))

    async def time_passes(self):
        await self.world.clock.sleep(self.rng.choice((0.05, 3, 20, 700)))

    async def another_topic_of_the_name(self):
        async with SqlClient(self) as client:
            assert (await client.ask(215, {"topic": "T"})).code == 0
        await self.world.clock.sleep(self.rng.choice((0, 1)))
        self.make_topic()

    async def files_go(self):
        async with SqlClient(self) as client:
            assert (await client.ask(329)).code == 0
        await self.world.clock.sleep(2)

    async def setting(self):
        name, value = self.rng.choice(
            (
                ("enableCalcFilterBitMap", False),
                ("enableCalcFilterBitMap", True),
                ("expectConsumerNumUseFilter", self.rng.choice((1, 32, 64))),
                ("maxErrorRateOfBloomFilter", self.rng.choice((1, 20, 60))),
            )
        )
        self.settings.set(name, value, "a test")

    async def restart(self):
        await self.process.run(self.server.stop())
        await self.start()

    async def killed(self):
        if self.rng.random() < 0.5:
            self.process.kill_at_file_call(self.rng.choice((1, 2, 5, 20)))
            with_messages = asyncio.ensure_future(self.messages())
            await asyncio.wait([with_messages], timeout=1)
            with_messages.cancel()
            await asyncio.wait([with_messages])
        self.process.kill()
        if self.rng.random() < 0.5:
            self.cut()
        await self.world.clock.sleep(0.1)
        await self.start()

    def cut(self):
        """The end of the log was not on disk."""
        files, folder = self.world.files, ROOT / "store" / "commitlog"
        name = max(files.list(folder), key=int, default=None)
        if name is None:
            return
        data = bytearray(files.read(folder / name))
        end = len(data.rstrip(b"\0"))
        start = self.rng.randrange(max(1, end))
        data[start:end] = bytes(end - start)
        with_file = files.open(folder / name)
        with_file.pwrite(bytes(data), 0)
        with_file.close()

    # --- checks -----------------------------------------------------------------------------------------------------

    async def look(self):
        if self.broker.topics.get("T") is None or not self.broker.store.bounds(T0).max_offset:
            return
        everything = await self.pulled("Reader", "*", "TAG")
        for group, expression in self.wanted.items():
            await self.heartbeat(group)
            right = [place for place, text in everything if compiled(expression).matches(text)]
            found = [place for place, _ in await self.pulled(group, expression, "SQL92")]
            first = everything[0][0] if everything else (0, 0)
            assert [place for place in found if place >= first] == right, (group, expression)
            self.read += 1

    async def pulled(self, group, expression, kind):
        """Queue offset and log offset, and properties."""
        self.process.enter(self.broker.groups.require, group)
        found, bounds = [], self.broker.store.bounds(T0)
        offset = bounds.min_offset
        while offset < bounds.max_offset:
            answer = await self.process.run(
                self.broker.messages.pull(PullRequest(group, *T0, offset, expression=expression, expression_type=kind))
            )
            assert answer.next_offset > offset, answer
            offset = answer.next_offset
            found += [
                ((record.queue_offset, record.log_offset), bytes(record.properties_bytes))
                for buffer in answer.buffers
                for record in iter_records(buffer)
            ]
        return found

    async def run(self, steps):
        await self.start()
        self.make_topic()
        happenings = [self.messages] * 5 + [self.messages_while_minds_change] * 3 + [self.another_expression] * 2
        happenings += [self.time_passes] * 3 + [self.another_topic_of_the_name, self.setting, self.restart, self.killed]
        happenings += [self.files_go]
        for _ in range(steps):
            await self.rng.choice(happenings)()
            await self.world.clock.sleep(0.02)
            await self.look()
            await self.world.clock.sleep(self.rng.choice((0, 2)))
            self.denied += self.service("filter_bitmap").counts.skipped
        await self.process.run(self.server.stop())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_group_gets_what_matches_and_nothing_else(seed):
    async def main(world):
        rig = Rig(world, seed)
        await rig.run(30)
        assert rig.read > 20 and rig.denied > 0, (rig.read, rig.denied)

    simulate(seed, main, limit_s=10_000_000)
