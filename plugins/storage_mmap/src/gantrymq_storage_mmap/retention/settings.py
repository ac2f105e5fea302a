"""Settings of retention; every key may be changed while the broker runs.

``destroyMapedFileIntervalForcibly`` and ``redeleteHangedFileInterval`` are not needed: a file that is still being read
is unlinked like any other, and its space is freed when the last reader closes it.

Source: apache/rocketmq store/.../config/MessageStoreConfig.java.
"""

from __future__ import annotations

from collections.abc import Callable

from gantrymq.errors import ConfigError
from gantrymq.plugin.settings import Setting, Settings, Value
from gantrymq_storage_mmap.retention.rules import HOUR_MS, RetentionSettings

_LEAST_QUOTA_FILES = 3  # the current one, the next one, and one to delete


def hours_of(text: str) -> frozenset[int]:
    """Parse local hours such as ``04`` or ``04;16``.

    Raises:
        ConfigError: *text* is not a list of hours.
    """
    hours = set()
    for piece in text.split(";"):
        word = piece.strip()
        if not (word.isascii() and word.isdecimal() and int(word) < 24):
            raise ConfigError(f"{piece!r} is not an hour from 00 to 23; several are separated by ;")
        hours.add(int(word))
    return frozenset(hours)


def problem_of(parse: Callable[[str], object]) -> Callable[[Value], str | None]:
    """Return a check for a setting that returns the message of the ConfigError that *parse* raises, or None."""

    def check(value: Value) -> str | None:
        try:
            parse(str(value))
        except ConfigError as problem:
            return str(problem)
        return None

    return check


def _number(key: str, default: int, text: str, *, at_least: int = 0, at_most: int | None = None) -> Setting:
    return Setting.number(key, default, text, at_least=at_least, at_most=at_most, runtime=True)


def _percent(key: str, default: int, text: str) -> Setting:
    return _number(key, default, text, at_least=1, at_most=100)


RETENTION: tuple[Setting, ...] = (
    # With 0, every message that is not in the newest file may be deleted at once: not by a slip in one request.
    Setting.number(
        "fileReservedTime",
        72,
        "A log file may be deleted when it was not written for this time, hours; at least 1 if changed at runtime.",
        at_least=0,
        runtime=True,
        running_at_least=1,
    ),
    Setting.text(
        "deleteWhen",
        "04",
        "Local hours in which expired log files are deleted, 00 to 23, separated by ;.",
        not_built=problem_of(hours_of),
        runtime=True,
    ),
    _number("cleanResourceInterval", 10_000, "Pause between two cleanings, ms.", at_least=1),
    _number("deleteFileBatchMax", 10, "Maximum number of log files per cleaning.", at_least=1),
    _number("deleteCommitLogFilesInterval", 100, "Pause between two deletions of log files, ms."),
    _number("deleteConsumeQueueFilesInterval", 100, "Pause between two deletions of queue files, ms."),
    _percent("diskMaxUsedSpaceRatio", 75, "Above this percentage of the disk, expired files are deleted at any hour."),
    _percent(
        "diskSpaceCleanForciblyRatio", 85, "Above this percentage of the disk, the oldest files are deleted at any age."
    ),
    _percent("diskSpaceWarningLevelRatio", 90, "Above this percentage of the disk, writes are refused."),
    Setting.flag(
        "cleanFileForciblyEnable",
        True,
        "Whether files may be deleted before they expire when disk space is short.",
        runtime=True,
    ),
    _number("minFreeDiskBytes", 0, "Writes are refused with less than this free on the disk, bytes (GantryMQ's own)."),
    _number(
        "storeQuotaBytes",
        0,
        "Maximum size of log, queues and index, bytes; 0 for no limit (GantryMQ's own).",
    ),
)


def read_retention(settings: Settings) -> RetentionSettings:
    """Return the present settings of retention."""
    number = settings.number
    return RetentionSettings(
        reserved_ms=number("fileReservedTime") * HOUR_MS,
        delete_hours=hours_of(settings.text("deleteWhen")),
        batch_max=number("deleteFileBatchMax"),
        max_used_percent=number("diskMaxUsedSpaceRatio"),
        forced_percent=number("diskSpaceCleanForciblyRatio"),
        warning_percent=number("diskSpaceWarningLevelRatio"),
        forced=settings.flag("cleanFileForciblyEnable"),
        min_free_bytes=number("minFreeDiskBytes"),
        quota_bytes=number("storeQuotaBytes"),
        log_file_bytes=number("mappedFileSizeCommitLog"),
    )


def check_quota(retention: RetentionSettings) -> None:
    """Check that the quota is large enough to work.

    Raises:
        ConfigError: it is not; the message says what is.
    """
    least = _LEAST_QUOTA_FILES * retention.log_file_bytes
    if 0 < retention.quota_bytes < least:
        raise ConfigError(
            f"storeQuotaBytes={retention.quota_bytes} is less than {_LEAST_QUOTA_FILES} log files take; set it to "
            f"{least} or more, or make mappedFileSizeCommitLog={retention.log_file_bytes} smaller"
        )
