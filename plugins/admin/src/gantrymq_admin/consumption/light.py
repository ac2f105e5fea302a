"""Groups that read a message through a light queue (LMQ), with their positions.

A light queue lists records of another topic under a name and an offset of its own, so a group that reads it does not
appear among the groups of the message's topic. Failed messages of light queues are retried by their clients, without
copies at the broker.

Source: apache/rocketmq store/.../LmqDispatch.java.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import attrs

from gantrymq.client import Admin, ReceivedMessage
from gantrymq.plugin.model import LIGHT_QUEUE_ID, MessageQueue, light_queue_offsets
from gantrymq_admin.consumption.asking import FactAsking
from gantrymq_admin.consumption.facts import Fact
from gantrymq_admin.progress import committed_at

__all__ = ["LightReader", "light_readers"]


@attrs.frozen
class LightReader:
    """A group that reads a light queue."""

    queue: str  # name of the light queue
    queue_offset: int  # of the message in it
    group: str
    committed: int | None  # None: never committed, or not known

    @property
    def passed(self) -> bool:
        """Whether the position is after the message: consumed, or skipped."""
        return self.committed is not None and self.committed > self.queue_offset


async def light_readers(
    admin: Admin, asking: FactAsking, message: ReceivedMessage, broker: str, brokers: Mapping[str, str]
) -> tuple[LightReader, ...]:
    """Return the groups that read the message's light queues at its broker."""
    address = brokers.get(broker)
    places = light_queue_offsets(message.topic, message.properties)
    if address is None or not places:
        return ()

    async def of_queue(name: str, queue_offset: int) -> list[LightReader]:
        answer = await asking.ask(Fact.GROUPS, broker, admin.groups_of_topic(address, name))
        groups = () if answer is None else answer[0]
        queue = MessageQueue(name, broker, LIGHT_QUEUE_ID)
        committed = await asyncio.gather(
            *(asking.ask(Fact.COMMITTED, broker, committed_at(admin, address, group, queue), group) for group in groups)
        )
        return [
            LightReader(name, queue_offset, group, None if at is None else at[0])
            for group, at in zip(groups, committed, strict=True)
            if group != name  # RocketMQ 5 lists the topic itself, see `gather`
        ]

    found = await asyncio.gather(*(of_queue(name, queue_offset) for name, queue_offset in places))
    return tuple(reader for readers in found for reader in readers)
