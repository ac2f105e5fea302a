"""Reads and writes an archive so that a crash at any point leaves the state before or after a commit.

    stage files, durable  ->  write the commit  ->  move files to their places  ->  sometimes: write the whole state
                              (takes effect here)

Before the commit, its files are in ``_staging``, which folder readers ignore. After it they are part of the archive;
the next writer that opens the archive moves files still in staging, and removes files that no commit names. Readers
that use the manifest find files at either place.

One process writes at a time. The folder must be on a file system with atomic renames: a disk or a mount, not an object
store.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from gantrymq.errors import FormatError, StoreLocked
from gantrymq.plugin.model import Queue
from gantrymq.plugin.world import FileReader, Files
from gantrymq_spark.jobs.archive_layout import (
    MANIFEST,
    STAGING,
    ArchivedFile,
    ArchiveState,
    Commit,
    QueueProgress,
    commit_json,
    commit_name,
    commit_version,
    read_commit,
    state_name,
)

STATE_EVERY = 16  # commits
_TRIES = 5  # of reading during a write


def read_state(files: FileReader, root: Path) -> ArchiveState:
    """Return the content of the archive *root*, empty if there is none. A writer may be active.

    Raises:
        FormatError: its manifest has a gap or cannot be read.
        OSError: the disk failed.
    """
    for last in (False,) * (_TRIES - 1) + (True,):
        try:
            return _load(files, root)[0]
        except FileNotFoundError:  # a state replaced this commit
            if last:
                raise
    raise AssertionError


def data_path(files: FileReader, root: Path, file: ArchivedFile) -> Path:
    """Return the current path of *file*: in its place, or still in staging."""
    staged = root / STAGING / file.name
    return staged if files.stat(staged) is not None else root / file.path


class Archive:
    """An archive open for writing; a context manager. After an error of `commit`, close and reopen it."""

    def __init__(self, files: Files, root: Path) -> None:
        """Create the folder if needed, and finish an interrupted write.

        Raises:
            StoreLocked: another process is writing to it.
            FormatError: its manifest cannot be read.
            OSError: the disk failed.
        """
        self.root = root
        self._files = files
        files.make_dirs(root / MANIFEST)
        files.make_dirs(root / STAGING)
        lock = files.lock(root / MANIFEST / "lock", b"")
        if lock is None:
            raise StoreLocked(f"{root} is being written by another process; wait for it, or stop it")
        self._lock = lock
        try:
            self.state, self._since_state = _load(files, root)
            self._recover()
        except BaseException:
            lock.release()
            raise

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """Release the lock. The next writer removes staged files that were not committed."""
        self._lock.release()

    def stage(self, name: str, data: bytes) -> int:
        """Write a file's content durably and return its length. Workers may do the same with their own files."""
        self._files.replace(self.root / STAGING / name, data)
        return len(data)

    def commit(
        self,
        added: Iterable[ArchivedFile] = (),
        progress: Mapping[tuple[str, Queue], QueueProgress] | None = None,
        logs: Mapping[str, int] | None = None,
        removed: Iterable[str] = (),
    ) -> ArchiveState:
        """Add staged files, remove others, and record the progress of queues, atomically.

        Raises:
            StoreError: a message would be duplicated, or marked as archived without being so; nothing was changed.
            OSError: the disk failed; reopening the archive shows whether the commit took effect.
        """
        made = Commit(self.state.version + 1, tuple(added), tuple(removed), dict(progress or {}), dict(logs or {}))
        self.state.check(made)
        path = self.root / MANIFEST / commit_name(made.version)
        self._files.replace(path, json.dumps(commit_json(made), indent=1).encode())
        self.state.apply(made)
        self._since_state.append(made)
        self._settle(made.added, made.removed)
        if len(self._since_state) >= STATE_EVERY:
            self._write_state()
        return self.state

    def _recover(self) -> None:
        placed = {file.name: file for file in self.state.files.values()}
        names = self._files.list(self.root / STAGING)
        for name in names:
            if name not in placed:
                self._files.remove(self.root / STAGING / name)
        removed = [path for commit in self._since_state for path in commit.removed]
        self._settle([placed[name] for name in names if name in placed], removed)
        self._prune()

    def _settle(self, added: Iterable[ArchivedFile], removed: Iterable[str]) -> None:
        """Move and remove files as the commit decided."""
        folders = set()
        for file in added:
            staged, place = self.root / STAGING / file.name, self.root / file.path
            if self._files.stat(staged) is None:
                continue
            self._files.make_dirs(place.parent)
            self._files.rename(staged, place)
            folders |= {place.parent, place.parent.parent, self.root}
        for path in removed:
            if path not in self.state.files:
                self._files.remove(self.root / path)
        for folder in sorted(folders):
            self._files.sync_dir(folder)

    def _write_state(self) -> None:
        data = json.dumps(self.state.to_json(), indent=1).encode()
        self._files.replace(self.root / MANIFEST / state_name(self.state.version), data)
        self._since_state = []
        self._prune()

    def _prune(self) -> None:
        """Remove files replaced by a state, and remains of interrupted writes."""
        folder = self.root / MANIFEST
        oldest = self.state.version - len(self._since_state)
        for name in self._files.list(folder):
            version, state = commit_version(name), commit_version(name, state=True)
            old = (version is not None and version <= oldest) or (state is not None and state < oldest)
            if old or name.endswith(".tmp"):
                self._files.remove(folder / name)


def _load(files: FileReader, root: Path) -> tuple[ArchiveState, list[Commit]]:
    """Return the state, and the commits since the last state file."""
    folder = root / MANIFEST
    names = files.list(folder)
    whole = max((v for name in names if (v := commit_version(name, state=True)) is not None), default=0)
    state = ArchiveState()
    if whole:
        first = _read(files, folder / state_name(whole))
        state = ArchiveState(
            first.version, {file.path: file for file in first.added}, dict(first.progress), dict(first.logs)
        )
    since = []
    for version in sorted(v for name in names if (v := commit_version(name)) is not None and v > whole):
        commit = _read(files, folder / commit_name(version))
        state.apply(commit)
        since.append(commit)
    return state, since


def _read(files: FileReader, path: Path) -> Commit:
    try:
        document = json.loads(files.read(path))
    except ValueError as problem:
        raise FormatError(f"{path} is not JSON: {problem}; restore it from a copy") from None
    return read_commit(document, str(path))
