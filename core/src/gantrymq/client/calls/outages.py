"""Rate-limited warnings about failing servers.

All loops of a client (pulls, pops, heartbeats, routes, offsets, locks) report their failures here. An unreachable
server produces one warning, whichever loop notices it first, and another one each minute while the outage lasts; a
final line reports that the server answers again. Any other failure produces one warning a minute per kind of work.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Hashable
from typing import Final

from gantrymq.errors import BrokerRefused, CallTimeout, ConnectFailed, ConnectionLost, GantryError, NoRoute
from gantrymq.world import Clock

logger = logging.getLogger("gantrymq.client")

UNREACHABLE: Final = (ConnectFailed, ConnectionLost, CallTimeout)
AGAIN_S: Final = 60.0  # between two warnings about the same failure
_MOST: Final = 1000  # remembered failures; the oldest is removed first


class Outages:
    """Failure log of one client instance.

    Attributes:
        away: unreachable addresses, with the time when that was noticed (monotonic seconds).
    """

    def __init__(self, clock: Clock, say: Callable[[str], object] = logger.warning) -> None:
        """*say* receives the warnings."""
        self._clock = clock
        self._warn = say
        self._last_logged: dict[Hashable, float] = {}  # last log time of each failure; oldest first
        self.away: dict[str, float] = {}

    def failed(self, doing: str, problem: GantryError) -> None:
        """Log the *problem* of a failed attempt, unless the same failure was logged less than a minute ago.

        Args:
            doing: the kind of work, such as "pulling Orders for billing", without details that vary between attempts.
            problem: the error.
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
            key = next(iter(self.away))  # name servers dropped the unreachable broker from the route
        if now - self._last_logged.get(key, -math.inf) < AGAIN_S:
            logger.debug("%s: %s", doing, problem)
            return
        self._last_logged.pop(key, None)
        self._last_logged[key] = now  # inserted last, so that the first key is the oldest
        if len(self._last_logged) > _MOST:
            del self._last_logged[next(iter(self._last_logged))]
        self._warn(f"{doing}: {problem} (repeated at most once a minute)")

    def silent(self, address: str) -> None:
        """Note that the server at *address* had time enough to answer: its connection is open, but nothing comes."""
        self.away.setdefault(address, self._clock.monotonic())

    def answered(self, address: str) -> None:
        """Note that the server at *address* answered; a no-op unless it was unreachable."""
        since = self.away.pop(address, None)
        if since is not None:
            self._last_logged.pop(address, None)
            logger.info("%s answers again, after %.1f s", address, self._clock.monotonic() - since)
