"""Sends of dead letters without a known result, kept in ``resends.json`` of the console's folder.

A send is noted before it begins, and the note is removed when it has failed, or its copy is found, which is the record
of a send. What is left, because the answer was lost, the console was killed, or brokers have no index, may have been
sent or not, so it is not sent again unless a user asks for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from gantrymq.plugin.world import World
from gantrymq_console.access.state import StateFile, StateUnusable

log = logging.getLogger(__name__)

_NAME: Final = "resends.json"
MOST: Final = 10_000  # notes; then the oldest ones are dropped


@attrs.frozen
class Note:
    """One send without a known result."""

    time_ms: int
    by: str


class ResendNotes:
    """The notes of a console, as `gantrymq_admin.resending.Notes`."""

    def __init__(self, world: World, folder: Path | None) -> None:
        self._clock = world.clock
        self._file = StateFile(world, folder, _NAME)
        self._writing = asyncio.Lock()
        self._notes: dict[tuple[str, str], Note] | None = None  # by group and place, the oldest first

    async def load(self) -> None:
        """Read the file once. Raises StateUnusable."""
        async with self._writing:
            if self._notes is None:
                self._notes = _parsed(await self._file.load())

    def unknown(self, group: str) -> Mapping[str, Note]:
        """Return the notes of *group* by place, after `load`."""
        return {place: note for (known, place), note in (self._notes or {}).items() if known == group}

    async def begin(self, group: str, places: Sequence[str], by: str) -> None:
        """Note that these letters are being sent. Raises StateUnusable: they must not be sent."""
        note = Note(self._clock.now_ms(), by)
        async with self._writing:
            changed = {**(self._notes or {}), **{(group, place): note for place in places}}
            dropped = list(changed)[: max(0, len(changed) - MOST)]
            for each in dropped:
                log.warning("the oldest note of a dead letter whose send had no answer is dropped: %s %s", *each)
                del changed[each]
            await self._store(changed)

    async def end(self, group: str, places: Sequence[str]) -> None:
        """Remove notes. If the file cannot be written, they come back with the next start."""
        async with self._writing:
            changed = dict(self._notes or {})
            for place in places:
                changed.pop((group, place), None)
            try:
                await self._store(changed)
            except StateUnusable as problem:
                self._notes = changed
                log.error("results of dead letters that were sent again are not noted: %s", problem)

    async def _store(self, notes: dict[tuple[str, str], Note]) -> None:
        rows = [{"group": group, "place": place, **attrs.asdict(note)} for (group, place), note in notes.items()]
        await self._file.store({"version": 1, "unknown": rows})
        self._notes = notes


def _parsed(document: Any) -> dict[tuple[str, str], Note]:
    if document is None:
        return {}
    try:
        return {
            (str(each["group"]), str(each["place"])): Note(int(each["time_ms"]), str(each["by"]))
            for each in document["unknown"]
        }
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as problem:
        raise StateUnusable(f"{_NAME} has another form: {type(problem).__name__}: {problem}; move it away") from problem
