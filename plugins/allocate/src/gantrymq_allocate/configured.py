"""CONFIG: a fixed list of queues.

The list is used unchecked: the queues may not exist, may belong to another topic, or be assigned to other members too.
Configure each member with its own list, and omit no queue.

Source: apache/rocketmq client/.../consumer/rebalance/AllocateMessageQueueByConfig.java.
"""

from __future__ import annotations

from collections.abc import Sequence

from gantrymq.model.queue import MessageQueue


class Configured:
    """Returns the configured queues."""

    name = "CONFIG"

    def __init__(self, queues: Sequence[MessageQueue]) -> None:
        """*queues*: the answer, in order; empty without the setting."""
        self._queues = tuple(queues)

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Return the configured queues as a new list; the arguments are ignored."""
        return list(self._queues)
