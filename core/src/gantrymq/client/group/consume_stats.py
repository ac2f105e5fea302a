"""Consume statistics: messages consumed per topic and minute, and their processing time.

Source: apache/rocketmq client/.../stat/ConsumerStatsManager.java (consumeStatus).
"""

from __future__ import annotations

from typing import Final

import attrs

_MINUTE_S: Final = 60.0
_HOUR_MINUTES: Final = 60


@attrs.define
class StatsWindow:
    """Counters of one topic for one minute; `InFlight` adds to them until the window ends."""

    ends_s: float = 0.0
    done: int = 0
    failed: int = 0
    spent_s: float = 0.0  # processing time, summed over all messages


class ConsumeStats:
    """Windows of one minute for each topic; the last hour is kept."""

    def __init__(self) -> None:
        self._windows: dict[str, dict[int, StatsWindow]] = {}

    def window(self, topic: str, now_s: float) -> StatsWindow:
        """Return the window for messages of *topic* that finish at *now_s*."""
        number = int(now_s // _MINUTE_S)
        windows = self._windows.setdefault(topic, {})
        window = windows.get(number)
        if window is None:
            window = windows[number] = StatsWindow((number + 1) * _MINUTE_S)
            while len(windows) > _HOUR_MINUTES:
                del windows[next(iter(windows))]
        return window

    def topic_status(self, topic: str, now_s: float) -> dict[str, float]:
        """Return RocketMQ's consume status of *topic*.

        Rates per second and times in ms are those of the last full minute; failures are counted over one hour.
        """
        windows = self._windows.get(topic, {})
        last = windows.get(int(now_s // _MINUTE_S) - 1, StatsWindow())
        handled = last.done + last.failed
        since = int(now_s // _MINUTE_S) - _HOUR_MINUTES
        return {
            "consumeFailedMsgs": sum(window.failed for at, window in windows.items() if at > since),
            "consumeFailedTPS": last.failed / _MINUTE_S,
            "consumeOKTPS": last.done / _MINUTE_S,
            "consumeRT": last.spent_s * 1000 / handled if handled else 0.0,
            "pullRT": 0.0,
            "pullTPS": handled / _MINUTE_S,
        }
