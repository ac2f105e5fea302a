"""About 200 operations of a broker's day, the same for the same seed: STEPS lists the kinds of operations.

Each step is a coroutine over a `Day`. A new feature of the store gets its step here, and nowhere else; a step that
needs a feature which this store lacks returns without doing anything. An error answer to a send is not a failure of the
run: the message is not acknowledged, and the disk may be failing as planned.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any

from crash_rig.ledger import Ledger, Sent
from crash_rig.lives import Life
from crash_rig.records import messages_in
from gantrymq.client.calls.rpc import RpcClient
from gantrymq.errors import GantryError
from gantrymq.formats.batch_body import BatchEntry, encode_batch
from gantrymq.formats.record import iter_records
from gantrymq.interfaces import Cleaning, GetLimit, QueueTargets, StoreMessage
from gantrymq.model import properties
from gantrymq.model.java import ordered_text
from gantrymq.model.light_queues import LIGHT_QUEUE_ID
from gantrymq.model.queue import Queue
from gantrymq.model.sys_flag import INNER_BATCH, NEED_UNWRAP
from gantrymq.model.topic import TopicConfig
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.headers.topics import CreateTopicRequest, DeleteTopicInBrokerRequest

OPERATIONS = 200
GROUP = "crash-readers"
QUEUES = 3
TOPICS = ("CrashA", "CrashB")
DOOMED = "CrashDoomed"  # deleted and made again
BATCHED = "CrashBatch"  # has batch queues
LIGHT = ("%LMQ%crash-one", "%LMQ%crash-two")
DAY_MS = 24 * 3600 * 1000


class Day:
    """One run of the workload on one broker."""

    def __init__(
        self,
        life: Life,
        ledger: Ledger,
        seed: object,
        *,
        operations: int = OPERATIONS,
        idle: float = 0.0,
        plain: bool = False,
        cleaning: bool = True,
    ) -> None:
        """Nothing is done before `run`.

        Args:
            idle: share of the topics of the previous life to which nothing is sent in this one.
            plain: leave out steps that need `ALL_KINDS` of queues, or that are invalid on purpose.
            cleaning: whether retention may delete messages.
        """
        self.life = life
        self.ledger = ledger
        self.broker = life.broker
        self.rng = random.Random(f"{seed}/day")
        self.positions: dict[Queue, int] = {}
        known = sorted(ledger.topics - {BATCHED, ledger.deleting})  # of the life before
        self.topics = [topic for topic in known if self.rng.random() >= idle]
        self._sync_failed = False
        self._left_out = {*(NOT_PLAIN if plain else ()), *(() if cleaning else ("clean",))}
        self._plain = plain
        self._operations = operations
        remoting = RemotingClient(life.world)
        self._remoting, self._rpc = remoting, RpcClient(remoting, life.world.clock)

    async def run(self) -> None:
        """Everything up to, and without, the stop."""
        try:
            if self.ledger.deleting:  # requested in the previous life, and possibly done
                with suppress(GantryError):
                    await self.finish_deletion(self.ledger.deleting)
            for topic in (*TOPICS, DOOMED, BATCHED):
                if topic not in self.ledger.topics and topic != self.ledger.deleting:
                    with suppress(GantryError):
                        await self.make_topic(topic)
            names = list(STEPS)
            weights = [0 if name in self._left_out else STEPS[name][0] for name in names]
            for _ in range(self._operations):
                (name,) = self.rng.choices(names, weights)
                with suppress(GantryError):
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
        """Any queue of the ordinary kind."""
        return Queue(self.rng.choice(self.topics or TOPICS), self.rng.randrange(QUEUES))

    def readable(self) -> Queue:
        """Any queue of any kind."""
        kind = 1.0 if self._plain else self.rng.random()
        if kind < 0.1:
            return Queue(self.rng.choice(LIGHT), LIGHT_QUEUE_ID)
        return Queue(BATCHED, self.rng.randrange(QUEUES)) if kind < 0.2 else self.queue()

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
            attributes="+queue.type=BatchCQ" if topic == BATCHED else None,
        )
        await self._rpc.call(self.address, RequestCode.UPDATE_AND_CREATE_TOPIC, header)
        self.ledger.topics.add(topic)
        if topic != BATCHED:
            self.topics.append(topic)

    async def delete_topic(self, topic: str) -> None:
        """Delete it as an operator does."""
        self.ledger.deleting = topic
        self.ledger.topics.discard(topic)
        if topic in self.topics:
            self.topics.remove(topic)
        header = DeleteTopicInBrokerRequest(topic=topic)
        await self._rpc.call(self.address, RequestCode.DELETE_TOPIC_IN_BROKER, header)
        self.ledger.delete(topic)
        self.positions = {queue: at for queue, at in self.positions.items() if queue.topic != topic}

    async def finish_deletion(self, topic: str) -> None:
        """Delete *topic* whether it is there or not."""
        await self.make_topic(topic)
        await self.delete_topic(topic)

    async def put(self, sent: Sent, *, same_file_as_previous: bool = False) -> None:
        """Send one message and note the acknowledgement."""
        own = {properties.KEYS: sent.body[:8].decode()}
        if sent.light:
            own[properties.INNER_MULTI_DISPATCH] = ",".join(sent.light)
        text = properties.encode(own)
        await self.hand_in(
            StoreMessage(
                sent.queue.topic, sent.queue.queue_id, sent.body, text, same_file_as_previous=same_file_as_previous
            ),
            [sent],
        )

    async def hand_in(self, message: StoreMessage, sent: Sequence[Sent]) -> None:
        """Send one record, and record the acknowledgement of its messages, or the error."""
        try:
            result = await self.broker.messages.put(message)
        except GantryError as error:
            self.ledger.refusals += [str(error)] * len(sent)
            self._sync_failed |= self.broker.store.state().refusal_cause == "sync_failed"
            return
        if self._sync_failed:
            self.ledger.problems.append(f"refusal: {sent[0].body[:8]!r} was taken after a sync of the log had failed")
        now = self.life.world.clock.monotonic()
        for number, each in enumerate(sent):
            self.ledger.acknowledge(each, result.queue_offset + number, result.log_offset, now)


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
    await asyncio.gather(*(day.put(each, same_file_as_previous=number > 0) for number, each in enumerate(sent)))


async def send_inner_batch(day: Day) -> None:
    """Send several messages as one record of a batch queue, or one message individually."""
    queue = Queue(BATCHED, day.rng.randrange(QUEUES))
    if BATCHED not in day.ledger.topics:
        return
    sent = [day.ledger.write(queue, day.rng) for _ in range(day.rng.randint(1, 5))]
    if len(sent) == 1:
        await day.put(sent[0])
        return
    for each in sent:
        each.inner = True
    body = encode_batch(BatchEntry(0, each.body, b"") for each in sent)
    text = ordered_text({properties.UNIQ_KEY: sent[0].body[:8].decode(), properties.INNER_NUM: str(len(sent))})
    flags = NEED_UNWRAP | INNER_BATCH
    placing = QueueTargets(batch=len(sent))
    await day.hand_in(
        StoreMessage(queue.topic, queue.queue_id, body, text, sys_flag=flags, queue_targets=placing), sent
    )


async def send_to_light_queues(day: Day) -> None:
    """A message that light queues list as well."""
    sent = day.ledger.write(Queue(day.rng.choice(TOPICS), day.rng.randrange(QUEUES)), day.rng)
    sent.light = day.rng.choice((LIGHT, LIGHT[:1], LIGHT[1:]))
    await day.put(sent)


async def send_what_raises(day: Day) -> None:
    """A plugin's mistake in the same append as good messages: it is refused, or all of them are."""
    good = [day.ledger.write(day.queue(), day.rng) for _ in range(day.rng.randint(1, 4))]
    bad = day.queue()
    message = StoreMessage(bad.topic, bad.queue_id, "no bytes", b"")  # type: ignore[arg-type]
    puts: list[Coroutine[Any, Any, object]] = [day.put(each) for each in good]
    puts.insert(day.rng.randrange(len(puts) + 1), day.broker.messages.put(message))
    outcomes = await asyncio.gather(*puts, return_exceptions=True)
    if all(outcome is None for outcome in outcomes):
        day.ledger.problems.append("refusal: a message whose body is no bytes was taken")


