"""Latency fault tolerance: which brokers to leave alone for a while. Events and time in, decisions out; no I/O.

    an answer took      the broker is not available for
    under 550 ms        0
    550 ms and more     2 s
    1.8 s and more      5 s
    3 s and more        6 s
    5 s and more        10 s, also where there was no answer, or a refusal that another broker may not give
    15 s and more       30 s

A time never ends earlier because of a later event. A queue is looked for at a broker that is available, then at one
that is reachable, then anywhere; of brokers that nothing is known of both are true. A broker that refused is not
reachable, nor, where a detector looks for it, one that gave no answer. It becomes reachable by an answer, to a send or
to the detector, which every 3 s asks each such broker something small.

Ours: what is refused because of the message (too large, no permission, ...) says nothing of the broker. Sends that wait
for their results and those that do not are treated alike.

Sources: apache/rocketmq client/.../latency/MQFaultStrategy.java (latencyMax, notAvailableDuration),
LatencyFaultToleranceImpl.java.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

import attrs

__all__ = ["DETECT_EVERY_S", "DETECT_TIMEOUT_S", "LatencyFaults", "not_available_ms"]

LATENCIES_MS: Final = (50, 100, 550, 1800, 3000, 5000, 15000)
NOT_AVAILABLE_MS: Final = (0, 0, 2000, 5000, 6000, 10000, 30000)
ISOLATED_MS: Final = 10000  # how long an attempt took that was lost or refused, for the table
DETECT_EVERY_S: Final = 3.0
DETECT_TIMEOUT_S: Final = 0.2
DETECT_AGAIN_MS: Final = 2000


def not_available_ms(latency_ms: float) -> int:
    """For how long a broker is left alone whose answer took *latency_ms*."""
    place = bisect_right(LATENCIES_MS, latency_ms)
    return NOT_AVAILABLE_MS[place - 1] if place else 0


@attrs.define
class _Broker:
    available_from_ms: float
    reachable: bool
    detect_from_ms: float = 0


class LatencyFaults:
    """What is known of brokers, by name. Times are milliseconds of one clock that only goes forward."""

    def __init__(self, *, detecting: bool = False) -> None:
        """*detecting*: somebody looks at the brokers that `to_detect` names."""
        self._detecting = detecting
        self._brokers: dict[str, _Broker] = {}

    def answered(self, broker: str, latency_ms: float, now_ms: float) -> None:
        """*broker* stored a message, *latency_ms* after it was sent."""
        self._note(broker, not_available_ms(latency_ms), now_ms, reachable=True)

    def lost(self, broker: str, now_ms: float) -> None:
        """There was no connection, or no answer in time."""
        self._note(broker, not_available_ms(ISOLATED_MS), now_ms, reachable=not self._detecting)

    def refused(self, broker: str, now_ms: float) -> None:
        """The broker refused a message that another one may take."""
        self._note(broker, not_available_ms(ISOLATED_MS), now_ms, reachable=False)

    def is_available(self, broker: str, now_ms: float) -> bool:
        """Whether to send there first."""
        known = self._brokers.get(broker)
        return known is None or now_ms >= known.available_from_ms

    def is_reachable(self, broker: str) -> bool:
        """Whether to send there where nobody is available."""
        known = self._brokers.get(broker)
        return known is None or known.reachable

    def to_detect(self, now_ms: float) -> tuple[str, ...]:
        """Brokers to look at now; each is named again 2 s later at the earliest, until it is reachable."""
        found = [
            name for name, known in self._brokers.items() if not known.reachable and now_ms >= known.detect_from_ms
        ]
        for name in found:
            self._brokers[name].detect_from_ms = now_ms + DETECT_AGAIN_MS
        return tuple(found)

    def detected(self, broker: str) -> None:
        """*broker* answered the detector."""
        known = self._brokers.get(broker)
        if known is not None:
            known.reachable = True

    def forget(self, broker: str) -> None:
        """No route names *broker* any more."""
        self._brokers.pop(broker, None)

    def _note(self, broker: str, duration_ms: int, now_ms: float, *, reachable: bool) -> None:
        known = self._brokers.get(broker)
        if known is None:
            if not duration_ms and reachable:  # what is said of a broker that nothing is known of
                return
            known = self._brokers[broker] = _Broker(now_ms, reachable)
        if duration_ms:
            known.available_from_ms = max(known.available_from_ms, now_ms + duration_ms)
        known.reachable = reachable
