"""Queues of one broker and of a cluster."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

from gantrymq.errors import FormatError, RequestRefused
from gantrymq.model.json_members import number_in, text_in


class Queue(NamedTuple):
    """One queue of this broker."""

    topic: str
    queue_id: int

    def __str__(self) -> str:
        """Return the queue as shown in messages."""
        return f"{self.topic}/{self.queue_id}"


class MessageQueue(NamedTuple):
    """One queue of a cluster. The order is that of RocketMQ (topic, broker, id)."""

    topic: str
    broker_name: str
    queue_id: int

    def __str__(self) -> str:
        """Return the text that consistent hashing uses."""
        return f"MessageQueue [topic={self.topic}, brokerName={self.broker_name}, queueId={self.queue_id}]"

    def to_json(self) -> dict[str, Any]:
        """Return the members that RocketMQ writes."""
        return {"brokerName": self.broker_name, "queueId": self.queue_id, "topic": self.topic}

    @classmethod
    def from_json(cls, members: Any) -> Self:
        """Parse the members that RocketMQ writes.

        Raises:
            RequestRefused: code 1, a member is missing or has the wrong type.
        """
        try:
            return cls(text_in(members, "topic"), text_in(members, "brokerName"), number_in(members, "queueId"))
        except (AttributeError, FormatError) as error:
            raise RequestRefused(
                1, f"a queue was expected as an object with topic, brokerName and queueId, got {str(members)[:200]}"
            ) from error
