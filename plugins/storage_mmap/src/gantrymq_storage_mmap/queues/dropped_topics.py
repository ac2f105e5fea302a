"""Which records belong to topics that were deleted: they stay in the log, and recovery must not queue them again.

    <store>/droppedTopics.json     {"<topic>": <log offset>, ...}

Records of the topic before that log offset are of a deleted one; behind it the name was used anew. RocketMQ keeps no
such note (it ignores the file) and brings queues of deleted topics back after a crash.
"""

from __future__ import annotations

import json
from pathlib import Path

from gantrymq.errors import StoreDamaged
from gantrymq.world import Files

__all__ = ["DroppedTopics"]

FILE_NAME = "droppedTopics.json"


class DroppedTopics:
    """Log offsets by topic, kept in a file."""

    def __init__(self, files: Files, root: Path) -> None:
        """Nothing is read before `load`."""
        self._files = files
        self._path = root / FILE_NAME
        self._before: dict[str, int] = {}

    def load(self, log_min: int) -> None:
        """Read the file; topics whose records have left the log are forgotten.

        Raises:
            StoreDamaged: the file does not hold what it should.
        """
        if self._files.stat(self._path) is None:
            return
        try:
            found = {str(topic): int(offset) for topic, offset in json.loads(self._files.read(self._path)).items()}
        except (ValueError, OverflowError, TypeError, AttributeError) as problem:
            raise StoreDamaged(
                f"{self._path} is not a JSON object of log offsets by topic ({problem}); remove it, and the queues of "
                "deleted topics may come back"
            ) from problem
        self._before = {topic: offset for topic, offset in found.items() if offset > log_min}

    def note(self, topic: str, log_end: int) -> None:
        """Every record of *topic* before *log_end* is of a deleted one; `save` makes that durable."""
        self._before[topic] = log_end

    def text(self) -> bytes:
        """What the file is to hold."""
        return json.dumps(self._before, ensure_ascii=False, indent=0).encode("utf-8")

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
