"""The log offset up to which a store that was not shut down cleanly must be intact, according to its checkpoint.

After that offset, a running broker has much data in memory only, and a killed broker left incomplete files: missing
queue entries and index keys, an unfinished last record. The next start rebuilds all of it from the log, so it is not
damage. Before that offset everything must exist, whichever broker wrote it: both kinds write RocketMQ's checkpoint only
after the data it covers is in the files.

Source: apache/rocketmq store/.../StoreCheckpoint.java, DefaultMessageStore.java (FlushConsumeQueueService).
"""

from __future__ import annotations

from collections.abc import Iterator

from gantrymq.plugin.formats import RecordView
from gantrymq.plugin.names import SCHEDULE_TOPIC
from gantrymq.plugin.world import FileReader
from gantrymq_store_files.checkpoint import RECOVERY_MARGIN_MS
from gantrymq_store_files.log_walk import CHUNK_BYTES, LogWalk
from gantrymq_store_tools.config_check import read_checkpoint
from gantrymq_store_tools.layout import Layout
from gantrymq_store_tools.log_reader import LogReader

__all__ = ["NO_LIMIT", "vouched_to"]

NO_LIMIT = 1 << 62  # greater than every log offset and every time
FIRST_BYTES = 64 * 1024  # read from a file to find its first record


def vouched_to(files: FileReader, layout: Layout, reader: LogReader, *, in_use: bool) -> int:
    """Return the log offset before which records and their queue entries must be intact.

    While the store is in use, RocketMQ's margin of three seconds is subtracted. Raises OSError.
    """
    checkpoint = read_checkpoint(files, layout)
    vouched_ms = min(checkpoint.log_timestamp, checkpoint.queue_timestamp) - (RECOVERY_MARGIN_MS if in_use else 0)
    start = reader.log.start
    for file in reader.log.files:
        first = next(_records(_walk(reader, file.start, file.start + 1, FIRST_BYTES)), None)
        if first is None or first.topic == SCHEDULE_TOPIC:
            continue  # a delayed message has the time of a clock that may have been set back
        if first.store_timestamp >= vouched_ms:
            break
        start = file.start
    walk = _walk(reader, start, reader.log.end, CHUNK_BYTES)
    later = (record.log_offset for record in _records(walk) if record.store_timestamp >= vouched_ms)
    found = next(later, None)
    return walk.sound_end if found is None else found


def _walk(reader: LogReader, start: int, end: int, chunk_bytes: int) -> LogWalk:
    return LogWalk(
        reader, start, end, check_crc=False, check_beyond_end=False, trust_zeros=True, chunk_bytes=chunk_bytes
    )


def _records(walk: LogWalk) -> Iterator[RecordView]:
    return (found for found in walk if isinstance(found, RecordView))
