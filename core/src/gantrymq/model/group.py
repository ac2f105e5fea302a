"""Subscription group configuration.

Source: apache/rocketmq remoting/.../protocol/subscription/SubscriptionGroupConfig.java.
"""

from __future__ import annotations

from typing import Any

import attrs


@attrs.define
class GroupConfig:
    """What a broker knows of one consumer group."""

    name: str
    consume_enable: bool = True  # whether its pulls are served
    consume_from_min_enable: bool = True  # carried for RocketMQ's tools
    consume_broadcast_enable: bool = True  # whether broadcasting members are served
    consume_message_orderly: bool = False
    retry_queues: int = 1  # of its retry topic
    retry_max_times: int = 16  # deliveries after the first one until a message is a dead letter
    retry_policy: dict[str, Any] = attrs.field(factory=lambda: {"type": "CUSTOMIZED"})
    broker_id: int = 0  # of the replica that serves its pulls
    which_broker_when_slow: int = 1  # replica to turn to when it is far behind
    notify_ids_changed: bool = True  # whether members are told when members change
    sys_flag: int = 0
    consume_timeout_minute: int = 15  # carried for RocketMQ's tools
    subscriptions: list[dict[str, Any]] | None = None
    attributes: dict[str, str] = attrs.field(factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The members RocketMQ writes, in its (alphabetical) order; nulls are left out."""
        members: dict[str, Any] = {
            "attributes": dict(self.attributes),
            "brokerId": self.broker_id,
            "consumeBroadcastEnable": self.consume_broadcast_enable,
            "consumeEnable": self.consume_enable,
            "consumeFromMinEnable": self.consume_from_min_enable,
            "consumeMessageOrderly": self.consume_message_orderly,
            "consumeTimeoutMinute": self.consume_timeout_minute,
            "groupName": self.name,
            "groupRetryPolicy": self.retry_policy,
            "groupSysFlag": self.sys_flag,
            "notifyConsumerIdsChangedEnable": self.notify_ids_changed,
            "retryMaxTimes": self.retry_max_times,
            "retryQueueNums": self.retry_queues,
        }
        if self.subscriptions is not None:
            members["subscriptionDataSet"] = self.subscriptions
        members["whichBrokerWhenConsumeSlowly"] = self.which_broker_when_slow
        return members

    @classmethod
    def from_json(cls, members: dict[str, Any], name: str | None = None) -> GroupConfig:
        """Read what RocketMQ wrote; members left out keep the class defaults."""
        return cls(
            name=str(members.get("groupName") or name or ""),
            consume_enable=bool(members.get("consumeEnable", True)),
            consume_from_min_enable=bool(members.get("consumeFromMinEnable", True)),
            consume_broadcast_enable=bool(members.get("consumeBroadcastEnable", True)),
            consume_message_orderly=bool(members.get("consumeMessageOrderly", False)),
            retry_queues=int(members.get("retryQueueNums", 1)),
            retry_max_times=int(members.get("retryMaxTimes", 16)),
            retry_policy=dict(members.get("groupRetryPolicy") or {"type": "CUSTOMIZED"}),
            broker_id=int(members.get("brokerId", 0)),
            which_broker_when_slow=int(members.get("whichBrokerWhenConsumeSlowly", 1)),
            notify_ids_changed=bool(members.get("notifyConsumerIdsChangedEnable", True)),
            sys_flag=int(members.get("groupSysFlag", 0)),
            consume_timeout_minute=int(members.get("consumeTimeoutMinute", 15)),
            subscriptions=members.get("subscriptionDataSet"),
            attributes={str(k): str(v) for k, v in (members.get("attributes") or {}).items()},
        )
