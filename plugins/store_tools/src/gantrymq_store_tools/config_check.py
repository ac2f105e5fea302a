"""Checks of the small files: checkpoint and config/*.

    checkpoint.short    fewer than 40 bytes
    checkpoint.empty    all zeros although the log spans more than three seconds: the next start reads the whole log
                        (not damage if the broker was killed in its first minutes)
    checkpoint.ahead    it covers records that do not exist: the end of the log is missing
    checkpoint.missing  the file does not exist (informational: RocketMQ treats it as zeros)
    config.broken       a file that cannot be read; the text says whether its backup can

Config files are JSON, except `timercheck` (a checkpoint of timers).
"""

from __future__ import annotations

from pathlib import Path

from gantrymq.errors import FormatError
from gantrymq.plugin.config_files import backup_of
from gantrymq.plugin.loose_json import loads
from gantrymq.plugin.world import FileReader
from gantrymq_store_files.checkpoint import CHECKPOINT_BYTES, Checkpoint, decode_checkpoint
from gantrymq_store_tools.findings import Finding
from gantrymq_store_tools.layout import Layout

__all__ = ["check_checkpoint", "check_configs", "content_problem", "json_problem", "read_checkpoint"]

NO_JSON = frozenset({"timercheck"})
SURELY_FLUSHED_MS = 3000  # a clean stop writes the checkpoint
SURELY_MOVED_MS = 180_000  # a running broker writes it once a minute


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
    if checkpoint == Checkpoint() and last_timestamp - first_timestamp > SURELY_FLUSHED_MS:
        text = "the checkpoint is all zeros but the log is not empty; the next start after a crash reads all of it"
        empty = Finding("checkpoint.empty", path, text, 0, 40)
        young = layout.abort and last_timestamp - first_timestamp <= SURELY_MOVED_MS
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
