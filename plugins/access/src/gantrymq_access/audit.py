"""The audit log: who did what, from where, and what was decided, as JSON lines in files that are rotated.

    {"actions":["Pub"],"event":"refused","listener":"default","reason":"no_policy","request":10,
     "resource":"Topic:Orders","source":"10.0.0.7","time":ms,"user":"bob"}

    event     refused; would_refuse (accessMode=report); allowed (accessAuditPasses=true); changed (users and policies)
    reason    no_account, unknown_user, disabled, wrong_signature, no_policy, denied, not_super

Of one user (or address, if the user does not exist) and reason, at most `PER_SECOND` refusals a second are written; the
others are counted in a line of their own with the member ``repeated``. No line contains a secret or a signature.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from gantrymq.plugin.interfaces import MetricFamily
from gantrymq.plugin.loose_json import dumps_standard
from gantrymq.plugin.settings import Settings
from gantrymq.plugin.world import Files, World

log = logging.getLogger(__name__)

FILE: Final = "audit.log"
PER_SECOND: Final = 10
FLUSH_S: Final = 0.2
MOST_WAITING: Final = 20_000  # lines that are not written yet
MOST_LIMITS: Final = 10_000
MAX_TEXT: Final = 255  # characters of a name that a client sent


@attrs.define
class _Limit:
    """Lines of one user and reason in the current second."""

    since: float
    written: int = 0
    left_out: int = 0
    last: dict[str, Any] = attrs.field(factory=dict)


class Audit:
    """Records events, writes them in the background, and counts refusals by reason."""

    def __init__(self, world: World, settings: Settings) -> None:
        """Create the log; nothing is written before `start`."""
        self.refusals: Counter[tuple[str, str]] = Counter()  # by mode and reason
        self._world, self._settings = world, settings
        self._listeners: list[Callable[[Mapping[str, Any]], object]] = []
        self._limits: dict[tuple[str, str], _Limit] = {}
        self._waiting: list[bytes] = []
        self._lost = 0
        self._writing = asyncio.Lock()
        self._file: _AuditFile | None = None
        self._task: asyncio.Task[None] | None = None

    def listen(self, listener: Callable[[Mapping[str, Any]], object]) -> None:
        """Call *listener* with each recorded event, to send it elsewhere. Its exceptions are logged."""
        self._listeners.append(listener)

    def start(self, folder: Path) -> None:
        """Write to files in *folder* from now on."""
        self._file = _AuditFile(
            self._world.files,
            folder / FILE,
            self._settings.number("accessAuditFileSize"),
            self._settings.number("accessAuditFiles"),
        )
        self._task = asyncio.create_task(self._write_on())

    async def stop(self) -> None:
        """Write what waits."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None
        self._end_limits(everything=True)
        await self.flush()

    # --- events -------------------------------------------------------------------------------------------------------

    def refused(self, reason: str, subject: str, event: Mapping[str, Any], *, reporting: bool) -> None:
        """Record a refusal, or what would be one; *subject* is the user or address that the limit is about."""
        mode = "report" if reporting else "enforce"
        self.refusals[mode, reason] += 1
        now, key = self._world.clock.monotonic(), (subject, f"{mode} {reason}")
        limit = self._limits.get(key)
        if limit is None or now - limit.since >= 1:
            if limit is not None:
                self._report(limit)
            elif len(self._limits) >= MOST_LIMITS:
                self._end_limits(everything=True)
            limit = self._limits[key] = _Limit(now)
        line = _cut_all({"event": "would_refuse" if reporting else "refused", **event, "reason": reason})
        if limit.written < PER_SECOND:
            limit.written += 1
            self._record(line)
        else:
            limit.left_out += 1
            limit.last = line

    def allowed(self, event: Mapping[str, Any]) -> None:
        """Record an allowed request, if the setting says so."""
        if self._settings.flag("accessAuditPasses"):
            self._record({"event": "allowed", **event})

    async def changed(self, event: Mapping[str, Any]) -> None:
        """Record a change of users or policies, and return when it is written."""
        self._record({"event": "changed", **event})
        await self.flush()

    def metric(self) -> MetricFamily:
        """Return the refusals by reason."""
        return MetricFamily(
            "gantrymq_access_refusals_total",
            "Requests refused by access control; with mode report, those that would be refused.",
            ("mode", "reason"),
            {key: float(count) for key, count in self.refusals.items()},
            counter=True,
        )

    def _record(self, line: dict[str, Any]) -> None:
        event = {"time": self._world.clock.now_ms(), **_cut_all(line)}
        for listener in self._listeners:
            try:
                listener(event)
            except Exception:
                log.exception("a listener of the audit log failed")
        if self._file is None:
            return
        if len(self._waiting) >= MOST_WAITING:
            self._lost += 1
        else:
            self._waiting.append(dumps_standard(event) + b"\n")

    def _report(self, limit: _Limit) -> None:
        if limit.left_out:
            self._record({**limit.last, "repeated": limit.left_out})
            limit.left_out = 0

    def _end_limits(self, *, everything: bool = False) -> None:
        now = self._world.clock.monotonic()
        for key, limit in list(self._limits.items()):
            if everything or now - limit.since >= 1:
                self._report(limit)
                del self._limits[key]

    # --- writing ------------------------------------------------------------------------------------------------------

    async def _write_on(self) -> None:
        while True:
            await self._world.clock.sleep(FLUSH_S)
            try:
                self._end_limits()
                await self.flush()
            except Exception:
                log.exception("events of the audit log could not be written")

    async def flush(self) -> None:
        """Write what waits. A failed write is logged; its lines are lost and counted."""
        async with self._writing:
            if self._lost:
                self._waiting.append(dumps_standard({"event": "lost", "lines": self._lost}) + b"\n")
                self._lost = 0
            if self._file is None or not self._waiting:
                return
            lines, self._waiting = self._waiting, []
            try:
                await self._world.workers.run(self._file.append, b"".join(lines))
            except OSError as error:
                self._lost += len(lines)
                log.warning("%s cannot be written, %d lines are lost: %s", self._file.path, len(lines), error)


class _AuditFile:
    """The current file and the older ones, ``audit.log.1`` and so on. The methods access the disk."""

    def __init__(self, files: Files, path: Path, size: int, most: int) -> None:
        self.path = path
        self._files, self._size, self._most = files, size, most

    def append(self, data: bytes) -> None:
        """Append lines; before, rename a full file. Raises OSError."""
        found = self._files.stat(self.path)
        if found is not None and found.size and found.size + len(data) > self._size:
            self._rotate()
            found = None
        if found is None:
            self._files.make_dirs(self.path.parent)
            self._files.replace(self.path, data, 0o600)
            return
        file = self._files.open(self.path)
        try:
            file.pwrite(data, file.size())
        finally:
            file.close()

    def _rotate(self) -> None:
        for number in range(self._most - 1, 0, -1):
            newer = self._numbered(number - 1)
            if self._files.stat(newer) is not None:
                self._files.rename(newer, self._numbered(number))
        if self._most == 1:
            self._files.remove(self.path)

    def _numbered(self, number: int) -> Path:
        return self.path.with_name(f"{FILE}.{number}") if number else self.path


def _cut_all(line: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _cut(value) for name, value in line.items()}


def _cut(value: Any) -> Any:
    if isinstance(value, str):
        return value[:MAX_TEXT].encode(errors="replace").decode()
    return value


def names(values: Sequence[Any]) -> tuple[str, ...]:
    """Return the names of enumeration members for a line."""
    return tuple(each.value for each in values)
