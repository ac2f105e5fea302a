"""The settings that a client gets: its own, merged with those of the broker and of its group.

Source: apache/rocketmq proxy/.../grpc/v2/common/GrpcClientSettingsManager.java,
remoting/.../protocol/subscription/GroupRetryPolicy.java and the policies that it has.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from gantrymq.plugin.interfaces import LiteGroup
from gantrymq.plugin.model import GroupConfig
from gantrymq.plugin.settings import Settings as BrokerSettings
from gantrymq_grpc.conversion.times import set_ms
from gantrymq_grpc.definitions import Duration, Metric, RetryPolicy, Settings

_CUSTOMIZED_S = (1, 5, 10, 30, *range(60, 601, 60), 1200, 1800, 3600, 7200)
_MOST_QUOTA = 2**31 - 1
_EXPONENTIAL = {"initial": 5_000, "max": 7_200_000, "multiplier": 2}  # ms


class Defaults(NamedTuple):
    """Values for clients; the defaults are those of RocketMQ's proxy."""

    max_body_bytes: int = 4 * 1024 * 1024
    validate_message_type: bool = True
    send_attempts: int = 3
    send_backoff_first_ms: int = 10
    send_backoff_most_ms: int = 1000
    send_backoff_multiplier: float = 2.0
    receive_batch: int = 32
    long_polling_ms: int = 20_000
    lite_topic_characters: int = 64  # of a name

    @classmethod
    def of(cls, settings: BrokerSettings) -> Defaults:
        """Return those of a broker."""
        return cls(
            max_body_bytes=settings.number("maxMessageSize"),
            send_attempts=settings.number("grpcClientProducerMaxAttempts"),
            send_backoff_first_ms=settings.number("grpcClientProducerBackoffInitialMillis"),
            send_backoff_most_ms=settings.number("grpcClientProducerBackoffMaxMillis"),
        )


def merged(own: Settings, group: GroupConfig | None, defaults: Defaults, lite: LiteGroup | None = None) -> Settings:
    """Return the settings to answer with.

    Args:
        own: the settings that the client sent; not changed.
        group: of a consumer; None if the broker does not know it yet.
        lite: the attributes of the group of a consumer of lite topics; None for others.
    """
    found = Settings()
    found.CopyFrom(own)
    if own.WhichOneof("pub_sub") == "publishing":
        _set_publishing(found, defaults)
    elif own.WhichOneof("pub_sub") == "subscription":
        _set_subscription(found, group, defaults)
        if lite is not None:
            found.subscription.lite_subscription_quota = min(lite.quota, _MOST_QUOTA)
            found.subscription.max_lite_topic_size = defaults.lite_topic_characters
    found.metric.CopyFrom(Metric(on=False))
    return found


def _set_publishing(found: Settings, defaults: Defaults) -> None:
    found.backoff_policy.max_attempts = defaults.send_attempts
    backoff = found.backoff_policy.exponential_backoff
    set_ms(backoff.initial, defaults.send_backoff_first_ms)
    set_ms(backoff.max, defaults.send_backoff_most_ms)
    backoff.multiplier = defaults.send_backoff_multiplier
    found.publishing.max_body_size = defaults.max_body_bytes
    found.publishing.validate_message_type = defaults.validate_message_type


def _set_subscription(found: Settings, group: GroupConfig | None, defaults: Defaults) -> None:
    subscription = found.subscription
    # A client's own numbers count only for a group that is not known yet, as in RocketMQ; the order is never its own.
    if group is not None or not subscription.HasField("receive_batch_size"):
        subscription.receive_batch_size = defaults.receive_batch
    if group is not None or not subscription.HasField("long_polling_timeout"):
        set_ms(subscription.long_polling_timeout, defaults.long_polling_ms)
    subscription.fifo = group is not None and group.consume_message_orderly
    found.backoff_policy.CopyFrom(retry_policy(group or GroupConfig("")))


def retry_policy(group: GroupConfig) -> RetryPolicy:
    """Return the number of deliveries of a group's messages, and the times between them."""
    found = RetryPolicy(max_attempts=max(group.retry_max_times, 0) + 1)
    if group.retry_policy.get("type") == "EXPONENTIAL":
        given: dict[str, Any] = group.retry_policy.get("exponentialRetryPolicy") or {}
        policy = {name: value if given.get(name) is None else given[name] for name, value in _EXPONENTIAL.items()}
        set_ms(found.exponential_backoff.initial, policy["initial"])
        set_ms(found.exponential_backoff.max, policy["max"])
        found.exponential_backoff.multiplier = float(policy["multiplier"])
        return found
    steps = (group.retry_policy.get("customizedRetryPolicy") or {}).get("next") or ()
    for milliseconds in steps or (1000 * each for each in _CUSTOMIZED_S):
        step = Duration()
        set_ms(step, milliseconds)
        found.customized_backoff.next.append(step)
    return found
