"""Queues: a broker's own view and a client's."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

from gantrymq.errors import FormatError, RequestRefused
from gantrymq.model.json_members import number_in, text_in


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

    def to_json(self) -> dict[str, Any]:
        """The members RocketMQ writes."""
        return {"brokerName": self.broker_name, "queueId": self.queue_id, "topic": self.topic}

    @classmethod
    def from_json(cls, members: Any) -> Self:
        """Read the members RocketMQ writes.

        Raises:
            RequestRefused: code 1, members are missing or of another type.
        """
        try:
            return cls(text_in(members, "topic"), text_in(members, "brokerName"), number_in(members, "queueId"))
        except (AttributeError, FormatError) as error:
            raise RequestRefused(
                1, f"a queue was expected as an object with topic, brokerName and queueId, got {str(members)[:200]}"
            ) from error
