"""Several producers that send without a pause and record every acknowledgement, and readers.

Sends are made once, without a retry: each message of the ledger is sent at most once, so that "exactly once" can be
checked.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import AsyncExitStack

from durability_rig.ledger import Ledger, MessagePosition, QueueContent, number_of
from gantrymq.client import Client, Producer, PullStatus, Reader, SendStatus
from gantrymq.client.message import ReceivedMessage
from gantrymq.errors import GantryError
from gantrymq.model.queue import MessageQueue
from gantrymq.model.topic import TopicConfig
from gantrymq.world import World

TOPICS = ("LoadA", "LoadB", "LoadC")
QUEUES = 4
PRODUCERS = 3
TASKS = 2  # of each producer
BATCH = 12
READER = "durability-reader"


class Load:
    """Runs until `stop`, or until sends fail because the broker is gone.

    Every decision comes from *seed*; how they interleave does not.
    """

    def __init__(
        self,
        ledger: Ledger,
        namesrv: str,
        seed: object,
        *,
        world: World | None = None,
        topics: tuple[str, ...] = TOPICS,
        new_topics: tuple[str, ...] = (),
        unwaited: float = 0.0,
        pause_s: float = 0.0,
        on_acknowledged: Callable[[], object] = lambda: None,
    ) -> None:
        """*new_topics* are made by sending to them; *unwaited* is the share of single sends with WAIT=false;
        each task rests up to *pause_s* between two sends."""
        self.ledger = ledger
        self.ending = False  # sends may fail from now on
        self._namesrv, self._seed, self._world = namesrv, seed, world
        self._topics = (*topics, *new_topics)
        self._unwaited, self._pause_s = unwaited, pause_s
        self._on_acknowledged = on_acknowledged

    def stop(self) -> None:
        """Let every task end after the send it is at."""
        self.ending = True

    async def run(self) -> None:
        """Send until told to stop."""
        async with AsyncExitStack() as stack:
            tasks = []
            for number in range(PRODUCERS):
                compress_over = 4096 if number == 0 else 1 << 30
                client = await stack.enter_async_context(Client(self._namesrv, world=self._world))
                producer = client.producer(f"load-{number}", retries=0, compress_over_bytes=compress_over)
                tasks += [self._send(producer, f"{self._seed}/{number}/{task}") for task in range(TASKS)]
            await asyncio.gather(*tasks)

    async def _send(self, producer: Producer, seed: str) -> None:
        rng = random.Random(seed)
        ledger = self.ledger
        while not self.ending:
            topic = rng.choice(self._topics)
            try:
                queues = await producer.queues(topic)
                queue = rng.choice(queues) if rng.random() < 0.5 else None
                if rng.random() < 0.3:
                    pairs = [ledger.write(topic, rng) for _ in range(rng.randint(2, BATCH))]
                    result = await producer.send_batch([message for _, message in pairs], queue)
                else:
                    pairs = [ledger.write(topic, rng, wait_stored=rng.random() >= self._unwaited)]
                    result = await producer.send(pairs[0][1], queue)
            except GantryError as error:
                self._refused(f"sending to {topic}: {error}")
                return
            if result.status is SendStatus.SEND_OK:
                ledger.acknowledge(seed, [number for number, _ in pairs], result)
                self._on_acknowledged()
            if self._pause_s:
                await asyncio.sleep(rng.uniform(0, self._pause_s))  # real time: rate of the load

    async def follow(self, topic: str) -> None:
        """Read *topic* as it grows, and record the messages."""
        try:
            async with Client(self._namesrv, world=self._world) as client, client.reader(group=READER) as consumer:
                offsets = dict.fromkeys(await consumer.queues(topic), 0)
                while not self.ending:
                    for queue in offsets:
                        result = await consumer.pull(queue, offsets[queue], suspend_ms=20)
                        offsets[queue] = result.next_offset
                        for message in result.messages:
                            place = MessagePosition(topic, message.queue_id, message.queue_offset)
                            self.ledger.seen[place] = number_of(message)
        except GantryError as error:
            self._refused(f"reading {topic}: {error}")

    async def make_topics(self, names: tuple[str, ...], turns: asyncio.Semaphore) -> None:
        """Create *names* one by one, each at its time; record those that were acknowledged."""
        try:
            async with Client(self._namesrv, world=self._world) as client, client.admin as admin:
                (broker,) = await admin.masters()
                for number, name in enumerate(names, 1):
                    await turns.acquire()
                    await admin.create_topic(broker, TopicConfig(name, read_queues=number, write_queues=number))
                    self.ledger.topics[name] = number
        except GantryError as error:
            self._refused(f"creating topics: {error}")

    def _refused(self, sentence: str) -> None:
        """Something failed: expected once the end has come, and the end of everything before."""
        if not self.ending:
            self.ledger.refusals.append(sentence)
            self.stop()


async def make_load_topics(namesrv: str, ledger: Ledger, world: World | None = None) -> None:
    """Create the topics that the load is sent to."""
    async with Client(namesrv, world=world) as client, client.admin as admin:
        (broker,) = await admin.masters()
        for topic in TOPICS:
            await admin.create_topic(broker, TopicConfig(topic, read_queues=QUEUES, write_queues=QUEUES))
            ledger.topics[topic] = QUEUES


async def read_everything(
    namesrv: str, world: World | None = None, *, holes: bool = False
) -> tuple[dict[tuple[str, int], QueueContent], dict[str, int]]:
    """Return every queue of the topics created by clients, and these topics with their numbers of queues.

    With *holes* a reader continues after queue offsets without a message; without, such a queue is an error.
    """
    content: dict[tuple[str, int], QueueContent] = {}
    topics: dict[str, int] = {}
    async with Client(namesrv, world=world) as client, client.admin as admin, client.reader(group=READER) as consumer:
        for topic in await admin.topics():
            if topic.startswith(("Load", "Made", "Auto")):
                queues = await consumer.queues(topic)
                topics[topic] = len(queues)
                for queue in queues:
                    content[topic, queue.queue_id] = await _read_queue(consumer, queue, holes)
    return content, topics


async def _read_queue(consumer: Reader, queue: MessageQueue, holes: bool) -> QueueContent:
    low, high = await consumer.min_offset(queue), await consumer.max_offset(queue)
    messages: list[ReceivedMessage] = []
    offset = low
    while offset < high:
        result = await consumer.pull(queue, offset)
        found = result.status is PullStatus.FOUND or (holes and result.next_offset > offset)
        assert found, f"{queue} at {offset} of {high}: {result.status.name}, next {result.next_offset}"
        messages += result.messages
        offset = result.next_offset
    return QueueContent(low, high, messages)
