"""Settings of this store, under RocketMQ's key names and with its defaults, and those read once at startup (`Options`).

Three further keys are declared by the broker: ``maxMessageSize``, ``flushDiskType`` and ``storePathRootDir``. Keys of
features that are not implemented are declared so that enabling them is rejected at startup. Settings that may change
while the broker runs are read where they are used.

Source: apache/rocketmq store/.../config/MessageStoreConfig.java.
"""

from __future__ import annotations

import os
from pathlib import Path

from gantrymq.errors import ConfigError
from gantrymq.plugin.formats import COMMIT_LOG, DEFAULT_DELAY_LEVELS, parse_delay_levels
from gantrymq.plugin.settings import Setting, Settings, Value
from gantrymq_storage_mmap.retention.settings import RETENTION, problem_of
from gantrymq_store_files.batch_entry import BATCH_ENTRY_BYTES
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


def _one_folder(value: Value) -> str | None:
    if "," in str(value) or ";" in str(value):
        return "a commit log spread over several folders is not implemented in this version; name one folder"
    return None


def _file_store(value: Value) -> str | None:
    if value == "default":
        return None
    return "the RocksDB store is not implemented in this version; use storeType=default (files)"


def _whole_batch_entries(value: Value) -> str | None:
    if isinstance(value, int) and value % BATCH_ENTRY_BYTES:
        fitting = value - value % BATCH_ENTRY_BYTES
        return f"{value} is not a multiple of {BATCH_ENTRY_BYTES}, the size of an entry; {fitting} is"
    return None


def _not_built(key: str, part: str) -> Setting:
    def check(value: Value) -> str | None:
        return f"{part} is not implemented in this version; leave the key at false" if value is True else None

    return Setting.flag(key, False, f"Not built in this version: {part}.", not_built=check)


