"""Some 200 operations of a broker's day, the same for the same seed: STEPS is the list of what there is to do.

Each step is a coroutine over a `Day`. A part of the store that is new gets its step here, and nowhere else; one that
needs what this store does not offer returns without doing anything.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

from crash_rig.ledger import Ledger, Sent
from crash_rig.lives import Life
from gantrymq.client.calls import Calls
from gantrymq.formats.record import iter_records
from gantrymq.interfaces import Cleaning, GetLimit, StoreMessage
from gantrymq.model import properties
from gantrymq.model.queue import Queue
from gantrymq.model.topic import TopicConfig
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.headers import CreateTopicRequest, DeleteTopicInBrokerRequest

OPERATIONS = 200
GROUP = "crash-readers"
QUEUES = 3
TOPICS = ("CrashA", "CrashB")
DOOMED = "CrashDoomed"  # deleted and made again


class Day:
    """One run of the workload on one broker."""

    def __init__(self, life: Life, ledger: Ledger, seed: object, *, operations: int = OPERATIONS) -> None:
        self.life = life
        self.ledger = ledger
        self.broker = life.broker
        self.rng = random.Random(f"{seed}/day")
        self.positions: dict[Queue, int] = {}
        self.topics: list[str] = []
        self._operations = operations
        remoting = RemotingClient(life.world)
        self._remoting, self._calls = remoting, Calls(remoting, life.world.clock)

    async def run(self) -> None:
        """Everything up to, and without, the stop."""
        try:
            for topic in (*TOPICS, DOOMED):
                await self.make_topic(topic)
            names = list(STEPS)
            weights = [weight for weight, _ in STEPS.values()]
            for _ in range(self._operations):
                (name,) = self.rng.choices(names, weights)
                await STEPS[name][1](self)
        finally:
            if not self.life.files.crashed:
                await self._remoting.close()

    @property
    def address(self) -> str:
        """Of the broker."""
        assert self.life.server is not None
        host, port = self.life.server.address
        return f"{host}:{port}"

    def queue(self) -> Queue:
        """Any queue."""
        return Queue(self.rng.choice(self.topics), self.rng.randrange(QUEUES))

    async def make_topic(self, topic: str) -> None:
        """Create it as an operator does."""
        config = TopicConfig(topic, read_queues=QUEUES, write_queues=QUEUES)
        header = CreateTopicRequest(
            topic=topic,
            default_topic="TBW102",
            read_queue_nums=QUEUES,
            write_queue_nums=QUEUES,
            perm=config.perm,
            topic_filter_type=config.filter_type,
        )
        await self._calls.ask(self.address, RequestCode.UPDATE_AND_CREATE_TOPIC, header)
        self.ledger.topics.add(topic)
        self.topics.append(topic)

    async def delete_topic(self, topic: str) -> None:
        """Delete it as an operator does."""
        self.ledger.deleting = topic
        self.ledger.topics.discard(topic)
        self.topics.remove(topic)
        header = DeleteTopicInBrokerRequest(topic=topic)
        await self._calls.ask(self.address, RequestCode.DELETE_TOPIC_IN_BROKER, header)
        self.ledger.delete(topic)
        self.positions = {queue: at for queue, at in self.positions.items() if queue.topic != topic}

    async def put(self, sent: Sent, *, joined: bool = False) -> None:
        """Send one message and note the acknowledgement."""
        text = properties.encode({properties.KEYS: sent.body[:8].decode()})
        message = StoreMessage(sent.queue.topic, sent.queue.queue_id, sent.body, text, joined=joined)
        result = await self.broker.put(message)
        self.ledger.acknowledge(sent, result.queue_offset, result.log_offset, self.life.world.clock.monotonic())


async def send(day: Day) -> None:
    """One message."""
    await day.put(day.ledger.write(day.queue(), day.rng))


async def send_at_once(day: Day) -> None:
    """Several senders in one turn of the loop."""
    sent = [day.ledger.write(day.queue(), day.rng) for _ in range(day.rng.randint(2, 6))]
    await asyncio.gather(*map(day.put, sent))


async def send_batch(day: Day) -> None:
    """A client's batch: in one queue, in one log file."""
    queue = day.queue()
    sent = [day.ledger.write(queue, day.rng) for _ in range(day.rng.randint(2, 8))]
    await asyncio.gather(*(day.put(each, joined=number > 0) for number, each in enumerate(sent)))


async def read(day: Day) -> None:
    """A consumer goes on where it was."""
    queue = day.queue()
    least = day.broker.bounds(queue).min_offset
    at = max(least, day.positions.get(queue, least))
    result = await day.broker.get(queue, at, GetLimit(day.rng.randint(1, 12)))
    for buffer in result.buffers:
        for record in iter_records(buffer):
            day.ledger.see(queue, record.queue_offset, bytes(record.body))
    if result.count:
        day.positions[queue] = result.next_offset


async def commit(day: Day) -> None:
    """A consumer commits everything it has read."""
    for queue, at in day.positions.items():
        day.ledger.committed[queue] = max(at, day.ledger.committed.get(queue, 0))
        day.broker.commit(GROUP, queue, at)


async def wait(day: Day) -> None:
    """Time passes, timers come round."""
    await day.life.world.clock.sleep(day.rng.choice((0.005, 0.03, 0.2)))


async def new_topic(day: Day) -> None:
    """A topic more."""
    await day.make_topic(f"CrashMore{len(day.ledger.topics)}-{len(day.ledger.sent)}")


async def delete_and_make_again(day: Day) -> None:
    """A topic goes, and comes back empty."""
    if DOOMED in day.topics:
        await day.delete_topic(DOOMED)
    else:
        await day.make_topic(DOOMED)


async def clean(day: Day) -> None:
    """Every log file goes but the one that is written, one after the other; queues and index follow."""
    day.ledger.cleaned = True
    await day.broker.store.clean(Cleaning.EXPIRED_LOG)


STEPS: dict[str, tuple[int, Callable[[Day], Awaitable[None]]]] = {
    "send": (45, send),
    "send at once": (10, send_at_once),
    "send batch": (10, send_batch),
    "read": (14, read),
    "commit": (8, commit),
    "wait": (9, wait),
    "new topic": (1, new_topic),
    "delete and make again": (3, delete_and_make_again),
    "clean": (1, clean),
}
