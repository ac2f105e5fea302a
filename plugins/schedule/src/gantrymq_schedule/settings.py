"""Settings of delay levels and timed messages, under RocketMQ's keys.

``messageDelayLevel`` is declared by the store, because the tags codes of its queue entries depend on it.

Source: apache/rocketmq store/.../config/MessageStoreConfig.java, common/.../BrokerConfig.java.
"""

from __future__ import annotations

from gantrymq.plugin.settings import Setting, Settings
from gantrymq_store_files.timer_log import ENTRY_BYTES

FLUSH_INTERVAL = "flushDelayOffsetInterval"
LEVEL_SCHEMA: tuple[Setting, ...] = (
    Setting.number(
        FLUSH_INTERVAL,
        10_000,
        "Interval in milliseconds at which the offsets of the delay levels are saved (config/delayOffset.json).",
        at_least=100,
    ),
)
ENABLED = "timerWheelEnable"
LONGEST_S = "timerMaxDelaySec"
_PRECISION = "timerPrecisionMs"
WINDOW = "timerRollWindowSlot"
FLUSH_MS = "timerFlushIntervalMs"
FILE_BYTES = "mappedFileSizeTimerLog"
MOST_IN_SLOT = "timerCongestNumEachSlot"
RECALL = "recallMessageEnable"
NO_LIMIT = 2**31 - 1  # of `MOST_IN_SLOT`
PRECISIONS = (100, 200, 500, 1000)  # other values are rounded down to one of these, as in a Java broker


def precision(settings: Settings) -> int:
    """Return the length of a tick in milliseconds."""
    request = settings.number(_PRECISION)
    return max(each for each in PRECISIONS if each <= max(request, PRECISIONS[0]))


TIMER_SCHEMA: tuple[Setting, ...] = (
    Setting.flag(ENABLED, True, "Accept messages with an arbitrary delay or delivery time; false refuses them."),
    Setting.number(
        LONGEST_S,
        3 * 24 * 3600,
        "Longest delay in seconds; a message with a longer one is refused.",
        at_least=1,
        at_most=10 * 365 * 24 * 3600,
        runtime=True,
    ),
    Setting.number(
        _PRECISION,
        1000,
        "Slot length of the wheel in milliseconds: 100, 200, 500 or 1000. It may not change while timed messages wait.",
        at_least=1,
    ),
    Setting.number(
        WINDOW,
        2 * 24 * 3600,
        "Maximum number of slots that a message is enqueued ahead; a longer wait is split into several rounds.",
    ),
    Setting.number(
        FLUSH_MS,
        1000,
        "Interval in milliseconds at which changes of wheel, timer log and checkpoint are saved.",
        at_least=10,
    ),
    Setting.number(
        FILE_BYTES,
        100 * 1024 * 1024,
        "Size of a timer log file in bytes; it may not change on a store that has one.",
        at_least=ENTRY_BYTES + 16,
        at_most=2**31 - 1,
    ),
    Setting.number(
        MOST_IN_SLOT,
        NO_LIMIT,
        "Messages of one slot above which new ones are refused: some above this number, all above twice as many.",
        at_least=1,
        runtime=True,
    ),
    Setting.flag(RECALL, False, "Allow producers to recall a waiting timed message (request 370).", runtime=True),
)
