"""Warning about delays longer than the log's retention: a message may be deleted before it is due, as in Java."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from gantrymq.config import Settings
from gantrymq_schedule.timer import settings as timers

__all__ = ["warn_of_retention"]

log = logging.getLogger(__name__)

RESERVED_H = "fileReservedTime"  # declared by a store that deletes old files


def warn_of_retention(settings: Settings, delays_ms: Sequence[int]) -> None:
    """Log one warning if the longest accepted delay exceeds the retention. *delays_ms*: delays of the levels."""
    if RESERVED_H not in settings.schema:
        return
    delays_s = {"messageDelayLevel": max(delays_ms, default=0) / 1000}
    if settings.flag(timers.ENABLED):
        delays_s[timers.LONGEST_S] = settings.number(timers.LONGEST_S)
    key = max(delays_s, key=lambda each: delays_s[each])
    hours = settings.number(RESERVED_H)
    if delays_s[key] > hours * 3600:
        log.warning(
            "%s allows delays of %d hours and %s=%d removes messages after %d hours, even if they still wait; set "
            "%s to %d or more",
            *(key, -(-delays_s[key] // 3600), RESERVED_H, hours, hours, RESERVED_H, -(-delays_s[key] // 3600)),
        )
