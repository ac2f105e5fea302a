"""Queue selection for messages without a destination.

Round robin, starting at a random queue of each topic; after a failure, the next queue at another broker. With latency
fault tolerance (`latency_faults`) slow or failed brokers are avoided for a while. With least latency
(`latency_faults.BrokerLatencies`) the broker is chosen first, then its next queue.

Source: apache/rocketmq client/.../impl/producer/TopicPublishInfo.java (selectOneMessageQueue),
client/.../common/ThreadLocalIndex.java, client/.../latency/MQFaultStrategy.java (selectOneMessageQueue).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence

from gantrymq.client.sending.latency_faults import BrokerLatencies, LatencyFaults
from gantrymq.client.sending.retries import RETRY_CODES
from gantrymq.client.sending.selectors import Balancing
from gantrymq.errors import BrokerRefused, NoRoute
from gantrymq.model.queue import MessageQueue
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
