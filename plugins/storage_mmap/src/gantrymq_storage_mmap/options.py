"""The settings that this store obeys, read once and typed. Those that may change meanwhile are read where they act."""

from __future__ import annotations

import os
from pathlib import Path

import attrs

from gantrymq.config import Settings
from gantrymq.errors import ConfigError
from gantrymq.formats.index import IndexLayout
from gantrymq.formats.queue_entry import ENTRY_BYTES
from gantrymq.formats.tags_code import parse_delay_levels

__all__ = ["Options", "read_options"]

_PAGE_BYTES = 4096  # what RocketMQ calls a page, on every platform
_ASSUMED_MEMORY_BYTES = 4 * 1024**3  # where the system does not say how much it has


@attrs.frozen
class Options:
    """Sizes in bytes, times in ms."""

    root: Path
    log_folder: Path
    log_file_bytes: int
    queue_file_bytes: int
    batch_file_bytes: int
    ext_file_bytes: int
    ext_units: bool  # new messages get units in ext files
    light_queues: bool  # messages may name light queues
    max_light_queues: int
    queue_flush_interval_ms: int
    queue_flush_thorough_ms: int
    scan_bytes: int  # queue bytes one get may examine
    memory_limit_bytes: int  # most bytes and messages of one get, by where the data lies
    memory_limit_count: int
    disk_limit_bytes: int
    disk_limit_count: int
    memory_window_bytes: int  # from the log's end; further back counts as on disk
    hot_window_bytes: int  # from the log's end; further back is read in a thread
    max_open_queue_files: int
    warm_sync_bytes: int  # of a new log file between syncs while it is warmed, 0 for no warming
    read_ahead: bool
    check_crc: bool
    index_enabled: bool
    index_layout: IndexLayout
    most_found: int  # messages of one query
    delay_levels_ms: tuple[int, ...]
    sync_flush: bool  # nothing is visible before it is durable


def read_options(root: Path, settings: Settings) -> Options:
    """Read the settings; *root* is the store's folder."""
    number = settings.number
    folder = settings.text("storePathCommitLog")
    queue_file_bytes = number("mappedFileSizeConsumeQueue")
    if settings.flag("enableMultiDispatch") and not settings.flag("enableLmq"):
        raise ConfigError("enableMultiDispatch=true lists messages in light queues, which need enableLmq=true as well")
    return Options(
        root=root,
        log_folder=Path(folder) if folder else root / "commitlog",
        log_file_bytes=number("mappedFileSizeCommitLog"),
        queue_file_bytes=-(-queue_file_bytes // ENTRY_BYTES) * ENTRY_BYTES,
        batch_file_bytes=number("mapperFileSizeBatchConsumeQueue"),
        ext_file_bytes=number("mappedFileSizeConsumeQueueExt"),
        ext_units=settings.flag("enableConsumeQueueExt"),
        light_queues=settings.flag("enableLmq") and settings.flag("enableMultiDispatch"),
        max_light_queues=number("maxLmqConsumeQueueNum"),
        queue_flush_interval_ms=number("flushIntervalConsumeQueue"),
        queue_flush_thorough_ms=number("flushConsumeQueueThoroughInterval"),
        scan_bytes=number("maxFilterMessageSize"),
        memory_limit_bytes=number("maxTransferBytesOnMessageInMemory"),
        memory_limit_count=number("maxTransferCountOnMessageInMemory"),
        disk_limit_bytes=number("maxTransferBytesOnMessageInDisk"),
        disk_limit_count=number("maxTransferCountOnMessageInDisk"),
        memory_window_bytes=_memory_bytes() * number("accessMessageInMemoryMaxRatio") // 100,
        hot_window_bytes=number("hotReadWindow"),
        max_open_queue_files=number("maxOpenQueueFiles"),
        warm_sync_bytes=(
            number("flushLeastPagesWhenWarmMapedFile") * _PAGE_BYTES if settings.flag("warmMapedFileEnable") else 0
        ),
        read_ahead=settings.flag("dataReadAheadEnable"),
        check_crc=settings.flag("checkCRCOnRecover"),
        index_enabled=settings.flag("messageIndexEnable"),
        index_layout=IndexLayout(number("maxHashSlotNum"), number("maxIndexNum")),
        most_found=number("maxMsgsNumBatch"),
        delay_levels_ms=parse_delay_levels(settings.text("messageDelayLevel")),
        sync_flush="flushDiskType" not in settings.schema or settings.text("flushDiskType") == "SYNC_FLUSH",
    )


def _memory_bytes() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # not POSIX
        return _ASSUMED_MEMORY_BYTES
