"""Request modes: whether a group pulls or pops a topic; the table of messageRequestMode.json.

    {"messageRequestModeMap":{TOPIC:{GROUP:{"consumerGroup":..,"mode":"POP","popShareQueueNum":8,"topic":..}}}}

Source: apache/rocketmq broker/.../loadbalance/MessageRequestModeManager.java, remoting/.../body/
SetMessageRequestModeRequestBody.java.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from gantrymq.errors import FormatError
from gantrymq.plugin.loose_json import number_in, object_in, quote_value, text_in

PULL: Final = "PULL"
POP: Final = "POP"


class RequestMode(NamedTuple):
    """Request mode of one group for one topic."""

    name: str  # PULL or POP
    share_queues: int = 0  # with POP: number of following members whose queues a member pops too; 0: all queues

    @classmethod
    def from_json(cls, members: dict[Any, Any]) -> RequestMode:
        """Parse a mode from the file, or from the request that sets one.

        Raises:
            FormatError: a member has the wrong type or is out of bounds.
        """
        name = (text_in(members, "mode", "") or PULL).upper()
        if name not in (PULL, POP):
            raise FormatError(
                f"mode {quote_value(name)!r} is neither PULL nor POP; set one with: mqadmin setConsumeMode -m"
            )
        return cls(name, number_in(members, "popShareQueueNum", 0))


class RequestModes:
    """Request modes by topic and group."""

    def __init__(self) -> None:
        self._modes: dict[str, dict[str, RequestMode]] = {}

    def get(self, topic: str, group: str) -> RequestMode | None:
        """Return the mode set for the group, None if none is set."""
        return self._modes.get(topic, {}).get(group)

    def set(self, topic: str, group: str, mode: RequestMode) -> None:
        """Set the mode of the group for the topic."""
        self._modes.setdefault(topic, {})[group] = mode

    def forget(self, topic: str, group: str) -> None:
        """Remove the modes of a deleted topic or group; the other argument is empty."""
        self._modes.pop(topic, None)
        for each, groups in list(self._modes.items()):
            groups.pop(group, None)
            if not groups:
                del self._modes[each]

    @property
    def topics(self) -> Sequence[str]:
        """The topics with a mode of any group."""
        return list(self._modes)

    def of_topic(self, topic: str) -> dict[str, Any]:
        """Return the modes of one topic by group, as in the file."""
        return {
            group: {
                "consumerGroup": group,
                "mode": mode.name,
                "popShareQueueNum": mode.share_queues,
                "topic": topic,
            }
            for group, mode in self._modes[topic].items()
        }

    def to_json(self) -> dict[str, Any]:
        """Return the contents of the file and of request 402, with sorted members as in RocketMQ."""
        return {"messageRequestModeMap": {topic: self.of_topic(topic) for topic in self._modes}}

    def copy(self) -> RequestModes:
        """Return an independent copy."""
        copied = RequestModes()
        copied._modes = {topic: dict(groups) for topic, groups in self._modes.items()}
        return copied

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RequestModes) and self._modes == other._modes

    __hash__ = None  # type: ignore[assignment]  # it can be changed

    def load(self, members: dict[Any, Any]) -> None:
        """Load the contents of the file.

        Raises:
            FormatError: a member has the wrong type.
        """
        topics = object_in(members, "messageRequestModeMap") or {}
        for topic in topics:
            groups = object_in(topics, topic) or {}
            for group in groups:
                self.set(str(topic), str(group), RequestMode.from_json(object_in(groups, group) or {}))
