"""Choosing brokers by latency: two ways, of which a producer uses at most one.

`BrokerLatencies` estimates how long each broker takes for a send, as a moving average. `LatencyFaults` is latency fault
tolerance: it avoids slow or failed brokers for a while. Both are pure: events and time in, decisions out.

    the response took   the broker is not available for
    under 550 ms        0
    550 ms and more     2 s
    1.8 s and more      5 s
    3 s and more        6 s
    5 s and more        10 s, also for no response, or a refusal that another broker may not give
    15 s and more       30 s

A later event never shortens such a period. A queue is chosen at an available broker, else at a reachable one, else
anywhere; brokers without a record count as both. A broker that refused is not reachable, nor, if a detector is running,
one that did not respond. It becomes reachable again by responding to a send or to the detector, which probes each such
broker every 3 s.

Differences to RocketMQ: a refusal caused by the message (too large, no permission, ...) does not count against the
broker. Synchronous and asynchronous sends are treated alike.

Sources: apache/rocketmq client/.../latency/MQFaultStrategy.java (latencyMax, notAvailableDuration),
LatencyFaultToleranceImpl.java (detectByOneRound), client/.../impl/producer/DefaultMQProducerImpl.java (initTopicRoute,
ServiceDetector).
"""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import Final

import attrs

from gantrymq.client.connection.instance import ClientInstance
from gantrymq.errors import GantryError
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.headers.offsets import GetMaxOffsetRequest

logger = logging.getLogger("gantrymq.client")

_LATENCIES_MS: Final = (50, 100, 550, 1800, 3000, 5000, 15000)
_NOT_AVAILABLE_MS: Final = (0, 0, 2000, 5000, 6000, 10000, 30000)
_ISOLATED_MS: Final = 10000  # latency that a lost or refused attempt counts as
_DETECT_EVERY_S: Final = 3.0
_DETECT_TIMEOUT_S: Final = 0.2
DETECT_AGAIN_MS: Final = 2000

# Of `BrokerLatencies`:
_WEIGHT: Final = 0.2
_HALF_LIFE_MS: Final = 10_000
# Differences below this are noise. Brokers without measurements then differ only by their sends in flight.
_LEAST_MS: Final = 1.0
_LOST_MS: Final = 10_000.0


def not_available_ms(latency_ms: float) -> int:
    """Return for how long to avoid a broker that responded after *latency_ms*."""
    place = bisect_right(_LATENCIES_MS, latency_ms)
    return _NOT_AVAILABLE_MS[place - 1] if place else 0


@attrs.define
class _Broker:
    available_from_ms: float
    reachable: bool
    detect_from_ms: float = 0


class LatencyFaults:
    """Availability of brokers, by name. Times are milliseconds of a monotonic clock."""

    def __init__(self, *, detecting: bool = False) -> None:
        """*detecting*: a detector probes the brokers that `to_detect` returns."""
        self._detecting = detecting
        self._brokers: dict[str, _Broker] = {}

    def answered(self, broker: str, latency_ms: float, now_ms: float) -> None:
        """Note that *broker* stored a message, *latency_ms* after it was sent."""
        self._note(broker, not_available_ms(latency_ms), now_ms, reachable=True)

    def lost(self, broker: str, now_ms: float) -> None:
        """Note a failed connection to *broker*, or a request that timed out."""
        self._note(broker, not_available_ms(_ISOLATED_MS), now_ms, reachable=not self._detecting)

    def refused(self, broker: str, now_ms: float) -> None:
        """Note that *broker* refused a message that another broker may accept."""
        self._note(broker, not_available_ms(_ISOLATED_MS), now_ms, reachable=False)

    def is_available(self, broker: str, now_ms: float) -> bool:
        """Return whether *broker* is among the first choices."""
        known = self._brokers.get(broker)
        return known is None or now_ms >= known.available_from_ms

    def is_reachable(self, broker: str) -> bool:
        """Return whether *broker* may be used if no broker is available."""
        known = self._brokers.get(broker)
        return known is None or known.reachable

    def to_detect(self, now_ms: float) -> tuple[str, ...]:
        """Return the brokers to probe now; each is returned again at the earliest 2 s later, until it is reachable."""
        found = [
            name for name, known in self._brokers.items() if not known.reachable and now_ms >= known.detect_from_ms
        ]
        for name in found:
            self._brokers[name].detect_from_ms = now_ms + DETECT_AGAIN_MS
        return tuple(found)

    def detected(self, broker: str) -> None:
        """Note that *broker* responded to the detector."""
        known = self._brokers.get(broker)
        if known is not None:
            known.reachable = True

    def forget(self, broker: str) -> None:
        """Remove *broker*, which is no longer in any route."""
        self._brokers.pop(broker, None)

    def _note(self, broker: str, duration_ms: int, now_ms: float, *, reachable: bool) -> None:
        known = self._brokers.get(broker)
        if known is None:
            if not duration_ms and reachable:  # same as for a broker without a record
                return
            known = self._brokers[broker] = _Broker(now_ms, reachable)
        if duration_ms:
            known.available_from_ms = max(known.available_from_ms, now_ms + duration_ms)
        known.reachable = reachable


