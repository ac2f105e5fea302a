"""Files that record the order of every call, to prove what was durable at which time.

A write is recorded after it was made and a sync at its begin and at its end, so that the order of the records is
conclusive: a write recorded before the begin of a sync was made before it. `RecordingFiles.note` adds events of the
test ("a response was sent") in the same order. Works with real and simulated files, from any number of threads.
"""

from __future__ import annotations

import builtins
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple, TypeVar

from gantrymq.world import Files
from gantrymq_testing.forwarding import ForwardingFiles

T = TypeVar("T")

WRITES = frozenset({"pwrite"})  # calls with data that a sync must cover
SYNC_BEGINS, SYNC_ENDS, SYNC_FAILS = "datasync.begin", "datasync.end", "datasync.fail"
NOTED_AS = {"create": "open", "peek": "pread", "pread_cached": "pread", "lock_folder": "lock"}
UNNOTED = frozenset({"stat", "list", "disk_use", "size", "written", "watch", "unwatch", "release"})
WHERE_FOUND = frozenset({"peek", "pread_cached", "lock", "lock_folder"})  # recorded unless they return None


class Call(NamedTuple):
    """One call, in the order of all threads' calls."""

    number: int  # from 0; the index in `RecordingFiles.calls`
    name: str  # of the method; "datasync.begin", "datasync.end" or "datasync.fail" for a sync
    path: Path
    position: int = 0  # bytes from the start of the file
    length: int = 0  # bytes; the new length for truncate and allocate
    begun: int = -1  # for the end of a sync: number of its begin


class RecordingFiles(ForwardingFiles):
    """`Files` that pass every call on and record it once it succeeded; queries (``stat``, ``size``) are not recorded.

    Names are those of `gantrymq_testing.forwarding`, except those in NOTED_AS and these: a rename is recorded under the
    old path and as ``rename.to`` under the new one; a sync as "datasync.begin", then "datasync.end", or "datasync.fail"
    if it raises; the sync of a volume as that of every file with an earlier write. The length of a read is the number
    of bytes read.
    """

    def __init__(self, inner: Files) -> None:
        super().__init__(inner)
        self._guard = threading.Lock()
        self._calls: list[Call] = []

    @property
    def calls(self) -> builtins.list[Call]:
        """A copy of all calls so far."""
        with self._guard:
            return self._calls.copy()

    def note(self, name: str, path: Path, position: int = 0, length: int = 0, begun: int = -1) -> int:
        """Add a call, or an event of the test's own, to the order; returns its number."""
        with self._guard:
            number = len(self._calls)
            self._calls.append(Call(number, name, path, position, length, begun))
            return number

    def unsynced(self, path: Path, before: int) -> builtins.list[Call]:
        """Return the writes to *path* recorded before number *before* and not covered by a sync that ended before it.

        A sync covers the writes recorded before its begin, through any handle of the path. The path is the one a handle
        was opened with. Data written by ``replace`` is durable when it returns and is not counted.
        """
        calls = [call for call in self.calls[:before] if call.path == path]
        covered = max((call.begun for call in calls if call.name == SYNC_ENDS), default=-1)
        return [call for call in calls if call.name in WRITES and call.number > covered]

    def around(self, name: str, path: Path, proceed: Callable[[], T], *, position: int = 0, length: int = 0) -> T:
        """Make the call and record it."""
        if name == "datasync":
            return self._sync([path], proceed)
        if name == "syncfs":
            return self._sync(sorted({call.path for call in self.calls if call.name in WRITES}), proceed)
        result = proceed()
        if name not in UNNOTED and not (name in WHERE_FOUND and result is None):
            self.note(NOTED_AS.get(name, name), path, position, _length(result, length))
        return result

    def rename(self, old: Path, new: Path) -> None:
        """Noted under both paths."""
        super().rename(old, new)
        self.note("rename.to", new)

    def _sync(self, paths: Iterable[Path], proceed: Callable[[], T]) -> T:
        begun = {path: self.note(SYNC_BEGINS, path) for path in paths}
        try:
            result = proceed()
        except BaseException:
            for path, number in begun.items():
                self.note(SYNC_FAILS, path, begun=number)
            raise
        for path, number in begun.items():
            self.note(SYNC_ENDS, path, begun=number)
        return result


def _length(result: object, asked: int) -> int:
    """Return the length of a call: the bytes returned by a read, else those requested."""
    return len(result) if isinstance(result, bytes) else asked
