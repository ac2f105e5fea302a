"""Popping consumers with a randomly killed broker: no message lost, none redelivered early."""

import asyncio
import random
from pathlib import Path
from types import SimpleNamespace

import pytest
from pop_client import PopClient

from gantrymq.broker import BrokerServer
from gantrymq.errors import ClientError
from gantrymq.model.queue import Queue
from gantrymq.model.topic import TopicConfig
from gantrymq_testing.cluster import Cluster
from gantrymq_testing.simulated import SimulatedProcess, simulate

pytest.importorskip("gantrymq_storage_mmap")

MESSAGES = 120
QUEUES = 3
PORT = 10911
LATE_MS = 1_300  # a second, and the way there and back
ROOT = Path("/gantrymq")


class Rig:
    """A broker that is killed and restarted, and the consumers' view of each message."""

    def __init__(self, world, seed, crashes):
        self.world, self.rng, self.crashes = world, random.Random(seed), crashes
        self.loop = asyncio.get_running_loop()
        self.clock = world.clock
        self.number = 1
        self.down_until_ms = 0
        self.hidden = {}  # body to the time until which no other consumer may see it
        self.done = set()  # acknowledged, and answered so
        self.maybe = set()  # acknowledged without an answer, or late
        self.problems = []
        self.lateness = []
        self.sent = 0

    @property
    def broker_address(self):
        return f"10.0.0.1:{PORT}"

    async def start(self):
        self.number += 1
        self.process = SimulatedProcess(self.world, self.loop, "10.0.0.1", self.number)
        more = {"bindAddress": "10.0.0.1", "brokerIP1": "10.0.0.1", "listenPort": PORT, "brokerName": "broker-a"}
        cluster = Cluster(self.process.world, ROOT, {"store": "mmap", **more})
        cluster.settings.set("namesrvAddr", "", "a test")
        self.server = BrokerServer(self.process.world, cluster.settings, cluster.plugins)
        await self.process.run(self.server.start())
        self.broker = cluster.broker
        self.down_until_ms = self.clock.now_ms() + 500
        if self.broker.topics.get("T") is None:
            self.process.enter(self.broker.topics.put, TopicConfig("T", QUEUES, QUEUES))

    async def trouble(self):
        for _ in range(self.crashes):
            await self.clock.sleep(self.rng.uniform(1, 8))
            if self.rng.random() < 0.5:
                self.process.kill()
            else:
                self.process.kill_at_file_call(self.rng.choice((1, 2, 5, 20)))
                await self.clock.sleep(1)
                self.process.kill()
            self.down_until_ms = self.clock.now_ms() + 10**9
            await self.clock.sleep(self.rng.uniform(0.1, 3))
            await self.start()

    async def produce(self):
        async with PopClient(self) as client:
            while self.sent < MESSAGES:
                await self.clock.sleep(self.rng.uniform(0, 0.3))
                body = b"%d" % self.sent
                ext = {"a": "P", "b": "T", "c": "TBW102", "d": "4", "e": str(self.rng.randrange(QUEUES)), "f": "0"}
                ext |= {"g": str(self.clock.now_ms()), "h": "0", "i": "", "j": "0", "k": "false", "m": "false"}
                try:
                    answer = await client.ask(310, ext, body, timeout_s=3)
                except ClientError:
                    continue  # it may be stored, and is then delivered a second time under its own name
                if answer.code == 0:
                    self.sent += 1

    async def consume(self):
        async with PopClient(self) as client:
            while len(self.hidden) < MESSAGES or self.hidden.keys() - self.done - self.maybe:
                try:
                    answer = await client.pop(most=self.rng.choice((1, 4, 32)), poll=2000, invisible=self.wait_ms())
                except ClientError:
                    await self.clock.sleep(0.2)
                    continue
                for message in answer.messages:
                    await self.handle(client, message)
                if answer.code not in (0, 209, 210):
                    await self.clock.sleep(0.2)

    def wait_ms(self):
        return self.rng.choice((2000, 5000, 9000))

    async def handle(self, client, message):
        body, now = message.properties["UNIQ_KEY"], self.clock.now_ms()  # two of a send that was repeated
        pop_time, invisible = map(int, message.handle.split(" ")[1:3])
        before = self.hidden.get(body)
        if body in self.done:
            self.problems.append(f"{body} came again at {now}, acknowledged")
        elif before is not None and pop_time < before and body not in self.maybe:
            self.problems.append(f"{body} came again at {now}, {before - pop_time} ms before its time")
        elif before is not None and before > self.down_until_ms:
            self.lateness.append(now - before)
        self.hidden[body] = pop_time + invisible
        choice = self.rng.random()
        try:
            if choice < 0.6:
                code = (await client.ack(message)).code
                in_time = self.clock.now_ms() < pop_time + invisible
                (self.done if code == 0 and in_time else self.maybe).add(body)
            elif choice < 0.75:
                longer = self.wait_ms()
                answer = await client.change(message, longer)
                if answer.code == 0 and self.clock.now_ms() < pop_time + invisible:
                    self.hidden[body] = int(answer.ext["popTime"]) + longer
        except ClientError:
            self.maybe.add(body)
            self.hidden[body] = min(self.hidden[body], pop_time + invisible)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("crashes", [0, 6])
def test_nothing_is_lost_and_nothing_comes_twice_before_its_time(seed, crashes):
    async def main(world):
        rig = Rig(world, seed, crashes)
        await rig.start()
        trouble = asyncio.ensure_future(rig.trouble())
        consumers = [asyncio.ensure_future(rig.consume()) for _ in range(3)]
        await rig.produce()
        await trouble
        await asyncio.gather(*consumers)
        offsets = [rig.broker.store.bounds(Queue("T", each)).max_offset for each in range(QUEUES)]
        await rig.process.run(rig.server.stop())
        return SimpleNamespace(problems=rig.problems, late=rig.lateness, stored=sum(offsets), seen=len(rig.hidden))

    found = simulate(seed, main, limit_s=3600)
    assert found.problems == []
    if not crashes:
        assert found.stored == MESSAGES
        assert found.late
    assert max(found.late, default=0) < LATE_MS
