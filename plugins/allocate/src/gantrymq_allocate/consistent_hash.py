"""CONSISTENT_HASH: members are placed on a hash ring, a queue belongs to the next member.

Each member has some virtual nodes, placed by the text ``<client id>-<k>``; a queue is placed by its text
(`MessageQueue.__str__`). A position is the first four bytes of the text's MD5, big-endian. The owner of a queue is the
first node at or after its position, around the ring; of two nodes at one position the later one wins. When a member
leaves, only its own queues move; the number of queues per member is random.

Source: apache/rocketmq client/.../consumer/rebalance/AllocateMessageQueueConsistentHash.java,
common/.../consistenthash/ConsistentHashRouter.java (addNode, routeNode, MD5Hash).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from hashlib import md5

from gantrymq.plugin.model import MessageQueue

DEFAULT_VIRTUAL_NODES = 10


class ConsistentHash:
    """The strategy. Computes an MD5 (about 1 us) for each virtual node of the group and for each queue."""

    name = "CONSISTENT_HASH"

    def __init__(self, virtual_nodes: int = DEFAULT_VIRTUAL_NODES) -> None:
        """*virtual_nodes*: number per member; with 0 no member gets a queue."""
        self._virtual_nodes = virtual_nodes

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Return the queues for which the next node belongs to *client_id*, in their order."""
        if client_id not in client_ids:
            return []
        ring = self._ring(client_ids)
        if not ring:
            return []
        positions = sorted(ring)
        return [
            queue
            for queue in queues
            if ring[positions[bisect_left(positions, position(str(queue))) % len(positions)]] == client_id
        ]

    def _ring(self, client_ids: Sequence[str]) -> dict[int, str]:
        """Map positions to members. A repeated id adds nodes, numbered after those it has already."""
        ring: dict[int, str] = {}
        seen: set[str] = set()
        for client_id in client_ids:
            first = Counter(ring.values())[client_id] if client_id in seen else 0
            seen.add(client_id)
            for k in range(first, first + self._virtual_nodes):
                ring[position(f"{client_id}-{k}")] = client_id
        return ring


def position(text: str) -> int:
    """Return the position of *text* on the ring: 0 to 2**32 - 1."""
    return int.from_bytes(md5(text.encode(), usedforsecurity=False).digest()[:4], "big")
