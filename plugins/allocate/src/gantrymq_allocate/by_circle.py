"""AVG_BY_CIRCLE: even shares for all members, in turns.

    8 queues, 3 members      0 3 6 | 1 4 7 | 2 5

Source: apache/rocketmq client/.../consumer/rebalance/AllocateMessageQueueAveragelyByCircle.java.
"""

from __future__ import annotations

from collections.abc import Sequence

from gantrymq.plugin.model import MessageQueue


class AveragelyByCircle:
    """Queues assigned in turns."""

    name = "AVG_BY_CIRCLE"

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Return every n-th queue, starting at the index of *client_id* among the n members."""
        if client_id not in client_ids:
            return []
        return list(queues[client_ids.index(client_id) :: len(client_ids)])
