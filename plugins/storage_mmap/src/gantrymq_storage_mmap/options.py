"""Typed settings of the store that are read once at startup. Runtime settings are read where they are used."""

from __future__ import annotations

import os
from pathlib import Path

from gantrymq.errors import ConfigError
from gantrymq.plugin.formats import COMMIT_LOG, parse_delay_levels
from gantrymq.plugin.settings import Settings
from gantrymq_store_files.index import IndexLayout
from gantrymq_store_files.queue_entry import ENTRY_BYTES

_PAGE_BYTES = 4096  # RocketMQ's page size, on every platform
_ASSUMED_MEMORY_BYTES = 4 * 1024**3  # if the system does not report its memory


class Options:
    """Sizes in bytes, times in ms."""

    def __init__(self, root: Path, settings: Settings) -> None:
        """Read the settings; *root* is the store's folder.

        Raises:
            ConfigError: the settings contradict each other.
        """
        number, flag = settings.number, settings.flag
        if flag("enableMultiDispatch") and not flag("enableLmq"):
            raise ConfigError(
                "enableMultiDispatch=true lists messages in light queues, which need enableLmq=true as well"
            )
        folder = settings.text("storePathCommitLog")
        self.root = root
        self.log_folder = Path(folder) if folder else root / COMMIT_LOG
        self.log_file_bytes = number("mappedFileSizeCommitLog")
        self.queue_file_bytes = -(-number("mappedFileSizeConsumeQueue") // ENTRY_BYTES) * ENTRY_BYTES
        self.batch_file_bytes = number("mapperFileSizeBatchConsumeQueue")
        self.ext_file_bytes = number("mappedFileSizeConsumeQueueExt")
        self.ext_units = flag("enableConsumeQueueExt")  # new messages get units in ext files
        self.light_queues = flag("enableLmq") and flag("enableMultiDispatch")  # messages may name light queues
        self.max_light_queues = number("maxLmqConsumeQueueNum")
        self.queue_flush_interval_ms = number("flushIntervalConsumeQueue")
        self.queue_flush_thorough_ms = number("flushConsumeQueueThoroughInterval")
        self.scan_bytes = number("maxFilterMessageSize")  # queue bytes one get may examine
        # limits of one get, for recent data (in memory) and old data (on disk)
        self.memory_limit_bytes = number("maxTransferBytesOnMessageInMemory")
        self.memory_limit_count = number("maxTransferCountOnMessageInMemory")
        self.disk_limit_bytes = number("maxTransferBytesOnMessageInDisk")
        self.disk_limit_count = number("maxTransferCountOnMessageInDisk")
        # distance from the log's end; older data counts as on disk
        self.memory_window_bytes = _memory_bytes() * number("accessMessageInMemoryMaxRatio") // 100
        self.hot_window_bytes = number("hotReadWindow")  # distance from the log's end; older data is read in a thread
        self.block_cache_bytes = number("logBlockCacheBytes")
        self.max_open_queue_files = number("maxOpenQueueFiles")
        # bytes between syncs while a new log file is warmed, 0 for no warming
        self.warm_sync_bytes = (
            number("flushLeastPagesWhenWarmMapedFile") * _PAGE_BYTES if flag("warmMapedFileEnable") else 0
        )
        self.read_ahead = flag("dataReadAheadEnable")
        self.check_crc = flag("checkCRCOnRecover")
        self.index_enabled = flag("messageIndexEnable")
        self.index_layout = IndexLayout(number("maxHashSlotNum"), number("maxIndexNum"))
        self.most_found = number("maxMsgsNumBatch")  # messages of one query
        self.delay_levels = settings.text("messageDelayLevel")
        self.delay_levels_ms = parse_delay_levels(self.delay_levels)


def _memory_bytes() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # not POSIX
        return _ASSUMED_MEMORY_BYTES
