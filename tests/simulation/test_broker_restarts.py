"""Members of a group while their broker stops or is killed and starts again: each queue keeps its member.

Every member is a process of its own on a virtual clock. A seed decides how the broker stops, for how long, and how late
each member notices. No member leaves, so a queue consumed by two members, or a message delivered twice, is a fault.
"""

import asyncio
from collections import Counter, defaultdict

import pytest
from simulation_rig.machines import Machine, broker, name_server

from gantrymq.broker import BrokerServer
from gantrymq.client import Client, Message
from gantrymq.errors import ClientError
from gantrymq.model.topic import TopicConfig
from gantrymq_testing.simulated import SimulatedProcess, simulate

pytestmark = [
    pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning"),  # of a process that was killed
]

BROKER, NAMESRV = "10.0.1.1", "10.0.0.1:9876"
TOPIC, QUEUES, MEMBERS = "Orders", 8, 3
RESTARTS = 3
KINDS = "concurrent", "orderly", "lite pull", "lite pull that commits"
LIMIT_S = 3600.0
SETTINGS = {"store": "mmap", "flushDiskType": "SYNC_FLUSH", "mappedFileSizeCommitLog": 1 << 20}


class Group:
    """The consumer of each message, in order of consumption."""

    def __init__(self, world, kind):
        self.world, self.kind = world, kind
        self.counts = Counter()  # by place: a message that the producer sent again counts as another one
        self.bodies = set()
        self.members_of = defaultdict(list)  # queue: members in the order in which they consumed it
        self.members = []
        self.joined = {}  # consumers by number

    def took(self, number, message):
        self.counts[message.queue_id, message.queue_offset] += 1
        self.bodies.add(message.body)
        members = self.members_of[message.queue_id]
        if not members or members[-1] != number:
            members.append(number)

    def start(self, number):
        loop = asyncio.get_running_loop()
        process = SimulatedProcess(self.world, loop, f"10.0.3.{number}", 100 + number)
        client = Client(NAMESRV, world=process.world)
        self.members.append((process, client, process.run(self._consume(number, process.world, client))))

    async def _consume(self, number, world, client):
        async def take(message):
            await world.clock.sleep(world.random.choice((0.0, 0.01, 0.05)))
            self.took(number, message)

        async with client:
            if not self.kind.startswith("lite pull"):
                orderly = self.kind == "orderly"
                member = client.consumer("billing", TOPIC, orderly=orderly, consume_from="first")
                self.joined[number] = member
                await member.run(take, concurrency=4)
                return
            auto_commit = self.kind == "lite pull"
            member = client.lite_pull("billing", TOPIC, auto_commit=auto_commit, consume_from="first")
            self.joined[number] = member
            async for message in member:
                await take(message)
                if self.kind == "lite pull that commits":
                    await self._commit(world, member)

    async def _commit(self, world, member):
        try:
            await member.commit()
        except ClientError:  # of a broker that is down; the next one stores more
            await world.clock.sleep(0.2)

    async def shared_out(self):
        """Wait until each queue has one member; return the member of each queue."""
        while True:
            held = [(queue, number) for number, each in self.joined.items() for queue in each.assignment]
            found = {queue: number for queue, number in held if queue.topic == TOPIC}
            if len(found) == QUEUES == sum(queue.topic == TOPIC for queue, _ in held):
                return found
            await self.world.clock.sleep(0.1)

    async def close(self):
        for process, client, task in self.members:
            await process.run(client.close())
            await task
            assert process.tasks() == []


async def restart(world, machine: Machine):
    """Act as the seed decides."""
    if world.random.random() < 0.5:
        machine.crash()
    else:
        await machine.stop()
    await world.clock.sleep(world.random.choice((0.0, 0.3, 2.0, 15.0, 40.0)))
    machine.start()
    await machine.ready()


def run(seed, kind):
    async def main(world):
        servers = [name_server(world, "10.0.0.1"), broker(world, BROKER, NAMESRV, SETTINGS)]
        for machine in servers:
            machine.start()
            await machine.ready()
        assert isinstance(servers[1].server, BrokerServer)
        servers[1].server.tables.topics.put(TopicConfig(TOPIC, read_queues=QUEUES, write_queues=QUEUES))
        group = Group(world, kind)
        for number in range(MEMBERS):
            group.start(number)
        producing = SimulatedProcess(world, asyncio.get_running_loop(), "10.0.2.1", 7)
        sent, over = 0, False

        async def produce():
            nonlocal sent
            async with Client(NAMESRV, world=producing.world) as client, client.producer("P") as producer:
                while not over:
                    await producer.send(Message(TOPIC, f"{sent}".encode()), timeout_s=100.0)
                    sent += 1
                    await producing.world.clock.sleep(0.1)

        await group.shared_out()
        await world.clock.sleep(8.0)
        sends = producing.run(produce())
        await world.clock.sleep(5.0)
        before = await group.shared_out()
        for _ in range(RESTARTS):
            await restart(world, servers[1])
            await world.clock.sleep(world.random.uniform(0.5, 25.0))
        over = True
        await sends
        for _ in range(100):
            if len(group.bodies) >= sent:
                break
            await world.clock.sleep(1.0)
        assert await group.shared_out() == before
        await group.close()
        for machine in reversed(servers):
            await machine.stop()
        return group, sent

    return simulate(seed, main, limit_s=LIMIT_S)


def check(seed, kind):
    group, sent = run(seed, kind)
    twice = sum(count - 1 for count in group.counts.values())
    moved = {queue: members for queue, members in group.members_of.items() if len(members) > 1}
    assert (twice, moved) == (0, {})
    assert len(group.bodies) == sent > 100


@pytest.mark.parametrize("kind", KINDS)
def test_a_restart_of_the_broker_gives_no_queue_to_a_second_member(kind):
    check(1, kind)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_twenty_seeds_of_restarts(kind):
    for seed in range(20):
        check(seed, kind)
