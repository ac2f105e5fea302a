"""The small files of a store that a broker may be replacing: `config/`, read so that it never claims too much.

Positions (offsets of consumers, delays, timers) are read before the log, so that they never exceed the log that is
copied. Tables of topics and groups are read after it, so that every topic of the log is in them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

from gantrymq.errors import FormatError
from gantrymq.plugin.config_files import (
    CONSUMER_OFFSETS,
    GROUPS,
    LIGHT_CONSUMER_OFFSETS,
    RESERVE,
    TOPICS,
    backup_of,
    pretty,
    read_topics_file,
)
from gantrymq.plugin.loose_json import loads
from gantrymq.plugin.world import FileReader
from gantrymq_store_files.dropped_topics import DROPPED_TOPICS, read_dropped_topics
from gantrymq_store_tools.config_check import content_problem

CONFIG = "config"
_TABLES = (TOPICS, GROUPS, "topicQueueMapping.json")  # read after the log
_OFFSET_TABLES = {CONSUMER_OFFSETS: ("offsetTable",), LIGHT_CONSUMER_OFFSETS: ("offsetTable", "lmqOffsetTable")}
_IGNORED = (".bak", ".tmp", ".broken")
_ATTEMPTS = 5  # to read a file between two saves


class ConfigCopy:
    """Reads the files of `config/`, before the log is copied and afterwards."""

    def __init__(self, files: FileReader, root: Path) -> None:
        """Read the positions of the store *root*. Raises OSError."""
        self._files = files
        self._root = root
        self._topics = self._topic_names()
        self._dropped = self._read_dropped()[0]
        self._positions = self._read(lambda name: name not in _TABLES)

    def read_all(self) -> dict[str, bytes]:
        """Read the tables, and return the content of all files by their path in the store.

        Offsets of topics that were deleted since the positions were read are left out: a new topic of the same name
        begins at 0. Raises OSError.
        """
        for _ in range(_ATTEMPTS):
            dropped, text = self._read_dropped()
            topics, tables = self._topic_names(), self._read(lambda name: name in _TABLES)
            if self._read_dropped()[1] == text:
                break
        gone = self._topics - topics
        gone |= {topic for topic, log_offset in dropped.items() if log_offset > self._dropped.get(topic, -1)}
        found = {f"{CONFIG}/{name}": data for name, data in {**self._positions, **tables}.items()}
        if text:
            found[DROPPED_TOPICS] = text
        for name, members in _OFFSET_TABLES.items():
            path = f"{CONFIG}/{name}"
            if gone and path in found:
                found[path] = _without(found[path], members, gone)
        return found

    def _read(self, wanted: Callable[[str], bool]) -> dict[str, bytes]:
        folder = self._root / CONFIG
        found = {}
        names = {name.removesuffix(".bak") for name in self._files.list(folder)}
        for name in sorted(names):
            if name == RESERVE or name.endswith(_IGNORED) or not wanted(name):
                continue
            data = self._read_file(folder / name)
            if data is not None:
                found[name] = data
        return found

    def _read_file(self, path: Path) -> bytes | None:
        """Return the content of one file, or of its backup if it is being replaced or broken."""
        found = None
        for _ in range(_ATTEMPTS):
            for each in (path, backup_of(path)):
                stat = self._files.stat(each)
                if stat is None or stat.is_dir:
                    continue
                try:
                    data = self._files.read(each)
                except FileNotFoundError:
                    continue
                if not path.name.endswith(".json") or content_problem(data) is None:
                    return data
                found = found or data
        return found

    def _read_dropped(self) -> tuple[dict[str, int], bytes]:
        try:
            text = self._files.read(self._root / DROPPED_TOPICS)
            return read_dropped_topics(text), text
        except (FileNotFoundError, FormatError):
            return {}, b""

    def _topic_names(self) -> set[str]:
        topics = read_topics_file(self._files, self._root)
        return set() if topics is None else set(topics.topics)


def _without(data: bytes, tables: Collection[str], topics: Collection[str]) -> bytes:
    """Return a file of offsets without the given topics."""
    try:
        members = loads(data)
    except FormatError:
        return data
    for table in tables:
        offsets = members.get(table)
        if isinstance(offsets, dict):
            members[table] = {key: each for key, each in offsets.items() if str(key).split("@")[0] not in topics}
    return pretty(members).encode()
