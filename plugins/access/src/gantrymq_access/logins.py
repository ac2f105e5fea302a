"""Failed log-ins by address: after some in a minute, answers to that address are delayed."""

from __future__ import annotations

from collections import OrderedDict
from ipaddress import IPv6Address, ip_address
from typing import Final

from gantrymq.plugin.world import Clock

FREE: Final = 20  # failures a minute without a delay
STEP_S: Final = 0.05  # more delay for each further failure
MOST_S: Final = 1.0
MINUTE_S: Final = 60.0
MOST_ADDRESSES: Final = 10_000
_SITE_BITS: Final = 64  # of an IPv6 address; the rest is chosen by its owner


class FailedLogins:
    """Counters of the last minute, for a limited number of addresses."""

    def __init__(self, clock: Clock) -> None:
        """Create the counters."""
        self._clock = clock
        self._counts: OrderedDict[str | int, tuple[float, int]] = OrderedDict()  # start of the minute, failures

    def failed(self, address: str) -> float:
        """Count a failure and return by how many seconds its answer is delayed; 0 for most."""
        now, key = self._clock.monotonic(), _site(address)
        since, count = self._counts.pop(key, (now, 0))
        if now - since >= MINUTE_S:
            since, count = now, 0
        self._counts[key] = (since, count + 1)
        if len(self._counts) > MOST_ADDRESSES:
            self._counts.popitem(last=False)
        return min(MOST_S, max(0, count + 1 - FREE) * STEP_S)


def _site(address: str) -> str | int:
    """Return the address, or the network of an IPv6 address."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, IPv6Address) and found.ipv4_mapped is None:
        return int(found) >> _SITE_BITS
    return str(getattr(found, "ipv4_mapped", None) or found)
