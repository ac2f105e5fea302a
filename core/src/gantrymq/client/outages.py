"""Warnings about servers that fail, at a rate that people can read.

All loops of a client (pulls, pops, heartbeats, routes, offsets, locks) report their failures here. A server that cannot
be reached is one warning, whichever loop notices it first, and another one each minute while that lasts; it ends with
one line when the server answers again. Any other failure is one warning a minute for the same kind of work.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Hashable
from typing import Final

from gantrymq.errors import BrokerRefused, CallTimeout, ConnectFailed, ConnectionLost, GantryError, NoRoute
from gantrymq.world import Clock

__all__ = ["UNREACHABLE", "Outages"]

logger = logging.getLogger("gantrymq.client")

UNREACHABLE: Final = (ConnectFailed, ConnectionLost, CallTimeout)
AGAIN_S: Final = 60.0  # between two warnings about the same
_MOST: Final = 1000  # failures remembered; the oldest is forgotten first


class Outages:
    """Belongs to one client instance.

    Attributes:
        away: addresses that cannot be connected to, with the time at which that was noticed (seconds of the clock).
    """

    def __init__(self, clock: Clock, say: Callable[[str], object] = logger.warning) -> None:
        """*say* is given the warnings."""
        self._clock = clock
        self._say = say
        self._told: dict[Hashable, float] = {}  # failures, and when each was logged last; oldest first
        self.away: dict[str, float] = {}

    def failed(self, doing: str, problem: GantryError) -> None:
        """Log that *problem* ended an attempt, unless the same was logged less than a minute ago.

        Args:
            doing: the kind of work, such as "pulling Orders for billing"; without what differs from try to try.
            problem: what was raised.
        """
        now = self._clock.monotonic()
        address = getattr(problem, "address", "")
        key: Hashable = (doing, type(problem), address)
        if isinstance(problem, BrokerRefused):
            key = (doing, problem.response_code, address)
        elif address and isinstance(problem, UNREACHABLE):
            key = address
            if not isinstance(problem, CallTimeout):
                self.away.setdefault(address, now)
        elif self.away and isinstance(problem, NoRoute):
            key = next(iter(self.away))  # name servers have forgotten a broker that is away
        if now - self._told.get(key, -math.inf) < AGAIN_S:
            logger.debug("%s: %s", doing, problem)
            return
        self._told.pop(key, None)
        self._told[key] = now  # the last one, so that the first one is the oldest
        if len(self._told) > _MOST:
            del self._told[next(iter(self._told))]
        self._say(f"{doing}: {problem} (repeated at most once a minute)")

    def answered(self, address: str) -> None:
        """Note that the server at *address* answered; harmless for one that was not away."""
        since = self.away.pop(address, None)
        if since is not None:
            self._told.pop(address, None)
            logger.info("%s answers again, after %.1f s", address, self._clock.monotonic() - since)
