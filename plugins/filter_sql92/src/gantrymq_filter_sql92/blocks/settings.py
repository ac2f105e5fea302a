"""Settings of the block filters; they are GantryMQ's own."""

from __future__ import annotations

from typing import Final

from gantrymq.plugin.settings import Setting
from gantrymq_filter_sql92.blocks.block_filters import BLOCK_ENTRIES

__all__ = ["BYTES", "SCHEMA", "VALUES"]

BYTES: Final = "sql92BlockFilterBytes"
VALUES: Final = "sql92BlockFilterValues"

SCHEMA: Final = (
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
