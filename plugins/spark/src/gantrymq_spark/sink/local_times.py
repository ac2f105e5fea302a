"""Converts local times (``timestamp_ntz``) to timestamps by the rules of Spark's cast to ``timestamp``.

A local time skipped by a clock change is moved forward by the gap; of a repeated local time the first is taken.

Source: apache/spark sql/api/.../util/SparkDateTimeUtils.scala (getZoneId), java.time.ZoneId.of, LocalDateTime.atZone.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

from gantrymq.errors import ConfigError

SESSION_ZONE = "spark.sql.session.timeZone"
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2}))?(?::?(\d{2}))?", re.ASCII)
_EPOCH = datetime(1970, 1, 1)


def session_zone(text: str | None) -> tzinfo:
    """Return the time zone of a session's setting.

    Args:
        text: a zone (``Asia/Shanghai``) or an offset (``+08:00``, ``GMT+8``); None if the setting was never set.

    Raises:
        ConfigError: it is not set, or this machine does not know the zone.
    """
    remedy = "cast the column to timestamp"
    if text is None:
        raise ConfigError(
            f"deliverTime is a timestamp_ntz, which has no time zone, and {SESSION_ZONE} is not set; "
            f"set it, or {remedy}"
        )
    if text in ("Z", "UTC", "GMT", "UT"):
        return UTC
    offset = _OFFSET.fullmatch(text)
    try:
        if offset is None:
            return ZoneInfo(text)
        hours, minutes, seconds = (int(part or 0) for part in offset.groups()[1:])
        size = timedelta(hours=hours, minutes=minutes, seconds=seconds)
        return timezone(-size if offset[1] == "-" else size)
    except (ValueError, OSError, LookupError):
        raise ConfigError(
            f"deliverTime is a timestamp_ntz, which has no time zone, and {SESSION_ZONE} is {text!r}, which this "
            f"machine does not know; {remedy}"
        ) from None


def epoch_ms(local_ms: int, zone: tzinfo) -> int:
    """Convert a local time to milliseconds since 1970.

    Args:
        local_ms: ms from 1970-01-01T00:00 to it, without a zone.
        zone: time zone of the local time.

    Raises:
        ConfigError: the time is outside the years 1 to 9999.
    """
    try:
        local = (_EPOCH + timedelta(milliseconds=local_ms)).replace(tzinfo=zone)
        return (local - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    except OverflowError:
        raise ConfigError("deliverTime is outside the years 1 to 9999") from None
