"""Topics that a group pops, as set by mqadmin setConsumeMode: read from RocketMQ's messageRequestMode.json.

    {"messageRequestModeMap":{TOPIC:{GROUP:{"consumerGroup":..,"mode":"POP","popShareQueueNum":8,"topic":..}}}}

Source: apache/rocketmq broker/.../loadbalance/MessageRequestModeManager.java.
"""

from __future__ import annotations

from gantrymq.errors import FormatError
from gantrymq.interfaces import Broker
from gantrymq.loose_json import loads

__all__ = ["popped_topics"]

FILE = "messageRequestMode.json"
POP = "POP"


def popped_topics(broker: Broker, group: str) -> frozenset[str]:
    """Return the topics with mode POP for *group*; empty if the file is missing or cannot be read."""
    path = broker.root / "config" / FILE
    try:
        modes = loads(broker.world.files.read(path))["messageRequestModeMap"]
        return frozenset(str(topic) for topic, groups in modes.items() if groups.get(group, {}).get("mode") == POP)
    except (OSError, FormatError, AttributeError, KeyError, TypeError):
        return frozenset()
