"""What an operator may set of delayed messages, under RocketMQ's key names.

``messageDelayLevel`` is the store's: the tags codes of its queue entries depend on it.

Source: apache/rocketmq store/.../config/MessageStoreConfig.java.
"""

from __future__ import annotations

from gantrymq.config import Setting

__all__ = ["FLUSH_INTERVAL", "SCHEMA"]

FLUSH_INTERVAL = "flushDelayOffsetInterval"

SCHEMA: tuple[Setting, ...] = (
    Setting(
        FLUSH_INTERVAL,
        "number",
        10_000,
        "Milliseconds between two savings of the progress of the delay levels (config/delayOffset.json).",
        at_least=100,
    ),
)
