"""Subscription group configuration.

Source: apache/rocketmq remoting/.../protocol/subscription/SubscriptionGroupConfig.java.
"""

from __future__ import annotations

from typing import Any, Final

import attrs

from gantrymq.errors import FormatError
from gantrymq.model.json_members import (
    COUNT,
    COUNT64,
    INT64,
    flag_in,
    number_in,
    numbers_in,
    object_in,
    objects_in,
    quote_value,
    text_in,
)

POPS: Final = "CONSUME_POP"
_POPPING_PROTOCOLS: Final = ("grpc",)


def pops(consume_type: str, protocol: str) -> bool:
    """Return whether a consumer receives by pop, as it declares, or as all clients of its protocol do."""
    return consume_type == POPS or protocol in _POPPING_PROTOCOLS


def lite_parent_of(config: GroupConfig | None) -> str:
    """Return the topic whose lite topics a group consumes; empty if it is no such group, or not known."""
    return "" if config is None else config.lite_parent


@attrs.define
class GroupConfig:
    """Configuration of one consumer group."""

    name: str
    consume_enable: bool = True  # allow pulls
    consume_from_min_enable: bool = True  # stored for RocketMQ's tools
    consume_broadcast_enable: bool = True  # allow broadcasting members
    consume_message_orderly: bool = False
    retry_queues: int = 1  # of its retry topic
    retry_max_times: int = 16  # deliveries after the first one until a message is a dead letter
    retry_policy: dict[str, Any] = attrs.field(factory=lambda: {"type": "CUSTOMIZED"})  # stored for RocketMQ's proxy
    broker_id: int = 0  # replica that serves its pulls
    which_broker_when_slow: int = 1  # replica suggested if the group is far behind
    notify_ids_changed: bool = True  # notify members of changes of membership
    sys_flag: int = 0
    consume_timeout_minute: int = 15  # carried for RocketMQ's tools
    subscriptions: list[dict[str, Any]] | None = None
    attributes: dict[str, str] = attrs.field(factory=dict)

    @property
    def lite_parent(self) -> str:
        """The topic whose lite topics the group consumes, and nothing else; empty if it is no group of lite topics."""
        return self.attributes.get("lite.bind.topic", "")

    def to_json(self) -> dict[str, Any]:
        """Return the members that RocketMQ writes, in its (alphabetical) order, without nulls."""
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
        """Parse members written by RocketMQ; missing members get the defaults of the class.

        Raises:
            FormatError: a member has the wrong type or is out of bounds. Negative numbers of retries are allowed;
                RocketMQ treats them as none.
        """
        attributes = object_in(members, "attributes") or {}
        return cls(
            name=text_in(members, "groupName", "") or name or "",
            consume_enable=flag_in(members, "consumeEnable", True),
            consume_from_min_enable=flag_in(members, "consumeFromMinEnable", True),
            consume_broadcast_enable=flag_in(members, "consumeBroadcastEnable", True),
            consume_message_orderly=flag_in(members, "consumeMessageOrderly", False),
            retry_queues=number_in(members, "retryQueueNums", 1),
            retry_max_times=number_in(members, "retryMaxTimes", 16),
            retry_policy=_retry_policy(object_in(members, "groupRetryPolicy") or {"type": "CUSTOMIZED"}),
            broker_id=number_in(members, "brokerId", 0, COUNT64),
            which_broker_when_slow=number_in(members, "whichBrokerWhenConsumeSlowly", 1, COUNT64),
            notify_ids_changed=flag_in(members, "notifyConsumerIdsChangedEnable", True),
            sys_flag=number_in(members, "groupSysFlag", 0, COUNT),
            consume_timeout_minute=number_in(members, "consumeTimeoutMinute", 15, COUNT),
            subscriptions=_subscriptions(members),
            attributes={str(key): text_in(attributes, key) for key in attributes},
        )


def _retry_policy(policy: dict[str, Any]) -> dict[str, Any]:
    """Check the known members of groupRetryPolicy and return it unchanged. Source: GroupRetryPolicy.java."""
    if policy.get("type") not in ("CUSTOMIZED", "EXPONENTIAL", None):
        raise FormatError(f"groupRetryPolicy: type {quote_value(policy['type'])} is neither CUSTOMIZED nor EXPONENTIAL")
    exponential = object_in(policy, "exponentialRetryPolicy") or {}
    for name in ("initial", "max", "multiplier"):
        number_in(exponential, name, 0, COUNT64)
    numbers_in(object_in(policy, "customizedRetryPolicy") or {}, "next", COUNT64)
    return policy


def _subscriptions(members: dict[str, Any]) -> list[dict[str, Any]] | None:
    """Check subscriptionDataSet and return it unchanged. Source: SimpleSubscriptionData.java."""
    found = objects_in(members, "subscriptionDataSet")
    for each in found:
        for name in ("topic", "expressionType", "expression"):
            text_in(each, name, None)
        number_in(each, "version", 0, INT64)
    return None if members.get("subscriptionDataSet") is None else found
