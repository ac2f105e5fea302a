"""AVG, RocketMQ's default allocation strategy: even shares of the queues of a topic, in runs of queues.

    8 queues, 3 members      0 1 2 | 3 4 5 | 6 7

It is in core so that a client consumes without any plugin; other strategies are plugins.

Source: apache/rocketmq client/.../consumer/rebalance/AllocateMessageQueueAveragely.java.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gantrymq.errors import ConfigError
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


def averagely(settings: Mapping[str, str]) -> Averagely:
    """Create AVG. Raises ConfigError if there is any setting."""
    if settings:
        raise ConfigError(f"allocation strategy {Averagely.name} has no setting {min(settings)} (it has none)")
    return Averagely()
