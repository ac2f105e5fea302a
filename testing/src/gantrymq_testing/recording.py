"""Files that remember the order of every call, to prove what was durable when.

A write is noted after it was made and a sync when it begins and when it has ended, so the order of the notes is safe
to argue from: a write noted before a sync began was made before it. `RecordingFiles.note` lets a test put events of its
own ("a reply left") into the same order. Works around real and simulated files, from any number of threads.
"""

from __future__ import annotations

import builtins
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple, TypeVar, cast

from gantrymq.world import Files, Mapping
from gantrymq_testing.forwarding import ForwardingFiles

T = TypeVar("T")

WRITES = frozenset({"write", "pwrite"})  # calls whose bytes a sync has to cover
SYNC_BEGINS, SYNC_ENDS, SYNC_FAILS = "datasync.begin", "datasync.end", "datasync.fail"
NOTED_AS = {"create": "open", "peek": "pread", "pread_cached": "pread", "lock_folder": "lock"}
UNNOTED = frozenset({"stat", "list", "disk_use", "size", "written", "watch", "unwatch", "release"})
WHERE_FOUND = frozenset({"peek", "pread_cached", "lock", "lock_folder"})  # noted unless they return None


class Call(NamedTuple):
    """One call, in the order in which all threads made them."""

    number: int  # from 0; the index in `RecordingFiles.calls`
    name: str  # of the method; "datasync.begin", "datasync.end" or "datasync.fail" for a sync
    path: Path
    position: int = 0  # bytes from the start of the file
    length: int = 0  # bytes; the new length for truncate and allocate
    begun: int = -1  # for the end of a sync: number of its beginning


class RecordingFiles(ForwardingFiles):
    """`Files` that hands every call on and notes it once it succeeded; questions (``stat``, ``size``) are not noted.

    Names are those of `gantrymq_testing.forwarding`, but for those in NOTED_AS and these: a rename is noted under the
    old path and as ``rename.to`` under the new one; a sync as "datasync.begin", then "datasync.end", or "datasync.fail"
    when it raises; the sync of a volume as that of every file with a write before it. The length of a read is what was
    found, that of ``map`` the size.
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
        """Writes to *path* noted before number *before* that no sync ended before *before* has covered.

        A sync covers the writes that were noted before it began, whichever handle of the path made them. The path is
        the one a handle was opened under. What ``replace`` writes is durable when it returns and is not counted.
        """
        calls = [call for call in self.calls[:before] if call.path == path]
        covered = max((call.begun for call in calls if call.name == SYNC_ENDS), default=-1)
        return [call for call in calls if call.name in WRITES and call.number > covered]

    def around(self, name: str, path: Path, proceed: Callable[[], T], *, position: int = 0, length: int = 0) -> T:
        """Make the call and note it."""
        if name == "datasync":
            return self._sync([path], proceed)
        if name == "syncfs":
            return self._sync(sorted({call.path for call in self.calls if call.name in WRITES}), proceed)
        result = proceed()
        if name not in UNNOTED and not (name in WHERE_FOUND and result is None):
            self.note(NOTED_AS.get(name, name), path, position, _length(name, result, length))
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


def _length(name: str, result: object, asked: int) -> int:
    """Bytes that a call was about: what a read or a map found, else what it asked for."""
    if name == "map":
        return cast(Mapping, result).size
    return len(result) if isinstance(result, bytes) else asked
