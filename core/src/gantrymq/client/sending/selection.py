"""Queue selection for messages without a destination, and detection of batch queues.

Round robin, starting at a random queue of each topic; after a failure, the next queue at another broker. With latency
fault tolerance (`latency_faults`) slow or failed brokers are avoided for a while. With least latency
(`latency_faults.BrokerLatencies`) the broker is chosen first, then its next queue.

Topics with batch queues (``queue.type=BatchCQ``, RocketMQ 5.0 and later) are detected by asking their brokers.

    ordinary queues     a batch without an id of its own: each message is a record, and keeps its id
    batch queues        a batch with one: all its messages are one record (an inner batch), each keeps its id inside

On ordinary queues the id of a batch hides the ids of its messages, and consumers and queries cannot find them. Java's
client from 5.0 on always sends a batch id; ours only sends it to batch queues. A route does not contain the queue type,
so one broker is queried. If the broker is older or does not answer, the queues are treated as ordinary, where batches
with and without an id are stored.

Sources: apache/rocketmq client/.../impl/producer/TopicPublishInfo.java (selectOneMessageQueue),
client/.../common/ThreadLocalIndex.java, client/.../latency/MQFaultStrategy.java (selectOneMessageQueue),
broker/.../processor/SendMessageProcessor.java (sendBatchMessage),
client/.../producer/DefaultMQProducer.java (batch).
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Collection, Sequence
from typing import Final

from gantrymq.client.connection.instance import ClientInstance
from gantrymq.client.sending.latency_faults import BrokerLatencies, LatencyFaults
from gantrymq.client.sending.retries import RETRY_CODES
from gantrymq.client.sending.selectors import Balancing
from gantrymq.errors import BrokerRefused, GantryError, NoRoute
from gantrymq.loose_json import loads
from gantrymq.model.queue import MessageQueue
from gantrymq.model.topic import TopicConfig
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.headers.topics import GetTopicConfigRequest
from gantrymq.world import Clock

_MASK = 0x7FFFFFFF


class RoundRobin:
    """Round robin over the queues of each topic of one producer."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._next: dict[str, int] = {}

    def choose(self, topic: str, queues: Sequence[MessageQueue], avoid: Collection[str] = ()) -> MessageQueue:
        """Return the next queue, if possible of a broker that is not in *avoid*.

        Args:
            topic: topic of the queues.
            queues: at least one.
            avoid: names of brokers that just failed.
        """
        for _ in queues:
            queue = queues[self._turn(topic) % len(queues)]
            if queue.broker_name not in avoid:
                return queue
        return queues[self._turn(topic) % len(queues)]

    def randomize(self, topic: str) -> None:
        """Continue at a random queue, so that sends that failed together spread out."""
        self._next[topic] = self._chance.getrandbits(31)

    def _turn(self, topic: str) -> int:
        turn = self._next.get(topic)
        if turn is None:
            turn = self._chance.getrandbits(31)
        self._next[topic] = (turn + 1) & _MASK
        return turn


