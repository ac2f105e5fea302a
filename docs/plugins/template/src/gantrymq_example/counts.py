"""The dispatcher topic_counts: the number of messages of each topic.

The counts and the log offset up to which they were made are in one file, which is replaced as a whole. So after a kill
at any time the file matches its own position, and the broker replays the log from there: nothing is lost or counted
twice.

    plugins/topic_counts/counts.json    {"position": 1824, "counts": {"Orders": 9}}

A log that was truncated below the position (a power failure with asynchronous flush) cannot be subtracted from totals:
the dispatcher then counts the remaining log again from its start.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from gantrymq.errors import StoreError
from gantrymq.interfaces import DispatchEntry, StoreContext
from gantrymq.model.sys_flag import TRANSACTION_MASK, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK

WRITE_EVERY = 10_000  # entries; limits the replay after a kill


class TopicCounts:
    """A `Dispatcher`."""

    name = "topic_counts"

    def __init__(self, context: StoreContext, write_every: int = WRITE_EVERY) -> None:
        """Read the file of an earlier run in ``context.root``.

        Raises:
            StoreError: the file exists and cannot be read.
        """
        self.counts: Counter[str] = Counter()
        self._files = context.world.files
        self._path = counts_file(context.root)
        self._write_every = write_every
        self._handled = 0  # log offset up to which `counts` was made
        self._written = 0  # and up to which the file was
        self._since_written = 0  # entries
        if self._files.stat(self._path) is not None:
            self._read()

    def position(self) -> int:
        """Log offset up to which the file has all counts."""
        return self._written

    def dispatch(self, entries: Sequence[DispatchEntry]) -> None:
        """Count *entries*; skip those already counted."""
        for entry in entries:
            if entry.log_offset >= self._handled:
                if entry.sys_flag & TRANSACTION_MASK not in (TRANSACTION_PREPARED, TRANSACTION_ROLLBACK):
                    self.counts[entry.topic] += 1
                self._handled = entry.log_offset + entry.size
                self._since_written += 1
        if self._since_written >= self._write_every:
            self.flush()

    def truncate(self, log_offset: int) -> None:
        """Start again if counted messages were removed from the log; the file is on disk when this returns."""
        if self._handled > log_offset:
            self.counts.clear()
            self._handled = 0
            self.flush()

    def flush(self) -> None:
        """Write the file, if something changed."""
        if self._handled != self._written:
            self._files.make_dirs(self._path.parent)
            content = {"position": self._handled, "counts": dict(sorted(self.counts.items()))}
            self._files.replace(self._path, json.dumps(content, ensure_ascii=False).encode())
            self._written = self._handled
        self._since_written = 0

    def _read(self) -> None:
        try:
            content = json.loads(self._files.read(self._path))
            self._handled = self._written = int(content["position"])
            self.counts.update({str(topic): int(count) for topic, count in content["counts"].items()})
        except (ValueError, KeyError, TypeError, AttributeError) as problem:
            raise StoreError(
                f"{self._path} is not what {self.name} writes ({problem!r}); move it away to count the log again"
            ) from problem


def counts_file(root: Path) -> Path:
    """Path of the counts of a broker with its store in *root*."""
    return root / "plugins" / TopicCounts.name / "counts.json"
