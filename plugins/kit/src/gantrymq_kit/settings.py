"""Settings of custom filters, that is of other types than TAG and SQL92."""

from __future__ import annotations

from typing import Final

from gantrymq.plugin.settings import Setting

BUDGET: Final = "customFilterBudgetMs"
STUCK: Final = "customFilterStuckMs"
PAUSE: Final = "customFilterPauseMs"

SCHEMA: Final = (
    Setting.number(
        BUDGET,
        10,
        "ms that custom filters may use in one turn of the event loop before pulls end early; a call that takes twice "
        "as long counts as slow.",
        at_least=1,
        at_most=1000,
    ),
    Setting.number(
        STUCK,
        1000,
        "ms after which a running call of a custom filter is logged; its group is suspended when it returns.",
        at_least=10,
        at_most=3_600_000,
    ),
    Setting.number(
        PAUSE,
        30_000,
        "ms for which a failed custom filter is suspended; doubled at each further failure, up to 10 minutes.",
        at_least=1,
        at_most=600_000,
    ),
)
