"""Settings of the bit map, with RocketMQ's key names and defaults, and of the block filters, which are GantryMQ's own.

``enableConsumeQueueExt`` belongs to the store: bits need ext files.

Source: apache/rocketmq common/.../BrokerConfig.java, store/.../config/MessageStoreConfig.java.
"""

from __future__ import annotations

from typing import Final

from gantrymq.plugin.settings import Setting

BIT_MAP_SCHEMA: Final = (
    Setting(
        "enableCalcFilterBitMap",
        "flag",
        False,
        "Give each new message the bits of the groups whose SQL92 expression it matches; needs enableConsumeQueueExt.",
        runtime=True,
    ),
    Setting(
        "expectConsumerNumUseFilter",
        "number",
        32,
        "Groups that filter one topic by SQL92; more of them make the bits err more often.",
        at_least=1,
        at_most=20_000,
        runtime=True,
    ),
    Setting(
        "maxErrorRateOfBloomFilter",
        "number",
        20,
        "Accepted false positives of the bits, percent.",
        at_least=1,
        at_most=99,
        runtime=True,
    ),
    Setting(
        "bitMapLengthConsumeQueueExt",
        "number",
        64,
        "Bits of a message's map; the broker sets it to what the two settings above make, as RocketMQ does.",
        at_least=0,
        runtime=True,
    ),
    Setting(
        "filterDataCleanTimeSpan",
        "number",
        86_400_000,
        "Forget what a group filtered by after its last member is gone for so long, ms.",
        at_least=0,
        runtime=True,
    ),
    Setting(
        "filterSupportRetry",
        "flag",
        False,
        "Filter retries that are subscribed to by SQL92 by what the group filters the first topic by.",
        runtime=True,
    ),
)
BYTES: Final = "sql92BlockFilterBytes"
VALUES: Final = "sql92BlockFilterValues"
BLOCK_ENTRIES: Final = 1024
BLOCKS_SCHEMA: Final = (
    Setting.number(
        BYTES,
        32 * 1024**2,
        "Maximum memory of block filters, which let SQL92 pulls skip messages; 0 switches them off (GantryMQ's own).",
        at_least=0,
        runtime=True,
    ),
    Setting.number(
        VALUES,
        64,
        f"Maximum number of values of a property in a block of {BLOCK_ENTRIES:,} messages; with more, it gets no "
        "filter (GantryMQ's own).",
        at_least=1,
        at_most=BLOCK_ENTRIES,
        runtime=True,
    ),
)