SCHEMA: tuple[Setting, ...] = (
    Setting.text(
        "storePathCommitLog",
        "",
        "Folder of the commit log; empty means commitlog in the store's root.",
        not_built=_one_folder,
    ),
    Setting.number(
        "mappedFileSizeCommitLog", 1024**3, "Size of one commit log file, bytes.", at_least=4096, at_most=2**31 - 1
    ),
    Setting.number(
        "mappedFileSizeConsumeQueue",
        6_000_000,
        "Size of one queue file, bytes; rounded up to a multiple of 20.",
        at_least=20,
        at_most=2**31 - 20,
    ),
    Setting.number(
        "mapperFileSizeBatchConsumeQueue",
        13_800_000,
        "Size of one file of a batch queue (queue.type=BatchCQ), bytes; a multiple of 46.",
        at_least=46,
        at_most=2**31 - 46,
        not_built=_whole_batch_entries,
    ),
    Setting.flag(
        "enableConsumeQueueExt", False, "Write a unit in ext files (consumequeue_ext) for each queued message."
    ),
    Setting.number(
        "mappedFileSizeConsumeQueueExt", 50_331_648, "Size of one ext file, bytes.", at_least=24, at_most=2**31 - 1
    ),
    Setting.flag(
        "enableLmq",
        False,
        "Serve light queues (%LMQ% topics); their consumers' offsets are stored in lmqConsumerOffset.json.",
    ),
    Setting.flag(
        "enableMultiDispatch",
        False,
        "Add a message to the light queues that its INNER_MULTI_DISPATCH names; requires enableLmq.",
    ),
    Setting.number("maxLmqConsumeQueueNum", 20_000, "Maximum number of light queues.", at_least=0),
    Setting.number(
        "flushIntervalCommitLog", 500, "Pause between background flushes of the log, ms.", at_least=1, runtime=True
    ),
    Setting.number(
        "flushCommitLogLeastPages",
        4,
        "Number of dirty pages of 4 KiB that a background flush waits for.",
        at_least=0,
        runtime=True,
    ),
    Setting.number(
        "flushCommitLogThoroughInterval",
        10_000,
        "Time after which a background flush no longer waits for pages, ms.",
        at_least=1,
        runtime=True,
    ),
    Setting.number("flushIntervalConsumeQueue", 1000, "Pause between writes of waiting queue entries, ms.", at_least=1),
    Setting.number(
        "flushConsumeQueueThoroughInterval",
        60_000,
        "Interval of flushing all dirty queues and writing the checkpoint, ms.",
        at_least=1,
    ),
    Setting.number(
        "maxFilterMessageSize", 16_000, "Maximum queue bytes that one pull examines (20 per message).", at_least=20
    ),
    Setting.number(
        "maxTransferBytesOnMessageInMemory", 262_144, "Maximum bytes of one pull of recent messages.", at_least=1
    ),
    Setting.number(
        "maxTransferCountOnMessageInMemory", 256, "Maximum messages of one pull of recent messages.", at_least=1
    ),
    Setting.number("maxTransferBytesOnMessageInDisk", 65_536, "Maximum bytes of one pull of old messages.", at_least=1),
    Setting.number("maxTransferCountOnMessageInDisk", 8, "Maximum messages of one pull of old messages.", at_least=1),
    Setting.number(
        "accessMessageInMemoryMaxRatio",
        40,
        "Messages within this share of the machine's memory, in percent, count as recent.",
        at_least=0,
        at_most=100,
    ),
    Setting.flag("checkCRCOnRecover", True, "Verify the body's CRC of every record that recovery reads."),
    Setting.text(
        "messageDelayLevel",
        DEFAULT_DELAY_LEVELS,
        "Durations of the delay levels, starting at level 1.",
        not_built=problem_of(parse_delay_levels),
    ),
    Setting.flag("messageIndexEnable", True, "Index messages by their keys; false leaves the index unchanged."),
    Setting.flag(
        "messageIndexSafe",
        False,
        "No effect: after any stop the index catches up from its end, as in RocketMQ with true.",
    ),
    Setting.number(
        "maxHashSlotNum",
        5_000_000,
        "Hash slots of an index file; files with other sizes are removed and rebuilt.",
        at_least=1,
        at_most=400_000_000,
    ),
    Setting.number(
        "maxIndexNum", 20_000_000, "Maximum number of keys of an index file plus one.", at_least=2, at_most=100_000_000
    ),
    Setting.number("maxMsgsNumBatch", 64, "Maximum messages of one query by key.", at_least=1),
    Setting.number(
        "hotReadWindow",
        256 * 1024**2,
        "Bytes at the log's end that are read on the event loop; older data is read in a thread (GantryMQ's own).",
        at_least=0,
    ),
    Setting.number(
        "logBlockCacheBytes",
        18 * 1024**2,
        "Maximum bytes of log blocks kept for consumers that catch up together; 0 keeps none (GantryMQ's own).",
        at_least=0,
    ),
    Setting.flag(
        "warmMapedFileEnable",
        False,
        "Fill the next log file with zeros in advance, for faster first syncs.",
    ),
    Setting.number(
        "flushLeastPagesWhenWarmMapedFile",
        4096,
        "Number of pages of 4 KiB between syncs of a file that is being warmed.",
        at_least=1,
    ),
    Setting.flag("dataReadAheadEnable", True, "Read the next records of a consumer that catches up in advance."),
    Setting.number("maxOpenQueueFiles", 2048, "Maximum number of open queue files (GantryMQ's own).", at_least=1),
    Setting.text("storeType", "default", "Kind of store; only default (files) is built.", not_built=_file_store),
    *RETENTION,
    _not_built("transientStorePoolEnable", "the pool of off-heap write buffers"),
    _not_built("writeWithoutMmap", "writing the log without a mapping"),
    _not_built("duplicationEnable", "duplication"),
    _not_built("enabledAppendPropCRC", "appending a check sum property"),
    _not_built("forceVerifyPropCRC", "recovery by the check sum property"),
    _not_built("readUnCommitted", "dispatch of unconfirmed messages"),
)