class QueueSelection:
    """Selects queues for one producer, using the outcomes of earlier attempts."""

    def __init__(
        self, clock: Clock, chance: random.Random, under_way: Callable[[str], int], faults: LatencyFaults | None = None
    ) -> None:
        """Without *faults* there is no latency fault tolerance; *under_way* returns the number of sends in flight at a
        broker.
        """
        self._clock = clock
        self._turns = RoundRobin(chance)
        self._under_way = under_way
        self._faults = faults
        self._latencies: BrokerLatencies | None = None  # created by the first send that needs them
        self.listens = faults is not None  # whether it needs the outcomes of attempts

    def choose(
        self,
        topic: str,
        queues: Sequence[MessageQueue],
        balancing: Balancing = Balancing.ROUND_ROBIN,
        avoid: Collection[str] = (),
        *,
        again: bool = False,
    ) -> MessageQueue:
        """Return the queue for the next attempt.

        Args:
            topic: topic of all *queues*.
            queues: at least one.
            balancing: how to distribute messages over them.
            avoid: names of brokers where the message already failed.
            again: this is not its first attempt.
        """
        if self._faults is not None:
            if again:
                self._turns.randomize(topic)
            queues = self._tolerating(self._faults, queues, avoid)
        if balancing is Balancing.LEAST_LATENCY:
            queues = self._soonest(queues, avoid)
        return self._turns.choose(topic, queues, avoid)

    def answered(self, broker: str, took_s: float) -> None:
        """Note that an attempt at *broker* succeeded after *took_s* seconds."""
        now_ms = self._now_ms()
        if self._faults is not None:
            self._faults.answered(broker, took_s * 1000, now_ms)
        if self._latencies is not None:
            self._latencies.measured(broker, took_s * 1000, now_ms)

    def failed(self, broker: str, error: BaseException) -> None:
        """Note that an attempt at *broker* ended with *error*; errors caused by the message are ignored."""
        code = error.response_code if isinstance(error, BrokerRefused) else None
        if not broker or isinstance(error, NoRoute) or (code is not None and code not in RETRY_CODES):
            return
        now_ms = self._now_ms()
        if self._faults is not None:
            (self._faults.lost if code is None else self._faults.refused)(broker, now_ms)
        if self._latencies is not None:
            self._latencies.lost(broker, now_ms)

    def _now_ms(self) -> float:
        return self._clock.monotonic() * 1000

    def _tolerating(
        self, faults: LatencyFaults, queues: Sequence[MessageQueue], avoid: Collection[str]
    ) -> Sequence[MessageQueue]:
        """Return the queues at available brokers, else at reachable ones, else all."""
        now_ms = self._now_ms()
        others = [queue for queue in queues if queue.broker_name not in avoid]
        return (
            [queue for queue in others if faults.is_available(queue.broker_name, now_ms)]
            or [queue for queue in others if faults.is_reachable(queue.broker_name)]
            or queues
        )

    def _soonest(self, queues: Sequence[MessageQueue], avoid: Collection[str]) -> Sequence[MessageQueue]:
        """Return the queues of the broker with the lowest expected latency."""
        if self._latencies is None:
            self._latencies = BrokerLatencies()
            self.listens = True
        names = dict.fromkeys(queue.broker_name for queue in queues)
        others = [name for name in names if name not in avoid]
        best = self._latencies.best(others or names, self._under_way, self._now_ms())
        return [queue for queue in queues if queue.broker_name == best]


logger = logging.getLogger("gantrymq.client")

ASK_TIMEOUT_S: Final = 1.0
KEPT_S: Final = 300.0  # a topic's type never changes, but a topic may be deleted and recreated
GUESS_KEPT_S: Final = 30.0  # for a topic that does not exist yet, or if the broker does not answer


class BatchQueueCache:
    """Queue types of one producer's topics."""

    def __init__(self, instance: ClientInstance) -> None:
        self._instance = instance
        self._jobs: set[asyncio.Task[None]] = set()
        self._known: dict[str, tuple[bool, float]] = {}  # by topic: the answer and when it expires
        self._asking = asyncio.Lock()  # concurrent batches of a new topic share one request

    def known(self, topic: str) -> bool | None:
        """Return whether *topic* has batch queues according to the cache, or None before `has_batch_queues`."""
        answer, until_s = self._known.get(topic, (None, 0.0))
        now_s = self._instance.world.clock.monotonic()
        if answer is not None and now_s >= until_s:
            self._known[topic] = answer, now_s + GUESS_KEPT_S  # used until the new answer arrives
            job = self._instance.job(self._renew(topic))
            self._jobs.add(job)
            job.add_done_callback(self._jobs.discard)
        return answer

    async def has_batch_queues(self, topic: str) -> bool:
        """Return whether *topic*, whose route is known, has batch queues. Never raises."""
        answer = self.known(topic)
        if answer is not None:
            return answer
        async with self._asking:
            if topic not in self._known:
                await self._renew(topic)
        return self._known[topic][0]

    def end(self) -> None:
        """Cancel pending requests."""
        for job in self._jobs:
            job.cancel()

    async def _renew(self, topic: str) -> None:
        answer, kept_s = await self._ask(topic)
        self._known[topic] = answer, self._instance.world.clock.monotonic() + kept_s

    async def _ask(self, topic: str) -> tuple[bool, float]:
        """Query a broker; return the answer and for how many seconds to cache it."""
        routes = self._instance.routes
        masters = (routes.master(queue.broker_name) for queue in routes.queues_known(topic))
        address = next((master for master in masters if master is not None), None)
        if address is None:
            return False, ASK_TIMEOUT_S
        try:
            header = GetTopicConfigRequest(topic=topic, lo=True)
            code = RequestCode.GET_TOPIC_CONFIG
            reply = await self._instance.rpc.call(address, code, header, timeout_s=ASK_TIMEOUT_S)
            return TopicConfig.from_json(loads(reply.payload or b"{}")).has_batch_queues, KEPT_S
        except BrokerRefused:  # it has no such topic yet, or does not know the request
            return False, GUESS_KEPT_S
        except (GantryError, ValueError, TypeError, AttributeError, OverflowError) as problem:
            logger.info("cannot query %s for the queue type of %s: %s", address, topic, problem)
            return False, GUESS_KEPT_S
