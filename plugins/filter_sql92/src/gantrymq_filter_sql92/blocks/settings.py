"""Settings of block filters, which RocketMQ does not have."""

from __future__ import annotations

from typing import Final

from gantrymq.config import Setting

__all__ = ["ENABLED", "ENTRIES", "ERROR_PERCENT", "SCHEMA"]

ENABLED: Final = "filterBlocksEnable"
ENTRIES: Final = "filterBlockEntries"
ERROR_PERCENT: Final = "filterBlockErrorRate"

SCHEMA: Final = (
    Setting(
        ENABLED,
        "flag",
        True,
        "Keep Bloom filters of what SQL92 subscriptions compare with =, and skip stretches of a queue by them, unread.",
        runtime=True,
    ),
    Setting(
        ENTRIES,
        "number",
        1024,
        "Messages of a queue that one block filter is about; filters of another size are made anew.",
        at_least=64,
        at_most=65_536,
    ),
    Setting(
        ERROR_PERCENT,
        "number",
        1,
        "Accepted false positives of block filters, percent.",
        at_least=1,
        at_most=50,
        runtime=True,
    ),
)
