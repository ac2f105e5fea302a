"""Files on a disk that dies: from a chosen call on, every call that changes something fails."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from gantrymq.world.files import File, Files
from gantrymq_testing.forwarding import CHANGES, ForwardingFile, ForwardingFiles

T = TypeVar("T")


class FailingFiles(ForwardingFiles):
    """`Files` that pass calls on until `fail_at`, and fail every changing call from then on.

    ``done`` selects whether the failing call takes effect before it raises, for example a rename whose folder cannot
    be synced.
    """

    def __init__(self, inner: Files, fail_at: int | None = None, *, done: bool = False) -> None:
        """*fail_at*: number of the first changing call that fails, from 0; None for never."""
        super().__init__(inner)
        self._fail_at = fail_at
        self._done = done
        self.changes = 0  # changing calls so far, failed ones included

    @property
    def failed(self) -> bool:
        """Whether a call has failed."""
        return self._fail_at is not None and self.changes > self._fail_at

    def around(self, name: str, path: Path, proceed: Callable[[], T], *, position: int = 0, length: int = 0) -> T:
        """Count a changing call; raise OSError (EIO) if it is to fail."""
        if name not in CHANGES:
            return proceed()
        number = self.changes
        self.changes += 1
        if self._fail_at is None or number < self._fail_at:
            return proceed()
        if self._done and number == self._fail_at and name != "lock":  # a call that raised opened nothing
            proceed()
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

    def open(self, path: Path | str, *, create: bool = False, read_only: bool = False) -> File:
        """With *create* a changing call, which opens nothing if it fails."""
        if create:
            self.around("create", Path(path), lambda: self._inner.open(path, create=True).close())
        return ForwardingFile(self._inner.open(path, create=create, read_only=read_only), self)
