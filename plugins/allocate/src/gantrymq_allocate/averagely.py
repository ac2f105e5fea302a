"""AVG and AVG_BY_CIRCLE: even shares for all members, in runs or in turns.

    8 queues, 3 members      AVG              0 1 2 | 3 4 5 | 6 7
                             AVG_BY_CIRCLE    0 3 6 | 1 4 7 | 2 5

Source: apache/rocketmq client/.../consumer/rebalance/AllocateMessageQueueAveragely.java,
AllocateMessageQueueAveragelyByCircle.java.
"""

from __future__ import annotations

from collections.abc import Sequence

from gantrymq.model.queue import MessageQueue


class Averagely:
    """Consecutive queues; the first members get one more if the numbers do not divide evenly."""

    name = "AVG"

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Return the run of queues of *client_id*, in their order."""
        if client_id not in client_ids:
            return []
        index = client_ids.index(client_id)
        size, more = divmod(len(queues), len(client_ids))
        start = index * size + min(index, more)
        return list(queues[start : start + size + (index < more)])


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