class FaultDetector:
    """Probes unreachable brokers for one producer until they answer again, from its start to its close."""

    def __init__(self, instance: ClientInstance, faults: LatencyFaults) -> None:
        self._instance = instance
        self._faults = faults
        self._job = instance.job(self._run())

    def end(self) -> None:
        """Stop probing."""
        self._job.cancel()

    async def _run(self) -> None:
        clock = self._instance.world.clock
        while True:
            await clock.sleep(_DETECT_EVERY_S)
            await asyncio.gather(*map(self._detect, self._faults.to_detect(clock.monotonic() * 1000)))

    async def _detect(self, broker: str) -> None:
        """Request the max offset of queue 0 of any topic of *broker*."""
        routes = self._instance.routes
        address, topic = routes.master(broker), routes.any_topic_of(broker)
        if address is None or topic is None:
            self._faults.forget(broker)
            return
        header = GetMaxOffsetRequest(topic=topic, queue_id=0)
        try:
            await self._instance.rpc.call(address, RequestCode.GET_MAX_OFFSET, header, timeout_s=_DETECT_TIMEOUT_S)
        except GantryError as problem:
            logger.info("broker %s is not reachable yet: %s", broker, problem)
            return
        self._faults.detected(broker)
        logger.info("broker %s is reachable again", broker)


class BrokerLatencies:
    """Latency estimates by broker name. Times are milliseconds of a monotonic clock.

    Each measurement has a weight of one fifth. The average halves every 10 s without a measurement, so that a broker
    that was slow is tried again.
    """

    def __init__(self) -> None:
        self._known: dict[str, tuple[float, float]] = {}  # estimate and when it was made

    def measured(self, broker: str, latency_ms: float, now_ms: float) -> None:
        """Note that *broker* answered a send after *latency_ms*."""
        known = self.estimate_ms(broker, now_ms)
        self._known[broker] = (latency_ms if known is None else known + _WEIGHT * (latency_ms - known), now_ms)

    def lost(self, broker: str, now_ms: float) -> None:
        """Note that *broker* did not answer, or refused."""
        self._known[broker] = (_LOST_MS, now_ms)

    def estimate_ms(self, broker: str, now_ms: float) -> float | None:
        """Return the expected milliseconds of a send, or None without a measurement."""
        known = self._known.get(broker)
        return known[0] * 0.5 ** ((now_ms - known[1]) / _HALF_LIFE_MS) if known is not None else None

    def best(self, brokers: Iterable[str], under_way: Callable[[str], int], now_ms: float) -> str:
        """Return the fastest of *brokers*, given how many sends each has *under_way*; the first one of equals."""

        def cost(broker: str) -> float:
            return max(self.estimate_ms(broker, now_ms) or 0.0, _LEAST_MS) * (1 + under_way(broker))

        return min(brokers, key=cost)
