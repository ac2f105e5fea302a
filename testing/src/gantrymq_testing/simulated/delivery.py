"""How bytes travel in the simulated network: the one place that decides, for each delivery, when and how many.

A test that wants a slow, lossy or hostile network hands in a `Delivery` of its own.
"""

from __future__ import annotations

import random
from typing import NamedTuple, Protocol

Address = tuple[str, int]

LATENCY_S = (20e-6, 400e-6)  # a local network, seconds one way
READ_BYTES = 256 * 1024  # most that one read returns, as in asyncio's selector transports


class Link(NamedTuple):
    """One direction of one connection."""

    number: int  # of the connection, from 1 in the order of connecting
    source: Address
    target: Address

    def __str__(self) -> str:
        return f"{self.number} {self.source[0]}:{self.source[1]} -> {self.target[0]}:{self.target[1]}"


class Delivery(Protocol):
    """Decides when bytes arrive and how they are split. Called once per delivery, in a repeatable order."""

    def latency_s(self, link: Link) -> float:
        """Seconds until the next bytes of *link* (or its opening, end or loss) arrive; 0 or more."""

    def read_size(self, link: Link, waiting: int) -> int:
        """How many of *waiting* bytes (1 or more) the next read gets; 1 to *waiting*."""


class SeededDelivery:
    """Every byte arrives, in order: delays are uniform, half of the reads stop short, at a uniform place."""

    def __init__(self, seeded: random.Random) -> None:
        self._random = seeded

    def latency_s(self, link: Link) -> float:
        """20 to 400 microseconds."""
        return self._random.uniform(*LATENCY_S)

    def read_size(self, link: Link, waiting: int) -> int:
        """All that waits, up to 256 KiB, or with even odds any part of it."""
        most = min(waiting, READ_BYTES)
        return most if self._random.random() < 0.5 else self._random.randint(1, most)
