"""A faulty network: jitter, slow hosts, partitions, resets, refused connections. All from one seed.

Bytes of one connection never overtake each other, as with TCP; those of different connections do all the time.
During a partition they wait, as TCP retransmits them: a caller sees silence, then a late response.

    kind        effect                                       caused by
    delay       most bytes are quick, some take a second     every delivery
    short read  a read ends at any byte                      every delivery
    slow host   slow in both directions                      `slow_down`
    partition   nothing passes between two hosts, or one way  `part`
    refusal     a host accepts no connections                `refuse`
    cut         a connection is reset, at any byte           `cut_some`
"""

from __future__ import annotations

import random
from collections.abc import Callable

from gantrymq_testing.simulated.network import SimulatedNetwork
from gantrymq_testing.simulated.stream import READ_BYTES, Link

QUICK_S = (20e-6, 2e-3)
SLOW_S = (0.01, 0.3)
SLOW_READ_BYTES = 2000
LATE_S = (0.05, 1.5)  # a packet was lost and sent again


class FaultyDelivery:
    """A `Delivery` with controls; seconds are those of the loop's clock, which ``attach`` passes in."""

    def __init__(self, seeded: random.Random, *, late: float = 0.02) -> None:
        """*late*: the fraction of deliveries delayed by LATE_S."""
        self._random = seeded
        self._late = late
        self._now_s: Callable[[], float] = lambda: 0.0
        self._slow: dict[str, float] = {}  # until
        self._parted: dict[tuple[str, str], float] = {}  # by source and target
        self._refusing: dict[str, float] = {}
        self._network: SimulatedNetwork | None = None

    def attach(self, network: SimulatedNetwork, now_s: Callable[[], float]) -> None:
        """Attach to *network*, which uses this delivery; *now_s* returns virtual seconds."""
        self._network = network
        self._now_s = now_s
        network.refuse(self._refuses)

    # --- what the network asks --------------------------------------------------------------------------------------

    def latency_s(self, link: Link) -> float:
        """Return a short, long or late delay, or the rest of a partition."""
        now_s, hosts = self._now_s(), (link.source[0], link.target[0])
        slow = any(self._slow.get(host, 0.0) > now_s for host in hosts)
        latency_s = self._random.uniform(*(SLOW_S if slow else QUICK_S))
        if self._random.random() < self._late:
            latency_s += self._random.uniform(*LATE_S)
        return latency_s + max(self._parted.get(hosts, 0.0) - now_s, 0.0)

    def read_size(self, link: Link, waiting: int) -> int:
        """Half of the reads return all bytes, the others a part; slow hosts return few at a time."""
        slow = any(self._slow.get(host, 0.0) > self._now_s() for host in (link.source[0], link.target[0]))
        most = min(waiting, SLOW_READ_BYTES if slow else READ_BYTES)
        return most if self._random.random() < 0.5 else self._random.randint(1, most)

    def _refuses(self, link: Link) -> bool:
        return self._refusing.get(link.target[0], 0.0) > self._now_s()

    # --- controls ---------------------------------------------------------------------------------------------------

    def slow_down(self, host: str, seconds: float) -> None:
        """Slow down all traffic of *host*."""
        self._slow[host] = self._now_s() + seconds

    def part(self, one: str, other: str, seconds: float, *, one_way: bool = False) -> None:
        """Block all traffic sent from now on between two hosts, or only that from *one* to *other*."""
        self._parted[one, other] = self._now_s() + seconds
        if not one_way:
            self._parted[other, one] = self._now_s() + seconds

    def refuse(self, host: str, seconds: float) -> None:
        """Refuse new connections to *host*; existing ones remain."""
        self._refusing[host] = self._now_s() + seconds

    def cut_some(self, share: float) -> int:
        """Reset this fraction of the open connections, each at a random byte in flight; return their number."""
        assert self._network is not None, "attach a network first"
        chosen = [link for link in self._network.links() if self._random.random() < share]
        for link in chosen:
            self._network.cut(link, self._random.randrange(100_000), self._random.randrange(2_000))
        return len(chosen)

    def heal(self) -> None:
        """End partitions, slowness and refusals for data sent from now on, and use short delays."""
        self._late = 0.0
        for table in (self._slow, self._parted, self._refusing):
            table.clear()
