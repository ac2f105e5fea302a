"""CONFIG: a list of queues, whoever asks.

The list is used as it is: nothing checks that the queues exist, that the topic is the one asked for, or that no other
member has them too. Give each member its own list and leave no queue out.

Source: apache/rocketmq client/.../consumer/rebalance/AllocateMessageQueueByConfig.java.
"""

from __future__ import annotations

from collections.abc import Sequence

from gantrymq.model.queue import MessageQueue


class Configured:
    """Answers with what it was given."""

    name = "CONFIG"

    def __init__(self, queues: Sequence[MessageQueue]) -> None:
        """*queues*: the answer, in its order; nothing where the setting is missing."""
        self._queues = tuple(queues)

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """The configured queues, as a new list; the arguments are not looked at."""
        return list(self._queues)