async def set_clock(day: Day) -> None:
    """The host's clock is a day ahead for a while, then right again."""
    await day.put(day.ledger.write(day.queue(), day.rng))
    day.life.set_clock(DAY_MS)
    await send_at_once(day)
    await day.life.world.clock.sleep(0.2)
    day.life.set_clock(0)


async def read(day: Day) -> None:
    """Continue to read as a consumer."""
    queue = day.readable()
    least = day.broker.store.bounds(queue).min_offset
    at = max(least, day.positions.get(queue, least))
    result = await day.broker.messages.get(queue, at, GetLimit(day.rng.randint(1, 12)))
    for buffer in result.buffers:
        for record in iter_records(buffer):
            for queue_offset, body in messages_in(queue, record):
                day.ledger.see(queue, queue_offset, body)
    if result.count:
        day.positions[queue] = result.next_offset


async def commit(day: Day) -> None:
    """A consumer commits everything it has read."""
    for queue, at in day.positions.items():
        day.ledger.committed[queue] = max(at, day.ledger.committed.get(queue, 0))
        day.broker.offsets.commit(GROUP, queue, at)


async def wait(day: Day) -> None:
    """Time passes, timers come round; sometimes more than a recovery goes back before its checkpoint."""
    await day.life.world.clock.sleep(day.rng.choice((0.005, 0.005, 0.03, 0.03, 0.2, 0.2, 4.0)))


async def new_topic(day: Day) -> None:
    """A topic more."""
    await day.make_topic(f"CrashMore{len(day.ledger.topics)}-{len(day.ledger.sent)}")


async def delete_and_make_again(day: Day) -> None:
    """Delete a topic and create it again."""
    if day.ledger.deleting:
        await day.finish_deletion(DOOMED)
    elif DOOMED in day.topics:
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
    "send inner batch": (5, send_inner_batch),
    "send to light queues": (4, send_to_light_queues),
    "send what raises": (2, send_what_raises),
    "read": (14, read),
    "commit": (8, commit),
    "wait": (9, wait),
    "new topic": (1, new_topic),
    "delete and make again": (3, delete_and_make_again),
    "clean": (2, clean),
    "set clock": (1, set_clock),
}
NOT_PLAIN = {"send inner batch", "send to light queues", "send what raises", "set clock"}
