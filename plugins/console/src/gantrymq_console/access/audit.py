"""The audit log: one line of JSON for every change, and for every page that showed bodies of messages.

A change is written before it is attempted and again with its result. If the first line cannot be written, the change is
refused.

On disk it is ``audit.log`` and older files ``audit.log.1`` to ``audit.log.9``, each of up to 10 MiB: one line of JSON
for each entry, synced before `FileAudit.write` returns. After a failed write, and if another program removed or changed
the file, it is opened again; an incomplete last line is ended first, and readers skip lines that are not JSON.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Final, Protocol

import attrs

from gantrymq.errors import ConfigError
from gantrymq.plugin.world import File, Files, Lock, World, make_durable_dirs

_NAME: Final = "audit.log"
_LOCK: Final = "console.lock"
FILE_BYTES: Final = 10 * 1024 * 1024
_FILES: Final = 10
_REQUEST_ID: Final = re.compile(rb'"request_id": "([^"]*)"')
_ATTEMPT: Final = b'"result": ""}'  # end of the line that was written before a change
_PLAIN: Final = re.compile(r'[^"\\\x00-\x1f]*')  # texts that JSON does not escape


class AuditUnwritable(Exception):
    """The audit log cannot be written; the text says why. Nothing was changed."""


@attrs.frozen
class Entry:
    """One line of the audit log."""

    time_ms: int
    request_id: str
    user: str
    address: str  # of the visitor
    action: str  # name of the action or page
    target: str
    change: str = ""  # such as "24 -> 8 queues"
    result: str = ""  # empty: attempted; "done", "failed", "read", or an error's sentence

    def contains(self, text: str) -> bool:
        """Return whether a value contains *text*, in any case."""
        return any(text.lower() in str(each).lower() for each in attrs.astuple(self))

    def line(self) -> bytes:
        """Return the entry as a line of JSON."""
        return json.dumps(attrs.asdict(self), ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"


class Audit(Protocol):
    """Writes and finds entries."""

    async def write(self, entry: Entry) -> None:
        """Append an entry durably. Raises AuditUnwritable."""

    async def find(self, text: str, start: int, count: int) -> tuple[list[Entry], int]:
        """Return entries that contain *text*, the newest first, and their total number.

        A change is one entry: its attempt is left out if its result is known.
        """

    def lines(self) -> AsyncIterator[bytes]:
        """Return the whole log as lines of JSON, the oldest first, several at once."""


class MemoryAudit:
    """An audit log in memory, for tests."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    async def write(self, entry: Entry) -> None:
        """Append an entry."""
        self.entries = [*self.entries[-999:], entry]

    async def find(self, text: str, start: int, count: int) -> tuple[list[Entry], int]:
        """Return entries that contain *text*, the newest first, and their total number."""
        ended = {each.request_id for each in self.entries if each.result}
        known = [each for each in self.entries if each.result or each.request_id not in ended]
        found = [each for each in reversed(known) if each.contains(text)]
        return found[start : start + count], len(found)

    async def lines(self) -> AsyncIterator[bytes]:
        """Return all entries as lines of JSON, the oldest first."""
        for entry in self.entries:
            yield entry.line()


def lock_state(files: Files, folder: Path) -> Lock:
    """Lock the folder for one console: two would overwrite each other's audit log. Raises ConfigError."""
    try:
        files.make_dirs(folder)
        lock = files.lock(folder / _LOCK, b"")
    except OSError as problem:
        raise ConfigError(f"{folder}: {problem.strerror or problem}; choose another folder with --state") from problem
    if lock is None:
        raise ConfigError(f"another console uses {folder}: give this one a folder of its own with --state")
    return lock


class FileAudit:
    """An audit log in a folder, which is created by the first entry."""

    def __init__(self, world: World, folder: Path, file_bytes: int = FILE_BYTES) -> None:
        self._files = world.files
        self._workers = world.workers
        self._path = folder / _NAME
        self._file_bytes = file_bytes
        self._writing = asyncio.Lock()
        self._file: File | None = None
        self._end = 0

    async def write(self, entry: Entry) -> None:
        """Append an entry durably. Raises AuditUnwritable."""
        async with self._writing:
            try:
                await self._workers.run(self._append, entry.line())
            except OSError as problem:
                self._close()
                reason = problem.strerror or str(problem)
                raise AuditUnwritable(f"the audit log {self._path} cannot be written: {reason}") from problem

    async def find(self, text: str, start: int, count: int) -> tuple[list[Entry], int]:
        """Return entries that contain *text*, the newest first, and their total number."""
        async with self._writing:
            return await self._workers.run(self._find, text, start, count)

    async def lines(self) -> AsyncIterator[bytes]:
        """Return the content of all files, the oldest first."""
        for place in reversed(range(_FILES)):
            path = self._nth(place)
            if self._files.stat(path) is not None:
                yield await self._workers.run(self._files.read, path)

    async def close(self) -> None:
        """Close the file. Idempotent."""
        async with self._writing:
            self._close()

    def _append(self, line: bytes) -> None:
        stat = self._files.stat(self._path) if self._file is not None else None
        if stat is None or stat.size != self._end:  # removed, moved or changed by another program
            self._close()
        if self._file is not None and self._end + len(line) > self._file_bytes:
            self._rotate()
        file = self._file or self._open()
        file.pwrite(line, self._end)
        file.datasync()
        self._end += len(line)

    def _open(self) -> File:
        make_durable_dirs(self._files, self._path.parent)
        self._file = file = self._files.open(self._path, create=True)
        self._end = file.size()
        if self._end and file.pread(1, self._end - 1) != b"\n":
            file.pwrite(b"\n", self._end)
            self._end += 1
        self._files.sync_dir(self._path.parent)
        return file

    def _rotate(self) -> None:
        self._close()
        for place in reversed(range(_FILES - 1)):
            if self._files.stat(self._nth(place)) is not None:
                self._files.rename(self._nth(place), self._nth(place + 1))

    def _close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _nth(self, place: int) -> Path:
        return self._path.with_name(f"{_NAME}.{place}") if place else self._path

    def _find(self, text: str, start: int, count: int) -> tuple[list[Entry], int]:
        found, total = list[Entry](), 0
        ended: set[bytes] = set()  # requests whose result was seen
        # Lines are compared as bytes first, of which only letters of ASCII have a lower case.
        wanted = text.lower().encode() if text.isascii() and _PLAIN.fullmatch(text) else b""
        for line in self._newest_first():
            if wanted not in line.lower():
                continue
            match = _REQUEST_ID.search(line)
            if match is None or (line.endswith(_ATTEMPT) and match[1] in ended):
                continue
            shown = start <= total < start + count
            entry = _entry(line) if text or shown else None
            if text and (entry is None or not entry.contains(text)):
                continue
            if match[1]:
                ended.add(match[1])
            if shown and entry is not None:
                found.append(entry)
            total += 1
        return found, total

    def _newest_first(self) -> Iterator[bytes]:
        for place in range(_FILES):
            if self._files.stat(self._nth(place)) is not None:
                yield from reversed(self._files.read(self._nth(place)).splitlines())


def _entry(line: bytes) -> Entry | None:
    try:
        members: Any = json.loads(line)
        return Entry(**{field.name: members[field.name] for field in attrs.fields(Entry)})
    except (ValueError, KeyError, TypeError):
        return None
