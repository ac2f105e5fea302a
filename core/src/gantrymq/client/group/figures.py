"""How many messages of each topic were consumed lately, and how long that took.

Source: apache/rocketmq client/.../stat/ConsumerStatsManager.java (consumeStatus).
"""

from __future__ import annotations

from typing import Final

import attrs

__all__ = ["Figures", "Minute"]

_MINUTE_S: Final = 60.0
_HOUR_MINUTES: Final = 60


@attrs.define
class Minute:
    """What became of messages of one topic in one minute; whoever counts adds to it until it ends."""

    ends_s: float = 0.0
    done: int = 0
    failed: int = 0
    spent_s: float = 0.0  # in hand, of all of them


class Figures:
    """Counted by minutes, of which the last hour is kept."""

    def __init__(self) -> None:
        self._minutes: dict[str, dict[int, Minute]] = {}

    def minute(self, topic: str, now_s: float) -> Minute:
        """Where messages of *topic* that are finished at *now_s* are counted."""
        number = int(now_s // _MINUTE_S)
        minutes = self._minutes.setdefault(topic, {})
        minute = minutes.get(number)
        if minute is None:
            minute = minutes[number] = Minute((number + 1) * _MINUTE_S)
            while len(minutes) > _HOUR_MINUTES:
                del minutes[next(iter(minutes))]
        return minute

    def of(self, topic: str, now_s: float) -> dict[str, float]:
        """RocketMQ's status of a topic: of the last full minute, per second and in ms; failures of an hour."""
        minutes = self._minutes.get(topic, {})
        last = minutes.get(int(now_s // _MINUTE_S) - 1, Minute())
        handled = last.done + last.failed
        since = int(now_s // _MINUTE_S) - _HOUR_MINUTES
        return {
            "consumeFailedMsgs": sum(minute.failed for at, minute in minutes.items() if at > since),
            "consumeFailedTPS": last.failed / _MINUTE_S,
            "consumeOKTPS": last.done / _MINUTE_S,
            "consumeRT": last.spent_s * 1000 / handled if handled else 0.0,
            "pullRT": 0.0,
            "pullTPS": handled / _MINUTE_S,
        }
