"""Topic configuration and permission bits.

Source: apache/rocketmq common/.../TopicConfig.java, constant/PermName.java.
"""

from __future__ import annotations

from typing import Any

import attrs

from gantrymq.model.json_members import COUNT, flag_in, number_in, object_in, text_in

PERM_INHERIT = 1
PERM_WRITE = 2
PERM_READ = 4

SYS_FLAG_UNIT = 1
SYS_FLAG_UNIT_SUB = 2

QUEUE_TYPE = "queue.type"
BATCH_QUEUES = "BatchCQ"


@attrs.define
class TopicConfig:
    """Configuration of one topic."""

    name: str
    read_queues: int = 16  # queues per broker for consumers
    write_queues: int = 16  # queues per broker for producers
    perm: int = PERM_READ | PERM_WRITE  # 4 to read, 2 to write, 6 for both
    filter_type: str = "SINGLE_TAG"  # the only value in use
    sys_flag: int = 0  # 1: topic of a unit, 2: topic with subscriptions of units
    order: bool = False  # meant for ordered messages
    attributes: dict[str, str] = attrs.field(factory=dict)  # such as queue.type, message.type

    @property
    def readable(self) -> bool:
        """Whether consumers may read the topic."""
        return bool(self.perm & PERM_READ)

    @property
    def writable(self) -> bool:
        """Whether producers may write to the topic."""
        return bool(self.perm & PERM_WRITE)

    @property
    def has_batch_queues(self) -> bool:
        """Whether the topic has batch queues (``queue.type=BatchCQ``)."""
        return self.attributes.get(QUEUE_TYPE) == BATCH_QUEUES

    def to_json(self) -> dict[str, Any]:
        """Return the members that RocketMQ writes, in its (alphabetical) order."""
        return {
            "attributes": dict(self.attributes),
            "order": self.order,
            "perm": self.perm,
            "readQueueNums": self.read_queues,
            "topicFilterType": self.filter_type,
            "topicName": self.name,
            "topicSysFlag": self.sys_flag,
            "writeQueueNums": self.write_queues,
        }

    @classmethod
    def from_json(cls, members: dict[str, Any], name: str | None = None) -> TopicConfig:
        """Parse members written by RocketMQ; missing members get the defaults of the class.

        Raises:
            FormatError: a member has the wrong type or is out of bounds.
        """
        attributes = object_in(members, "attributes") or {}
        return cls(
            name=text_in(members, "topicName", "") or name or "",
            read_queues=number_in(members, "readQueueNums", 16, COUNT),
            write_queues=number_in(members, "writeQueueNums", 16, COUNT),
            perm=number_in(members, "perm", PERM_READ | PERM_WRITE, COUNT),
            filter_type=text_in(members, "topicFilterType", "") or "SINGLE_TAG",
            sys_flag=number_in(members, "topicSysFlag", 0, COUNT),
            order=flag_in(members, "order", False),
            attributes={str(key): text_in(attributes, key) for key in attributes},
        )
