"""Queues: a broker's own view and a client's."""

from __future__ import annotations

from typing import NamedTuple


class Queue(NamedTuple):
    """One queue of this broker."""

    topic: str
    queue_id: int

    def __str__(self) -> str:
        """As sentences name it."""
        return f"{self.topic}/{self.queue_id}"


class MessageQueue(NamedTuple):
    """One queue of a cluster; sorts as RocketMQ sorts it (topic, broker, id)."""

    topic: str
    broker_name: str
    queue_id: int

    def __str__(self) -> str:
        """The text that consistent hashing hashes."""
        return f"MessageQueue [topic={self.topic}, brokerName={self.broker_name}, queueId={self.queue_id}]"
