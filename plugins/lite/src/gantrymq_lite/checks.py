"""Checks of requests about lite topics: broker, topic, group, and that the group is bound to the topic.

Source: apache/rocketmq broker/.../processor/PopLiteMessageProcessor.java (preCheck).
"""

from __future__ import annotations

from shlex import quote
from typing import Final

from gantrymq.errors import GroupNotExist, InvalidParameter, LiteGroupMismatch, NoPermission, TopicNotExist
from gantrymq.plugin.interfaces import Broker, LiteGroup
from gantrymq.plugin.model import PERM_READ, Principal
from gantrymq_lite.attributes import is_lite, light_queues_problem, lite_group

_LONGEST_INVISIBLE_MS: Final = 3 * 24 * 3600 * 1000  # as for pops
_CREATE_TOPIC: Final = "gantrymq topic create -t {} -a +message.type=LITE"


class LiteChecks:
    """The checks of one broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def consumer(self, group: str, topic: str, principal: Principal | None) -> None:
        """Check that a group may consume the lite topics of *topic* (`gantrymq.interfaces.LiteService`)."""
        self._broker.access.check_consumer(principal, group, topic)
        if not self._broker.settings.number("brokerPermission") & PERM_READ:
            raise NoPermission(
                "this broker's brokerPermission forbids reading; allow it with: gantrymq broker config set "
                "brokerPermission=6"
            )
        self.topic(topic)
        config = self._broker.groups.get(group)
        bound = self.group(group, topic)
        if config is not None and not config.consume_enable:
            raise NoPermission(
                f"consumer group {group} is switched off (consumeEnable=false); switch it on with: gantrymq group "
                f"create -g {group} --consume"
            )
        if bound is None or bound.topic != topic:
            to = "no topic" if bound is None else f"topic {bound.topic}"
            raise LiteGroupMismatch(
                f"group {group} asks for the lite topics of {topic} and is bound to {to}; bind it with: gantrymq group "
                f"create -g {group} -a +lite.bind.topic={topic}"
            )

    def topic(self, name: str) -> None:
        """Raise TopicNotExist, NoPermission, LiteGroupMismatch or InvalidParameter if a topic has no lite topics."""
        topic = self._broker.topics.get(name)
        if topic is None:
            raise TopicNotExist(
                f"topic {name} does not exist on this broker; create it with: {_CREATE_TOPIC.format(quote(name))}"
            )
        if not topic.readable:
            raise NoPermission(
                f"topic {name} may not be read (perm {topic.perm}); allow it with: gantrymq topic create -t "
                f"{quote(name)} --perm 6"
            )
        if not is_lite(topic):
            raise LiteGroupMismatch(
                f"topic {name} has no lite topics (its message.type is not LITE); create one that has with: "
                f"{_CREATE_TOPIC.format('NAME')}"
            )
        if problem := light_queues_problem(self._broker.settings):
            raise InvalidParameter(problem)

    def group(self, name: str, topic: str = "TOPIC") -> LiteGroup | None:
        """Return the attributes of a group. Raises GroupNotExist; *topic* is for its advice."""
        group = self._broker.groups.get(name)
        if group is None:
            raise GroupNotExist(
                f"consumer group {name} does not exist on this broker; create it with: gantrymq group create -g "
                f"{quote(name)} -a +lite.bind.topic={topic}"
            )
        return lite_group(group)


def check_invisible(invisible_ms: int) -> None:
    """Raise InvalidParameter if *invisible_ms* is out of bounds."""
    if not 0 <= invisible_ms <= _LONGEST_INVISIBLE_MS:
        raise InvalidParameter(
            f"the invisible time {invisible_ms} ms is not between 0 and {_LONGEST_INVISIBLE_MS} (three days); ask for "
            "less"
        )
