"""Delivery of bytes in the simulated network: decides for each delivery the time and the number of bytes.

A test of a slow, lossy or hostile network passes its own `Delivery`.
"""

from __future__ import annotations

import random
from typing import NamedTuple, Protocol

Address = tuple[str, int]

LATENCY_S = (20e-6, 400e-6)  # a local network, seconds one way
READ_BYTES = 256 * 1024  # maximum of one read, as in asyncio's selector transports


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
        """Return the seconds until the next bytes of *link* (or its opening, end or loss) arrive; at least 0."""

    def read_size(self, link: Link, waiting: int) -> int:
        """Return how many of *waiting* bytes (at least 1) the next read returns; 1 to *waiting*."""


class SeededDelivery:
    """Delivers every byte, in order: delays are uniform, half of the reads end early, at a uniform position."""

    def __init__(self, seeded: random.Random) -> None:
        self._random = seeded

    def latency_s(self, link: Link) -> float:
        """20 to 400 microseconds."""
        return self._random.uniform(*LATENCY_S)

    def read_size(self, link: Link, waiting: int) -> int:
        """Return all waiting bytes, up to 256 KiB, or with probability 1/2 a part of them."""
        most = min(waiting, READ_BYTES)
        return most if self._random.random() < 0.5 else self._random.randint(1, most)
