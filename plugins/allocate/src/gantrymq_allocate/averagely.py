"""AVG and AVG_BY_CIRCLE: as many queues for each member, in runs or in turns.

    8 queues, 3 members      AVG              0 1 2 | 3 4 5 | 6 7
                             AVG_BY_CIRCLE    0 3 6 | 1 4 7 | 2 5

Source: apache/rocketmq client/.../consumer/rebalance/AllocateMessageQueueAveragely.java,
AllocateMessageQueueAveragelyByCircle.java.
"""

from __future__ import annotations

from collections.abc import Sequence

from gantrymq.model.queue import MessageQueue


class Averagely:
    """Consecutive queues; the first members get one more where the numbers do not divide."""

    name = "AVG"

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """The run of queues that belongs to *client_id*, in their order."""
        if client_id not in client_ids:
            return []
        index = client_ids.index(client_id)
        size, more = divmod(len(queues), len(client_ids))
        start = index * size + min(index, more)
        return list(queues[start : start + size + (index < more)])


class AveragelyByCircle:
    """Queues dealt out in turns."""

    name = "AVG_BY_CIRCLE"

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Every queue whose turn is *client_id*'s, in their order."""
        if client_id not in client_ids:
            return []
        return list(queues[client_ids.index(client_id) :: len(client_ids)])
