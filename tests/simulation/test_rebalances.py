"""Members of a group join and leave at random, one to twenty of them: no message is missed, a clean leave repeats none.

They use an in-memory broker on a virtual clock, each member in a process of its own. ``-m long`` runs a hundred seeds;
each run prints how many messages were delivered again after each kind of change.
"""

import asyncio
from collections import Counter

import pytest

from gantrymq.client import Client
from gantrymq_testing.simulated import SimulatedProcess
from gantrymq_testing.simulation import simulate_cluster

TOPICS = {"Orders": 8, "Refunds": 3}
MOST = 20
CHANGES = 25
SENT_A_CHANGE = 30
SETTLED_S = 8.0  # time after a change until queues are shared again; a death is noticed by its closed connections
CATCH_UP_S = 300.0


class Group:
    """Consumed messages and the members of the group."""

    def __init__(self, cluster, orderly):
        self.cluster, self.orderly = cluster, orderly
        self.counts = Counter()
        self.again = Counter()  # redelivered messages, by the change before them
        self.disorder = []
        self.members = []
        self.joined = 0
        self.last = "join"
        self._reached = {}
        self._died_at = {}  # offsets reached by dead members; orderly locks live a minute longer

    async def take(self, message):
        """Take a moment for some messages."""
        world = self.cluster.world
        await world.clock.sleep(world.random.choice((0.0, 0.0, 0.05)))
        queue, offset = (message.topic, message.queue_id), message.queue_offset
        cause = "die" if offset < self._died_at.get(queue, 0) else self.last
        self.again[cause] += self.counts[message.body] > 0
        self.counts[message.body] += 1
        due = self._reached.get(queue, 0)
        if offset > due:
            self.disorder.append((queue, offset, due))
        self._reached[queue] = max(due, offset + 1)

    async def join(self):
        self.joined += 1
        process = SimulatedProcess(
            self.cluster.world, asyncio.get_running_loop(), f"10.0.3.{self.joined}", 100 + self.joined
        )
        joined = asyncio.get_running_loop().create_future()

        async def work():
            async with Client(self.cluster.namesrv, world=process.world) as client:
                consumer = client.consumer(
                    "billing", dict.fromkeys(TOPICS, "*"), orderly=self.orderly, consume_from="first"
                )
                joined.set_result(consumer)
                await consumer.run(self.take, concurrency=4)

        task = process.run(work())
        self.members.append((process, await joined, task))

    async def leave(self, place):
        process, consumer, task = self.members.pop(place)
        await process.run(consumer.close())
        await task
        assert process.tasks() == []

    def die(self, place):
        process, consumer, _ = self.members.pop(place)
        for queue in consumer.assignment:
            self._died_at[queue.topic, queue.queue_id] = self._reached.get((queue.topic, queue.queue_id), 0)
        process.kill()

    def shared_out(self):
        """Check that each queue has one member."""
        held = [queue for _, consumer, _ in self.members for queue in consumer.assignment if queue.topic in TOPICS]
        return len(held) == len(set(held)) == sum(TOPICS.values())


async def changes(cluster, orderly):
    """The group after all changes, and how many were sent."""
    clock, chance = cluster.world.clock, cluster.world.random
    for topic, queues in TOPICS.items():
        await cluster.create_topic(topic, queues)
    group = Group(cluster, orderly)
    sent = 0

    async def send():
        nonlocal sent
        for _ in range(SENT_A_CHANGE):
            await cluster.send(chance.choice(list(TOPICS)), f"{sent}".encode())
            sent += 1

    await group.join()
    for _ in range(CHANGES):
        sending = asyncio.ensure_future(send())
        crowd = len(group.members)
        kinds = [kind for kind, may in (("join", crowd < MOST), ("leave", crowd > 1), ("die", crowd > 1)) if may]
        group.last = chance.choices(kinds, [{"join": 5, "leave": 3, "die": 1}[kind] for kind in kinds])[0]
        for _ in range(chance.choice((1, 1, 3, 8))):  # several changes at once are one rebalance
            if group.last == "join" and len(group.members) < MOST:
                await group.join()
            elif group.last == "leave" and len(group.members) > 1:
                await group.leave(chance.randrange(len(group.members)))
            elif group.last == "die" and len(group.members) > 1:
                group.die(chance.randrange(len(group.members)))
        await sending
        await clock.sleep(SETTLED_S)
    deadline = clock.monotonic() + CATCH_UP_S
    while len(group.counts) < sent or not group.shared_out():
        assert clock.monotonic() < deadline, f"{len(group.counts)} of {sent} came"
        await clock.sleep(1)
    while group.members:
        await group.leave(0)
    return group, sent


def check(seed, orderly):
    group, sent = simulate_cluster(lambda cluster: changes(cluster, orderly), seed=seed)
    print(f"seed {seed}, {'orderly' if orderly else 'concurrent'}: {sent} sent, came again after {dict(group.again)}")
    assert sorted(group.counts) == sorted(f"{number}".encode() for number in range(sent))
    assert group.again["leave"] == 0
    if orderly:
        assert group.disorder == []
    return group.again


@pytest.mark.parametrize("orderly", [False, True])
def test_members_come_and_go(orderly):
    check(1, orderly)


@pytest.mark.long
@pytest.mark.parametrize("orderly", [False, True])
def test_members_come_and_go_a_hundred_times(orderly):
    total = Counter()
    for seed in range(100):
        total.update(check(seed, orderly))
    print(f"all seeds: came again after {dict(total)}")
