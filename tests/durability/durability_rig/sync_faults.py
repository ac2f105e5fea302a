"""Files that leave syncs out, or hold them back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gantrymq_testing.recording import RecordingFiles

HELD_S = 30.0


class Unsynced:
    """Forwards all calls except ``datasync`` and ``sync_dir`` of some paths, which do nothing and are not recorded."""

    def __init__(self, inner: RecordingFiles, left_out: Callable[[Path], bool] | None = None) -> None:
        """*left_out*: for which paths; None leaves out ``datasync`` of every file, and no folder."""
        self._inner = inner
        self._left_out = left_out

    def open(self, path: Path | str, *, create: bool = False, read_only: bool = False) -> Any:
        file = self._inner.open(path, create=create, read_only=read_only)
        left_out = self._left_out is None or self._left_out(Path(path))
        return _File(file, lambda: None) if left_out else file

    def sync_dir(self, path: Path) -> None:
        if self._left_out is None or not self._left_out(path):
            self._inner.sync_dir(path)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class Held:
    """Files with calls that can be held: ``datasync`` and ``replace`` of their paths wait while `holding`."""

    def __init__(self, held: Callable[[Path], bool]) -> None:
        """*held*: for which paths."""
        self._held = held
        self._free = threading.Event()
        self._free.set()

    @contextmanager
    def holding(self) -> Iterator[None]:
        """Hold all of these calls meanwhile."""
        self._free.clear()
        try:
            yield
        finally:
            self._free.set()

    def around(self, inner: RecordingFiles) -> HeldFiles:
        """The files for the broker."""
        return HeldFiles(inner, self)

    def wait(self, path: Path) -> None:
        """Return at once, or when the path is let go."""
        if self._held(path) and not self._free.wait(HELD_S):
            raise TimeoutError(f"{path} was held for {HELD_S:g} s")


class HeldFiles:
    """Hands everything on, some of it when it is let go."""

    def __init__(self, inner: RecordingFiles, held: Held) -> None:
        self._inner = inner
        self._held = held

    def open(self, path: Path | str, *, create: bool = False, read_only: bool = False) -> Any:
        file = self._inner.open(path, create=create, read_only=read_only)

        def datasync() -> None:
            self._held.wait(Path(path))
            file.datasync()

        return _File(file, datasync)

    def replace(self, path: Path, data: bytes, mode: int | None = None) -> None:
        self._held.wait(Path(path))
        self._inner.replace(path, data, mode)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class _File:
    """A file with another ``datasync``."""

    def __init__(self, inner: Any, datasync: Callable[[], None]) -> None:
        self._inner = inner
        self.datasync = datasync

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)
