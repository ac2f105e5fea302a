"""Records of deleted topics: they stay in the log, and recovery must not queue them again.

They are noted in ``<store>/droppedTopics.json``, see `gantrymq_store_files.dropped_topics`. RocketMQ has no such file
(it ignores ours) and restores the queues of deleted topics after a crash.

Thousands of topics may be deleted per gigabyte of log. In memory they are held as the text of the file plus 16 bytes
each for lookups: a third of the size of a dict, and no text has to be built on the event loop.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from pathlib import Path
from typing import Final

from gantrymq.errors import FormatError, StoreDamaged
from gantrymq.plugin.world import FileTree
from gantrymq_store_files.dropped_topics import DROPPED_TOPICS, pack_dropped_topic, read_dropped_topics

_FORGOTTEN_AT_ONCE: Final = 4096  # lines: 3 ms
_LEAST_BLANK: Final = 4096  # bytes


class DroppedTopics:
    """Log offsets by topic, stored in a file."""

    def __init__(self, files: FileTree, root: Path) -> None:
        """Nothing is read before `load`."""
        self._files = files
        self._path = root / DROPPED_TOPICS
        # One line per topic, by log offset; a line is replaced by spaces if its topic was deleted again.
        self._lines = bytearray()
        self._blank = 0  # bytes of blank lines
        self._hashes = array("q")  # of the topics, sorted
        self._places = array("q")  # in the same order: start of the topic's line in `_lines`

    def load(self, log_min: int) -> None:
        """Read the file and forget topics whose records have left the log.

        Raises:
            StoreDamaged: the file is not valid.
        """
        if self._files.stat(self._path) is None:
            return
        try:
            found = read_dropped_topics(self._files.read(self._path))
        except FormatError as problem:
            raise StoreDamaged(
                f"{self._path} is {problem}; remove it, and the queues of deleted topics may come back"
            ) from problem
        self._fill({topic: offset for topic, offset in found.items() if offset > log_min})

    def note(self, topic: str, log_end: int, log_min: int) -> None:
        """Mark all records of *topic* before *log_end* as deleted; `save` makes that durable.

        Topics whose records have left the log, which begins at *log_min*, are forgotten, a limited number per call.
        """
        self._forget(log_min)
        line = pack_dropped_topic(topic, log_end)
        at, there = self._find(topic)
        if there:
            begin = self._places[at]
            end = self._lines.index(b"\n", begin)
            self._lines[begin:end] = b" " * (end - begin)
            self._blank += end - begin
            self._places[at] = len(self._lines)
        else:
            self._hashes.insert(at, hash(topic))
            self._places.insert(at, len(self._lines))
        self._lines += line
        if self._blank > max(len(self._lines) // 2, _LEAST_BLANK):
            self._fill(read_dropped_topics(self.text()))

    def text(self) -> bytes:
        """Return the new content of the file."""
        return b"".join((b"{\n", memoryview(self._lines)[:-2], b"\n}"))

    def save(self, text: bytes) -> None:
        """Replace the file with *text*, which `text` returned on the event loop; for a thread. Raises OSError."""
        self._files.replace(self._path, text)

    def cut(self, log_end: int) -> None:
        """`limit` the noted offsets, and save them if they have changed. Raises OSError."""
        text = self.limit(log_end)
        if text is not None:
            self.save(text)

    def limit(self, log_end: int) -> bytes | None:
        """Limit the noted offsets to *log_end*, where the log was cut. Return the text to save, None if all are below.

        New records after *log_end* belong to the recreated topic, not to the deleted one.
        """
        before = read_dropped_topics(self.text())
        if all(offset <= log_end for offset in before.values()):
            return None
        self._fill({topic: min(offset, log_end) for topic, offset in before.items()})
        return self.text()

    def before(self, topic: str) -> int:
        """Return the log offset before which all records of *topic* are deleted; 0 if none are."""
        at, there = self._find(topic)
        return self._offset(self._places[at])[0] if there else 0

    def holds(self, topic: str, log_offset: int) -> bool:
        """Return whether the record at *log_offset* belongs to a deleted topic."""
        return log_offset < self.before(topic)

    # --- lines ------------------------------------------------------------------------------------------------------

    def _fill(self, before: dict[str, int]) -> None:
        """Replace the content with *before*."""
        ordered = sorted(before.items(), key=lambda each: each[1])
        self._lines, self._blank = bytearray(), 0
        found = []
        for topic, offset in ordered:
            found.append((hash(topic), len(self._lines)))
            self._lines += pack_dropped_topic(topic, offset)
        found.sort()
        self._hashes = array("q", [each for each, _ in found])
        self._places = array("q", [place for _, place in found])

    def _find(self, topic: str) -> tuple[int, bool]:
        """Return the index of *topic* in `_hashes` (or its insertion point), and whether it is present."""
        mark = hash(topic)
        at = bisect_left(self._hashes, mark)
        head = b""
        while at < len(self._hashes) and self._hashes[at] == mark:
            head = head or pack_dropped_topic(topic, 0).rpartition(b" ")[0]
            if self._lines.startswith(head, self._places[at]):
                return at, True
            at += 1
        return at, False

    def _offset(self, begin: int) -> tuple[int, int]:
        """Return the offset in the line at *begin* (-1 for a blank line) and the start of the next line."""
        end = self._lines.index(b"\n", begin) + 1
        digits = self._lines[begin : end - 2].rpartition(b" ")[2]
        return (int(digits) if digits else -1), end

    def _forget(self, log_min: int) -> None:
        begin = 0
        for _ in range(_FORGOTTEN_AT_ONCE):
            if begin >= len(self._lines):
                break
            offset, end = self._offset(begin)
            if offset > log_min:
                break
            self._blank -= end - 1 - begin if offset < 0 else 0
            begin = end
        if begin:
            del self._lines[:begin]
            kept = [
                (mark, place - begin) for mark, place in zip(self._hashes, self._places, strict=True) if place >= begin
            ]
            self._hashes = array("q", [mark for mark, _ in kept])
            self._places = array("q", [place for _, place in kept])
