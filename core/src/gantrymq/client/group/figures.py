"""How many messages of each topic were consumed lately, and how long that took.

Source: apache/rocketmq client/.../stat/ConsumerStatsManager.java (consumeStatus).
"""

from __future__ import annotations

from typing import Final

import attrs

__all__ = ["Figures"]

_MINUTE_S: Final = 60.0
_HOUR_MINUTES: Final = 60


@attrs.define
class _Minute:
    done: int = 0
    failed: int = 0
    spent_s: float = 0.0


class Figures:
    """Counted by minutes, of which the last hour is kept."""

    def __init__(self) -> None:
        self._minutes: dict[str, dict[int, _Minute]] = {}
        self._last: tuple[str, int, _Minute] = ("", -1, _Minute())

    def count(self, topic: str, now_s: float, spent_s: float, done: int, failed: int) -> None:
        """Messages of *topic* were done or failed at *now_s*, after *spent_s* seconds in hand."""
        number = int(now_s // _MINUTE_S)
        last_topic, last_number, minute = self._last
        if number != last_number or topic != last_topic:
            minute = self._minute(topic, number)
            self._last = (topic, number, minute)
        minute.done += done
        minute.failed += failed
        minute.spent_s += spent_s * (done + failed)

    def _minute(self, topic: str, number: int) -> _Minute:
        minutes = self._minutes.setdefault(topic, {})
        minute = minutes.get(number)
        if minute is None:
            minute = minutes[number] = _Minute()
            while len(minutes) > _HOUR_MINUTES:
                del minutes[next(iter(minutes))]
        return minute

    def of(self, topic: str, now_s: float) -> dict[str, float]:
        """RocketMQ's status of a topic: of the last full minute, per second and in ms; failures of an hour."""
        minutes = self._minutes.get(topic, {})
        last = minutes.get(int(now_s // _MINUTE_S) - 1, _Minute())
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
