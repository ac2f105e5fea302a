"""Which records belong to topics that were deleted: they stay in the log, and recovery must not queue them again.

They are noted in ``<store>/droppedTopics.json``, see `gantrymq_store_files.dropped_topics`. RocketMQ keeps no such note
(it ignores the file) and brings queues of deleted topics back after a crash.
"""

from __future__ import annotations

from pathlib import Path

from gantrymq.errors import FormatError, StoreDamaged
from gantrymq.world import Files
from gantrymq_store_files.dropped_topics import DROPPED_TOPICS, pack_dropped_topics, read_dropped_topics

__all__ = ["DroppedTopics"]


class DroppedTopics:
    """Log offsets by topic, kept in a file."""

    def __init__(self, files: Files, root: Path) -> None:
        """Nothing is read before `load`."""
        self._files = files
        self._path = root / DROPPED_TOPICS
        self._before: dict[str, int] = {}
        self._log_min = 0  # when topics were forgotten last

    def load(self, log_min: int) -> None:
        """Read the file; topics whose records have left the log are forgotten.

        Raises:
            StoreDamaged: the file does not hold what it should.
        """
        if self._files.stat(self._path) is None:
            return
        try:
            found = read_dropped_topics(self._files.read(self._path))
        except FormatError as problem:
            raise StoreDamaged(
                f"{self._path} is {problem}; remove it, and the queues of deleted topics may come back"
            ) from problem
        self._before = {topic: offset for topic, offset in found.items() if offset > log_min}

    def note(self, topic: str, log_end: int, log_min: int) -> None:
        """Every record of *topic* before *log_end* is of a deleted one; `save` makes that durable.

        Topics whose records have left the log, which begins at *log_min*, are forgotten.
        """
        if log_min > self._log_min:
            self._log_min = log_min
            self._before = {each: offset for each, offset in self._before.items() if offset > log_min}
        self._before[topic] = log_end

    def text(self) -> bytes:
        """What the file is to hold."""
        return pack_dropped_topics(self._before)

    def save(self, text: bytes) -> None:
        """Replace the file by *text*, made on the event loop; for a thread. Raises OSError."""
        self._files.replace(self._path, text)

    def cut(self, log_end: int) -> None:
        """The log ends at *log_end*, before what was noted: a power cut took what was not synced. Raises OSError.

        What comes to stand behind the end is of a topic that was made anew, not of the deleted one.
        """
        if any(offset > log_end for offset in self._before.values()):
            self._before = {topic: min(offset, log_end) for topic, offset in self._before.items()}
            self.save(self.text())

    def before(self, topic: str) -> int:
        """Every record of *topic* before this log offset is of a deleted one; 0 when none is."""
        return self._before.get(topic, 0)

    def holds(self, topic: str, log_offset: int) -> bool:
        """Whether the record at *log_offset* is of a deleted topic."""
        return log_offset < self._before.get(topic, 0)
