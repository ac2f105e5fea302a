"""Limits on log-ins that failed, and on requests of one session. Both tables are bounded."""

from __future__ import annotations

import ipaddress
from collections import OrderedDict
from typing import Final

import attrs

from gantrymq.plugin.world import Clock

__all__ = ["Attempts", "Rates", "network_of"]

MOST_KEYS: Final = 10_000
FAILURES: Final = 5
WINDOW_S: Final = 60.0
RATE_S: Final = 20.0  # requests a second
BURST: Final = 40


class Attempts:
    """Failed log-ins of the last minute by address and by name.

    An attempt counts as failed from its start, so that attempts at the same time do not pass the limit together.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._times: OrderedDict[str, list[float]] = OrderedDict()

    def start(self, *keys: str) -> float:
        """Count an attempt for all *keys* and return 0, or return the seconds to wait and count nothing."""
        now_s = self._clock.monotonic()
        wait_s = max(self._wait_s(key, now_s) for key in keys)
        if wait_s <= 0:
            for key in keys:
                self._times.setdefault(key, []).append(now_s)
                self._times.move_to_end(key)
            while len(self._times) > MOST_KEYS:
                self._times.popitem(last=False)
        return wait_s

    def succeeded(self, *keys: str) -> None:
        """Do not count this attempt as a failure. Earlier failures still count."""
        for key in keys:
            times = self._times.get(key, [])
            if times:
                times.pop()
            if not times:
                self._times.pop(key, None)

    def _wait_s(self, key: str, now_s: float) -> float:
        times = self._times.get(key)
        if times is None:
            return 0.0
        times[:] = [each for each in times if now_s - each < WINDOW_S]
        return WINDOW_S - (now_s - times[-FAILURES]) if len(times) >= FAILURES else 0.0


@attrs.define
class _Bucket:
    left: float
    at_s: float


class Rates:
    """Requests of each session: `RATE_S` a second on average, `BURST` at once."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def allow(self, key: str) -> bool:
        """Count a request; return False if there were too many."""
        now_s = self._clock.monotonic()
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = _Bucket(BURST, now_s)
            if len(self._buckets) > MOST_KEYS:
                self._buckets.popitem(last=False)
        self._buckets.move_to_end(key)
        bucket.left = min(BURST, bucket.left + (now_s - bucket.at_s) * RATE_S)
        bucket.at_s = now_s
        if bucket.left < 1:
            return False
        bucket.left -= 1
        return True


def network_of(address: str) -> str:
    """Return the network that counts as one visitor: an IPv4 address, or a /64 network of IPv6."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address):
        mapped = found.ipv4_mapped
        return str(mapped) if mapped is not None else str(ipaddress.ip_network((found, 64), strict=False))
    return str(found)
