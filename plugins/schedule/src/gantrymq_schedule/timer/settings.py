"""What an operator may set of timed messages, under RocketMQ's key names.

Source: apache/rocketmq store/.../config/MessageStoreConfig.java, common/.../BrokerConfig.java.
"""

from __future__ import annotations

from gantrymq.config import Setting, Settings
from gantrymq_store_files.timer_log import ENTRY_BYTES

__all__ = [
    "ENABLED",
    "FILE_BYTES",
    "FLUSH_MS",
    "LONGEST_S",
    "MOST_IN_SLOT",
    "NO_LIMIT",
    "PRECISIONS",
    "RECALL",
    "SCHEMA",
    "WINDOW",
    "precision",
]

ENABLED = "timerWheelEnable"
LONGEST_S = "timerMaxDelaySec"
PRECISION = "timerPrecisionMs"
WINDOW = "timerRollWindowSlot"
FLUSH_MS = "timerFlushIntervalMs"
FILE_BYTES = "mappedFileSizeTimerLog"
MOST_IN_SLOT = "timerCongestNumEachSlot"
RECALL = "recallMessageEnable"
NO_LIMIT = 2**31 - 1  # of `MOST_IN_SLOT`

PRECISIONS = (100, 200, 500, 1000)  # a value between two means the smaller one, as in a Java broker


def precision(settings: Settings) -> int:
    """Milliseconds of a tick."""
    asked = settings.number(PRECISION)
    return max(each for each in PRECISIONS if each <= max(asked, PRECISIONS[0]))


SCHEMA: tuple[Setting, ...] = (
    Setting(
        ENABLED,
        "flag",
        True,
        "Take messages with a delay or a time of their own; false refuses them.",
    ),
    Setting(
        LONGEST_S,
        "number",
        3 * 24 * 3600,
        "Longest delay in seconds; a message that asks for a longer one is refused.",
        at_least=1,
        at_most=10 * 365 * 24 * 3600,
        runtime=True,
    ),
    Setting(
        PRECISION,
        "number",
        1000,
        "Milliseconds of a slot of the wheel: 100, 200, 500 or 1000. It may not change once timed messages wait.",
        at_least=1,
    ),
    Setting(
        WINDOW,
        "number",
        2 * 24 * 3600,
        "Slots that a message is put ahead at most; what waits longer goes round again.",
    ),
    Setting(
        FLUSH_MS,
        "number",
        1000,
        "Milliseconds between two savings of wheel, timer log and progress, while something changes.",
        at_least=10,
    ),
    Setting(
        FILE_BYTES,
        "number",
        100 * 1024 * 1024,
        "Bytes of one file of the timer log; it may not change on a store that has one.",
        at_least=ENTRY_BYTES + 16,
        at_most=2**31 - 1,
    ),
    Setting(
        MOST_IN_SLOT,
        "number",
        NO_LIMIT,
        "Messages of one slot from which on new ones are refused: some above it, all above twice as many.",
        at_least=1,
        runtime=True,
    ),
    Setting(
        RECALL,
        "flag",
        False,
        "Let producers take back a timed message that waits (request 370).",
        runtime=True,
    ),
)
