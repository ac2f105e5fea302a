"""Checks of the small files, checkpoint and config/*, and the log offset up to which a store must be intact.

    checkpoint.short    fewer than 40 bytes
    checkpoint.empty    all zeros although the log spans more than three seconds: the next start reads the whole log
                        (not damage if the broker was killed in its first minutes)
    checkpoint.ahead    it covers records that do not exist: the end of the log is missing
    checkpoint.missing  the file does not exist (informational: RocketMQ treats it as zeros)
    config.broken       a file that cannot be read; the text says whether its backup can

Config files are JSON, except `timercheck` (a checkpoint of timers).

After the log offset that the checkpoint covers, a running broker has much data in memory only, and a killed broker left
incomplete files: missing queue entries and index keys, an unfinished last record. The next start rebuilds all of it
from the log, so it is not damage. Before that offset everything must exist, whichever broker wrote it: both kinds write
RocketMQ's checkpoint only after the data it covers is in the files.

Source: apache/rocketmq store/.../StoreCheckpoint.java, DefaultMessageStore.java (FlushConsumeQueueService).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gantrymq.errors import FormatError
from gantrymq.plugin.config_files import backup_of
from gantrymq.plugin.formats import RecordView
from gantrymq.plugin.loose_json import loads
from gantrymq.plugin.names import SCHEDULE_TOPIC
from gantrymq.plugin.world import FileReader
from gantrymq_store_files.checkpoint import CHECKPOINT_BYTES, RECOVERY_MARGIN_MS, Checkpoint, decode_checkpoint
from gantrymq_store_files.log_walk import CHUNK_BYTES, LogWalk
from gantrymq_store_tools.findings import Finding
from gantrymq_store_tools.layout import Layout
from gantrymq_store_tools.log_reader import LogReader

NO_JSON = frozenset({"timercheck"})
_SURELY_FLUSHED_MS = 3000  # a clean stop writes the checkpoint
_SURELY_MOVED_MS = 180_000  # a running broker writes it once a minute
NO_LIMIT = 1 << 62  # greater than every log offset and every time
_FIRST_BYTES = 64 * 1024  # read from a file to find its first record


def read_checkpoint(files: FileReader, layout: Layout) -> Checkpoint:
    """Read the checkpoint; zeros if the file does not exist. Raises OSError."""
    return decode_checkpoint(files.read(layout.checkpoint.path)) if layout.checkpoint is not None else Checkpoint()


def check_checkpoint(files: FileReader, layout: Layout, first_timestamp: int, last_timestamp: int) -> list[Finding]:
    """Compare the checkpoint with the store times of the log's oldest and newest record (0 without records)."""
    path = "checkpoint"
    if layout.checkpoint is None:
        text = "there is no checkpoint; the next start reads the whole log"
        return [Finding("checkpoint.missing", path, text, damage=False)]
    try:
        data = files.read(layout.checkpoint.path)
    except OSError as error:
        return [Finding("checkpoint.unreadable", path, f"the checkpoint cannot be read: {error}")]
    found = []
    if len(data) < 40:
        text = f"the checkpoint has {len(data)} bytes instead of {CHECKPOINT_BYTES}"
        return [Finding("checkpoint.short", path, text, 0, len(data))]
    checkpoint = decode_checkpoint(data)
    if checkpoint == Checkpoint() and last_timestamp - first_timestamp > _SURELY_FLUSHED_MS:
        text = "the checkpoint is all zeros but the log is not empty; the next start after a crash reads all of it"
        empty = Finding("checkpoint.empty", path, text, 0, 40)
        young = layout.abort and last_timestamp - first_timestamp <= _SURELY_MOVED_MS
        found.append(empty.for_recovery() if young else empty)
    times = (checkpoint.log_timestamp, checkpoint.queue_timestamp, checkpoint.index_timestamp)
    for place, (name, said) in enumerate(zip(("log", "queue", "index"), times, strict=True)):
        if said < 0 or said > last_timestamp:
            text = (
                f"the checkpoint's {name} time is {said}, the newest record's store time {last_timestamp}: either the "
                "end of the log is missing, or the checkpoint belongs to another store"
            )
            found.append(Finding("checkpoint.ahead", path, text, place * 8, 8))
    return found


def check_configs(files: FileReader, layout: Layout) -> list[Finding]:
    """Read every config file, and the backup of each one that cannot be read."""
    found = []
    for file in layout.configs:
        if file.path.name in NO_JSON:
            continue
        problem = json_problem(files, file.path)
        if problem is None:
            continue
        name, backup = layout.name(file.path), backup_of(file.path)
        worse = json_problem(files, backup) if files.stat(backup) is not None else "there is no backup"
        if worse is None:
            text = f"{name}: {problem}; {backup.name} is sound, and brokers read that"
        else:
            text = f"{name}: {problem}, and {backup.name}: {worse}"
        found.append(Finding("config.broken", name, text, 0, file.size))
    return found


def json_problem(files: FileReader, path: Path) -> str | None:
    """Return why a config file cannot be read, None if it can."""
    try:
        data = files.read(path)
    except OSError as error:
        return str(error)
    return content_problem(data)


def content_problem(data: bytes) -> str | None:
    """Return why the content of a config file cannot be read, None if it can."""
    if not data.strip(b" \t\r\n\0"):
        return "it is empty"
    try:
        value = loads(data)
    except FormatError as problem:
        return str(problem)
    return None if isinstance(value, dict) else f"a JSON {type(value).__name__} instead of an object"


def vouched_to(files: FileReader, layout: Layout, reader: LogReader, *, in_use: bool) -> int:
    """Return the log offset before which records and their queue entries must be intact.

    While the store is in use, RocketMQ's margin of three seconds is subtracted. Raises OSError.
    """
    checkpoint = read_checkpoint(files, layout)
    vouched_ms = min(checkpoint.log_timestamp, checkpoint.queue_timestamp) - (RECOVERY_MARGIN_MS if in_use else 0)
    start = reader.log.start
    for file in reader.log.files:
        first = next(_records(_walk(reader, file.start, file.start + 1, _FIRST_BYTES)), None)
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
