"""Statistics of a connection of replication: its bytes, and why earlier ones ended."""

from __future__ import annotations

from typing import Final

import attrs

_MOST_HOSTS: Final = 64


@attrs.define(eq=False)
class Traffic:
    """Bytes of the log through a connection, and their rate in the last whole second with some."""

    total: int = 0
    _window_at: float = 0.0
    _bytes: int = 0
    _last: int = 0

    def add(self, size: int, now: float) -> None:
        """Count *size* bytes at *now*, monotonic seconds."""
        self._turn(now)
        self.total += size
        self._bytes += size

    def per_second(self, now: float) -> int:
        """Return the bytes of the last whole second."""
        self._turn(now)
        return self._last

    def _turn(self, now: float) -> None:
        passed = now - self._window_at
        if passed >= 1:
            self._last = self._bytes if passed < 2 else 0
            self._window_at, self._bytes = now, 0


@attrs.frozen
class Departure:
    """Why the last connection from a host ended."""

    host: str
    at_ms: int
    problem: str
    reported: bool = True  # whether it was a slave that had reported


class Departures:
    """The last departure of each host; of `_MOST_HOSTS` at most."""

    def __init__(self) -> None:
        self._by_host: dict[str, Departure] = {}
        self._stopping: set[str] = set()  # hosts of slaves that said that they stop
        self.untold: set[str] = set()  # hosts whose last departure was not logged, as it was the same as before

    @property
    def all(self) -> tuple[Departure, ...]:
        """The oldest first."""
        return tuple(self._by_host.values())

    def note(self, departure: Departure) -> bool:
        """Keep *departure*; return whether the one before from this host had another reason."""
        if departure.reported and departure.host in self._stopping:
            self._stopping.discard(departure.host)
            departure = attrs.evolve(departure, reported=False)  # it is not lost
        before = self._by_host.pop(departure.host, None)
        if len(self._by_host) >= _MOST_HOSTS:
            self.untold.discard(oldest := next(iter(self._by_host)))
            del self._by_host[oldest]
        self._by_host[departure.host] = departure
        return before is None or before.problem != departure.problem

    def stops(self, host: str) -> None:
        """Note that a slave at *host* stops: its departure will not count as a loss."""
        self._stopping.add(host)

    def forget(self, host: str) -> bool:
        """Forget the departure of *host*; return whether a slave was lost there."""
        found = self._by_host.get(host)
        if found is None or not found.reported:
            return False
        del self._by_host[host]
        return True
