"""How groups read topics, by pulling or by popping: the table of messageRequestMode.json.

    {"messageRequestModeMap":{TOPIC:{GROUP:{"consumerGroup":..,"mode":"POP","popShareQueueNum":8,"topic":..}}}}

Source: apache/rocketmq broker/.../loadbalance/MessageRequestModeManager.java, remoting/.../body/
SetMessageRequestModeRequestBody.java.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from gantrymq.errors import FormatError
from gantrymq.model.json_members import number_in, object_in, quote_value, text_in

__all__ = ["POP", "PULL", "RequestMode", "RequestModes"]

PULL: Final = "PULL"
POP: Final = "POP"


class RequestMode(NamedTuple):
    """How one group reads one topic."""

    name: str  # PULL or POP
    share_queues: int = 0  # with POP: of how many members behind it a member reads the queues too; 0: of all

    @classmethod
    def from_json(cls, members: dict[Any, Any]) -> RequestMode:
        """Read a mode of the file, or of the request that sets one.

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
    """What was set, by topic and group."""

    def __init__(self) -> None:
        self._modes: dict[str, dict[str, RequestMode]] = {}

    def get(self, topic: str, group: str) -> RequestMode | None:
        """What was set for the group."""
        return self._modes.get(topic, {}).get(group)

    def set(self, topic: str, group: str, mode: RequestMode) -> None:
        """From now on the group reads the topic like this."""
        self._modes.setdefault(topic, {})[group] = mode

    def forget(self, topic: str, group: str) -> None:
        """A topic or a group was deleted; the other of the two is empty."""
        self._modes.pop(topic, None)
        for each, groups in list(self._modes.items()):
            groups.pop(group, None)
            if not groups:
                del self._modes[each]

    def to_json(self) -> dict[str, Any]:
        """What the file and request 402 hold, members sorted by name as RocketMQ writes them."""
        return {
            "messageRequestModeMap": {
                topic: {
                    group: {
                        "consumerGroup": group,
                        "mode": mode.name,
                        "popShareQueueNum": mode.share_queues,
                        "topic": topic,
                    }
                    for group, mode in groups.items()
                }
                for topic, groups in self._modes.items()
            }
        }

    def load(self, members: dict[Any, Any]) -> None:
        """Take over what the file held.

        Raises:
            FormatError: a member has the wrong type.
        """
        topics = object_in(members, "messageRequestModeMap") or {}
        for topic in topics:
            groups = object_in(topics, topic) or {}
            for group in groups:
                self.set(str(topic), str(group), RequestMode.from_json(object_in(groups, group) or {}))
