"""Reading and writing an archive so that a crash at any call leaves what was before a commit, or what is after it.

    stage files, durable  ->  write the commit  ->  move files to their places  ->  now and then: write the whole state
                              (the one step that counts)

Until the commit is there, nobody sees its files: they lie in ``_staging``, which readers of folders pass over. From
then on they are part of the archive; who opens it for writing next moves those that are still there, and removes files
that no commit names. Who reads by the manifest finds them at either place.

One process writes at a time. The folder has to be a file system with renames: a disk or a mount, no object store.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from gantrymq.errors import FormatError, StoreLocked
from gantrymq.model.queue import Queue
from gantrymq.world.files import Files
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

__all__ = ["Archive", "data_path", "read_state"]

STATE_EVERY = 16  # commits
TRIES = 5  # of reading while somebody writes


def read_state(files: Files, root: Path) -> ArchiveState:
    """What is in the archive *root*; nothing where there is none. Somebody may write to it meanwhile.

    Raises:
        FormatError: its manifest has a gap or cannot be read.
        OSError: the disk failed.
    """
    for last in (False,) * (TRIES - 1) + (True,):
        try:
            return _load(files, root)[0]
        except FileNotFoundError:  # a state took the place of this commit
            if last:
                raise
    raise AssertionError


def data_path(files: Files, root: Path, file: ArchivedFile) -> Path:
    """Where *file* is now: at its place, or not yet moved there."""
    staged = root / STAGING / file.name
    return staged if files.stat(staged) is not None else root / file.path


class Archive:
    """An archive open for writing; a context manager. After an error of `commit`, close it and open it again."""

    def __init__(self, files: Files, root: Path) -> None:
        """Make the folder if need be, and finish what an interrupted writer left.

        Raises:
            StoreLocked: another process writes to it.
            FormatError: its manifest cannot be read.
            OSError: the disk failed.
        """
        self.root = root
        self._files = files
        files.make_dirs(root / MANIFEST)
        files.make_dirs(root / STAGING)
        lock = files.lock(root / MANIFEST / "lock", b"")
        if lock is None:
            raise StoreLocked(f"{root} is being written by another process; wait for it, or end it")
        self._lock = lock
        try:
            self.state, self._since_state = _load(files, root)
            self._recover()
        except BaseException:
            lock.release()
            raise

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """Let others write. What was staged and not committed is removed by the next one."""
        self._lock.release()

    def stage(self, name: str, data: bytes) -> int:
        """Write a file's content, durable; returns its length. Workers may do the same with files of their own."""
        self._files.replace(self.root / STAGING / name, data)
        return len(data)

    def commit(
        self,
        added: Iterable[ArchivedFile] = (),
        progress: Mapping[tuple[str, Queue], QueueProgress] | None = None,
        logs: Mapping[str, int] | None = None,
        removed: Iterable[str] = (),
    ) -> ArchiveState:
        """Make staged files part of the archive, take others out, and note how far queues are: all of it or nothing.

        Raises:
            StoreError: a message would be there twice, or be taken for archived and not be there; nothing happened.
            OSError: the disk failed; whether it happened shows when the archive is opened again.
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
        """Move and remove files, which the commit has decided."""
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
        """Remove what a state has taken the place of, and what an interrupted write left."""
        folder = self.root / MANIFEST
        oldest = self.state.version - len(self._since_state)
        for name in self._files.list(folder):
            version, state = commit_version(name), commit_version(name, state=True)
            old = (version is not None and version <= oldest) or (state is not None and state < oldest)
            if old or name.endswith(".tmp"):
                self._files.remove(folder / name)


def _load(files: Files, root: Path) -> tuple[ArchiveState, list[Commit]]:
    """The state, and the commits since it was last written whole."""
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


def _read(files: Files, path: Path) -> Commit:
    try:
        document = json.loads(files.read(path))
    except ValueError as problem:
        raise FormatError(f"{path} is no JSON: {problem}; restore it from a copy") from None
    return read_commit(document, str(path))
