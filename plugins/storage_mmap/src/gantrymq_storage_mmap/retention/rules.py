"""Retention rules: which files to delete and when to refuse writes. Pure decisions, no I/O.

    condition                                           deletes                  writes
    local hour in deleteWhen, or operator's request     by age                   accepted
    disk above diskMaxUsedSpaceRatio                    by age, at any hour      accepted
    disk above diskSpaceCleanForciblyRatio              the oldest, any age      accepted
    next log file would exceed minFreeDiskBytes
    or storeQuotaBytes                                  the oldest, any age      accepted
    disk above diskSpaceWarningLevelRatio, or below
    minFreeDiskBytes, or store above storeQuotaBytes    the oldest, any age      refused

"By age" means that a file was not written for fileReservedTime. "Any age" requires cleanFileForciblyEnable and deletes
no more files than needed. The newest file always stays. minFreeDiskBytes and storeQuotaBytes are GantryMQ's own.

Source: apache/rocketmq store/.../DefaultMessageStore.java (CleanCommitLogService), common/.../UtilAll.java
(getDiskPartitionSpaceUsedPercent, isItTimeToDo), store/.../MappedFileQueue.java (deleteExpiredFileByTime).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

import attrs

from gantrymq.plugin.interfaces import PutStatus
from gantrymq.plugin.world import DiskUsage
from gantrymq_storage_mmap.log.writer import RESUME

_NEAR_PERCENT = 2  # distance to a limit from which the disk is checked every second
_NEAR_FILES = 2
HOUR_MS = 3_600_000


@attrs.frozen
class RetentionSettings:
    """The settings that decide; ratios are whole percents, 0 bytes mean no limit."""

    reserved_ms: int  # fileReservedTime
    delete_hours: frozenset[int]  # deleteWhen, local hours
    batch_max: int  # deleteFileBatchMax
    max_used_percent: int  # diskMaxUsedSpaceRatio
    forced_percent: int  # diskSpaceCleanForciblyRatio
    warning_percent: int  # diskSpaceWarningLevelRatio
    forced: bool  # cleanFileForciblyEnable
    min_free_bytes: int  # minFreeDiskBytes
    quota_bytes: int  # storeQuotaBytes
    log_file_bytes: int


@attrs.frozen
class DiskState:
    """Result of one check of the disk."""

    log_folder: Path
    root: Path
    log_disk: DiskUsage
    queue_disk: DiskUsage  # the file system of the store's root
    store_bytes: int  # size of log, queues and index; 0 without a quota


Cause = Literal[
    "not_running",
    "truncating",
    "sync_failed",
    "log_write_failed",
    "queue_write_failed",
    "no_room",
    "disk_ratio",
    "queue_disk_ratio",
    "free_bytes",
    "store_quota",
]
FULL: Final = frozenset[Cause]({"no_room", "disk_ratio", "queue_disk_ratio", "free_bytes", "store_quota"})


class Refusal(NamedTuple):
    """Why writes are refused."""

    cause: Cause  # short name, for metrics and other languages
    sentence: str
    values: Mapping[str, str | int] = MappingProxyType({})  # in the sentence

    @property
    def status(self) -> PutStatus:
        """Status of messages that are refused."""
        return PutStatus.DISK_FULL if self.cause in FULL else PutStatus.SERVICE_NOT_AVAILABLE

    def details(self) -> dict[str, str]:
        """Return the members of `StoreState.details`."""
        values = {"storeRefusalValues": json.dumps(self.values)} if self.values else {}
        return {"storeRefusalCause": self.cause, **values}


class DeletionPlan(NamedTuple):
    """What to delete now."""

    files: int  # number of log files, oldest first
    reason: str  # for the operator


def used_percent(disk: DiskUsage) -> float:
    """Return the used share of a disk, relative to what this process could use in total."""
    return 100 * disk.used_share


def refusal_for(settings: RetentionSettings, disks: DiskState) -> Refusal | None:
    """Return why writes must be refused, None if there is enough space."""
    ratios: tuple[tuple[Cause, Path, DiskUsage], ...] = (
        ("disk_ratio", disks.log_folder, disks.log_disk),
        ("queue_disk_ratio", disks.root, disks.queue_disk),
    )
    for cause, folder, disk in ratios:
        percent = used_percent(disk)
        if percent > settings.warning_percent:
            return Refusal(
                cause,
                f"the disk of {folder} is {percent:.1f} percent full, diskSpaceWarningLevelRatio="
                f"{settings.warning_percent} is the limit; free space, keep less with fileReservedTime, or raise the "
                f"ratio{RESUME}",
                {"folder": str(folder), "percent": f"{percent:.1f}", "limit": settings.warning_percent},
            )
    usable = disks.log_disk.usable
    if usable < settings.min_free_bytes:
        return Refusal(
            "free_bytes",
            f"the disk of {disks.log_folder} has {usable} bytes free, minFreeDiskBytes={settings.min_free_bytes} is "
            f"the minimum; free space, keep less with fileReservedTime, or lower minFreeDiskBytes{RESUME}",
            {"folder": str(disks.log_folder), "free": usable, "minimum": settings.min_free_bytes},
        )
    if 0 < settings.quota_bytes < disks.store_bytes:
        return Refusal(
            "store_quota",
            f"the store {disks.root} takes {disks.store_bytes} bytes, storeQuotaBytes={settings.quota_bytes} is the "
            f"limit; keep less with fileReservedTime, or raise storeQuotaBytes{RESUME}",
            {"folder": str(disks.root), "taken": disks.store_bytes, "limit": settings.quota_bytes},
        )
    return None


def is_near(settings: RetentionSettings, disks: DiskState) -> bool:
    """Return whether a limit may be reached soon."""
    if any(used_percent(disk) > settings.forced_percent - _NEAR_PERCENT for disk in (disks.log_disk, disks.queue_disk)):
        return True
    ahead = _NEAR_FILES * settings.log_file_bytes
    if settings.min_free_bytes and disks.log_disk.usable < settings.min_free_bytes + ahead:
        return True
    return 0 < settings.quota_bytes < disks.store_bytes + ahead


def forced_bytes(settings: RetentionSettings, disks: DiskState) -> int:
    """Return how many bytes must be deleted regardless of age; 0 if only age decides."""
    if not settings.forced:
        return 0
    missing = [0]
    for disk in (disks.log_disk, disks.queue_disk):
        used = disk.total - disk.free
        missing.append(used - (used + disk.usable) * settings.forced_percent // 100)
    if settings.min_free_bytes:
        missing.append(settings.min_free_bytes + settings.log_file_bytes - disks.log_disk.usable)
    if settings.quota_bytes:
        missing.append(disks.store_bytes + settings.log_file_bytes - settings.quota_bytes)
    return max(missing)


def plan_deletion(
    settings: RetentionSettings,
    most: int,
    disks: DiskState,
    modified_ms: Sequence[int],
    now_ms: int,
    utc_offset_ms: int,
    *,
    manual: bool,
) -> DeletionPlan:
    """Decide which log files to delete now.

    Args:
        settings: of retention, as they are now.
        most: maximum number of files.
        disks: newest check of the disks.
        modified_ms: time of the last write to each file that may be deleted, oldest file first.
        now_ms: wall time.
        utc_offset_ms: local time minus UTC.
        manual: requested by an operator: any hour, but only by age.
    """
    most = min(most, len(modified_ms))
    if needed := forced_bytes(settings, disks):
        files = min(-(-needed // settings.log_file_bytes), most)
        if files:
            return DeletionPlan(files, f"{needed} bytes have to be freed")
    by_age = 0
    while by_age < most and modified_ms[by_age] + settings.reserved_ms < now_ms:
        by_age += 1
    if not by_age:
        return DeletionPlan(0, "")
    if manual:
        return DeletionPlan(by_age, "an operator asked for it")
    hour = (now_ms + utc_offset_ms) // HOUR_MS % 24
    if hour in settings.delete_hours:
        return DeletionPlan(by_age, f"it is {hour} o'clock (deleteWhen)")
    fullest = max(used_percent(disks.log_disk), used_percent(disks.queue_disk))
    if fullest > settings.max_used_percent:
        return DeletionPlan(
            by_age, f"the disk is {fullest:.1f} percent full (diskMaxUsedSpaceRatio={settings.max_used_percent})"
        )
    return DeletionPlan(0, "")
