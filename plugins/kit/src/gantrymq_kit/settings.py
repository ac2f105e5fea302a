"""How long filters of other types than TAG and SQL92 may take."""

from __future__ import annotations

from typing import Final

from gantrymq.config import Setting

__all__ = ["BUDGET", "PAUSE", "SCHEMA", "STUCK"]

BUDGET: Final = "customFilterBudgetMs"
STUCK: Final = "customFilterStuckMs"
PAUSE: Final = "customFilterPauseMs"

SCHEMA: Final = (
    Setting(
        BUDGET,
        "number",
        10,
        "ms that custom filters have in one turn of the event loop before pulls end early; a call that takes twice as "
        "long counts as slow.",
        at_least=1,
        at_most=1000,
    ),
    Setting(
        STUCK,
        "number",
        1000,
        "ms after which one call of a custom filter is named in the log; its group is suspended when it returns.",
        at_least=10,
        at_most=3_600_000,
    ),
    Setting(
        PAUSE,
        "number",
        30_000,
        "ms for which a custom filter that failed is suspended; doubled each time that it fails again, up to 10 min.",
        at_least=1,
        at_most=600_000,
    ),
)
