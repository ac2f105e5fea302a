"""Encoding of heartbeats, with which a client describes itself to brokers every 30 s. No I/O.

    {"clientID":"10.0.0.1@1234#99","consumerDataSet":[{"consumeFromWhere":"..","consumeType":"CONSUME_ACTIVELY",
     "groupName":"CG","messageModel":"CLUSTERING","subscriptionDataSet":[..],"unitMode":false}],
     "heartbeatFingerprint":0,"producerDataSet":[{"groupName":"PG"}],"withoutSub":false}

Source: apache/rocketmq remoting/.../protocol/heartbeat/HeartbeatData.java,
client/.../impl/factory/MQClientInstance.java (prepareHeartbeatData).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import attrs

from gantrymq.loose_json import dumps
from gantrymq.model.subscription import Subscription


@attrs.frozen
class ConsumerInfo:
    """One consumer group of a client. Strings are names of constants in RocketMQ's enumerations."""

    group: str
    consume_type: str  # CONSUME_ACTIVELY for a pull consumer, CONSUME_PASSIVELY for a push consumer
    message_model: str  # CLUSTERING or BROADCASTING
    consume_from: str  # CONSUME_FROM_LAST_OFFSET, ...
    subscriptions: Callable[[], Sequence[Subscription]]  # evaluated for each heartbeat
    unit_mode: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the JSON members that RocketMQ writes."""
        return {
            "consumeFromWhere": self.consume_from,
            "consumeType": self.consume_type,
            "groupName": self.group,
            "messageModel": self.message_model,
            "subscriptionDataSet": [subscription.to_json() for subscription in self.subscriptions()],
            "unitMode": self.unit_mode,
        }


def heartbeat_body(client_id: str, producers: Iterable[str], consumers: Iterable[ConsumerInfo]) -> bytes:
    """Return the body of request 34.

    Args:
        client_id: id of this client.
        producers: names of its producer groups.
        consumers: its consumer groups.
    """
    return dumps(
        {
            "clientID": client_id,
            "consumerDataSet": [consumer.to_json() for consumer in consumers],
            "heartbeatFingerprint": 0,
            "producerDataSet": [{"groupName": group} for group in producers],
            "withoutSub": False,
        }
    )
