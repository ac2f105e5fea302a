"""Settings of lite topics, under RocketMQ's key names and with its defaults.

RocketMQ's keys without effect here (``enableLiteEventMode``, ``liteEventCheckInterval``, ``maxClientEventCount`` and
others) are accepted and listed at start, like all such keys.

Source: apache/rocketmq common/.../BrokerConfig.java.
"""

from __future__ import annotations

from typing import Final

from gantrymq.plugin.settings import Setting

SCHEMA: Final = (
    Setting.number(
        "maxLiteSubscriptionCount",
        100_000,
        "Maximum number of subscriptions of lite topics, over all clients; further ones are refused.",
        at_least=0,
        runtime=True,
    ),
    Setting.number(
        "liteSubscriptionCheckInterval",
        120_000,
        "Milliseconds between searches for clients whose subscriptions of lite topics are out of date.",
        at_least=1000,
        runtime=True,
    ),
    Setting.number(
        "liteSubscriptionCheckTimeoutMills",
        180_000,
        "The subscriptions of a client that sends no request about lite topics for this long, ms, are removed.",
        at_least=1000,
        runtime=True,
    ),
    Setting.number(
        "liteTtlCheckInterval",
        120_000,
        "Milliseconds between searches for lite topics that are unused for longer than lite.topic.expiration.",
        at_least=1000,
        runtime=True,
    ),
    Setting.number(
        "minLiteTTl",
        900_000,
        "No lite topic expires before this time without a message, ms, nor in this time after the broker's start.",
        at_least=0,
        runtime=True,
    ),
)
