"""Settings of delay levels, under RocketMQ's keys.

``messageDelayLevel`` is declared by the store, because the tags codes of its queue entries depend on it.

Source: apache/rocketmq store/.../config/MessageStoreConfig.java.
"""

from __future__ import annotations

from gantrymq.plugin.settings import Setting

FLUSH_INTERVAL = "flushDelayOffsetInterval"

SCHEMA: tuple[Setting, ...] = (
    Setting.number(
        FLUSH_INTERVAL,
        10_000,
        "Interval in milliseconds at which the offsets of the delay levels are saved (config/delayOffset.json).",
        at_least=100,
    ),
)
