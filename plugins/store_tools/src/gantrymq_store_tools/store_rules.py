"""The rules by which a store's queues and index were built, determined from its files."""

from __future__ import annotations

from pathlib import Path

from gantrymq.errors import FormatError
from gantrymq.plugin.config_files import LIGHT_CONSUMER_OFFSETS, read_topics_file
from gantrymq.plugin.formats import read_record
from gantrymq.plugin.names import LMQ_PREFIX, SYSTEM_TOPICS
from gantrymq.plugin.properties import TAGS
from gantrymq.plugin.world import FileReader
from gantrymq_store_files.delay_levels import DelayLevels, read_delay_levels
from gantrymq_store_files.dropped_topics import DROPPED_TOPICS, read_dropped_topics
from gantrymq_store_files.index import ENTRY, IndexLayout, read_header
from gantrymq_store_files.index_hash import index_hash
from gantrymq_store_tools.layout import Layout
from gantrymq_store_tools.log_reader import LogReader
from gantrymq_store_tools.open_files import OpenFiles
from gantrymq_store_tools.record_entries import EntryRules

__all__ = ["delay_levels_of", "has_tag_keys", "known_topics", "rules_of"]

_SAMPLE = 256


def rules_of(files: FileReader, layout: Layout, delay_levels: str | None = None) -> EntryRules:
    """Return the rules for rebuilding, from topics.json, the queue folders, droppedTopics.json and delayLevels.json.

    *delay_levels* replaces the levels of delayLevels.json.

    Raises:
        ConfigError: *delay_levels* is malformed.
    """
    topics = read_topics_file(files, layout.root)
    batch = {queue.topic for queue in layout.batch}
    if topics is not None:
        batch |= {name for name, topic in topics.topics.items() if topic.has_batch_queues}
    light = any(queue.topic.startswith(LMQ_PREFIX) for queue in layout.queues)
    return EntryRules(
        delay_levels=delay_levels_of(files, layout.root, delay_levels) or DelayLevels.of(),
        batch_topics=frozenset(batch),
        light_queues=light or files.stat(layout.root / "config" / LIGHT_CONSUMER_OFFSETS) is not None,
        dropped=_dropped(files, layout.root / DROPPED_TOPICS),
    )


def delay_levels_of(files: FileReader, root: Path, given: str | None) -> DelayLevels | None:
    """Return the delay levels *given*, else those recorded in the store *root*; None if neither exists.

    Raises:
        ConfigError: *given* is malformed.
    """
    if given is not None:
        return DelayLevels.of(given)
    try:
        return read_delay_levels(files, root)
    except (OSError, FormatError):
        return None


def known_topics(files: FileReader, layout: Layout) -> frozenset[str] | None:
    """Return the names of all existing topics; None without a readable topics.json."""
    topics = read_topics_file(files, layout.root)
    return None if topics is None else frozenset(topics.topics) | SYSTEM_TOPICS


def has_tag_keys(layout: Layout, index_layout: IndexLayout, reader: LogReader, open_files: OpenFiles) -> bool:
    """Return whether the index has entries for tags, as 5.5.0 writes them, by its newest entries."""
    for file in reversed(layout.index):
        count = read_header(open_files.read(file.path, 0, 40).ljust(40, b"\0")).index_count
        for number in range(max(1, count - _SAMPLE), min(count, index_layout.entries)):
            raw = open_files.read(file.path, index_layout.entry_at(number), ENTRY.size)
            key_hash, log_offset, _, _ = ENTRY.unpack(raw.ljust(ENTRY.size, b"\0"))
            at = reader.file_at(log_offset)
            if at is None:
                continue
            left = at.start + reader.log.file_bytes - log_offset
            size = int.from_bytes(reader.read(log_offset, min(4, left)), "big")
            try:
                record = read_record(reader.read(log_offset, min(size, left)))
            except FormatError:
                continue
            tag = record.properties.get(TAGS)
            if tag and index_hash(record.topic, f"T#{tag}") == key_hash:
                return True
        if count > 1:
            return False
    return False


def _dropped(files: FileReader, path: Path) -> dict[str, int]:
    """Read the log offsets before which records belong to a deleted topic; empty if the file cannot be read."""
    try:
        return read_dropped_topics(files.read(path))
    except (OSError, FormatError):
        return {}
