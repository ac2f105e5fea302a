"""Searches that users save: the address of a page within the console, with its parameters, under a name.

They are in ``saved.json`` of the console's folder. A search contains what was searched for, nothing of what was found.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from gantrymq.plugin.world import World
from gantrymq_console.access.state import StateFile, StateUnusable
from gantrymq_console.web.pages import BadInput, NotFound

_NAME: Final = "saved.json"
MOST_EACH: Final = 100  # searches of one owner
MOST: Final = 5000  # of all
NAME_CHARS: Final = 80
PAGE_CHARS: Final = 2000


@attrs.frozen
class Saved:
    """One saved search."""

    id: str
    owner: str  # as by `owner_of`
    name: str
    page: str  # path and query within the console
    shared: bool  # whether all users of the console see it
    created_ms: int


class SavedSearches:
    """The saved searches of a console."""

    def __init__(self, world: World, folder: Path | None) -> None:
        self._clock = world.clock
        self._file = StateFile(world, folder, _NAME)
        self._changing = asyncio.Lock()
        self._searches: dict[str, Saved] | None = None  # by id, the oldest first

    async def all(self) -> list[Saved]:
        """Return all searches. Raises StateUnusable: the file cannot be used."""
        async with self._changing:
            return list((await self._loaded()).values())

    async def add(self, owner: str, name: str, page: str, *, shared: bool) -> Saved:
        """Save a search. Raises BadInput: there are too many, or one with this name; StateUnusable."""
        async with self._changing:
            known = await self._loaded()
            own = [each for each in known.values() if each.owner == owner]
            if len(own) >= MOST_EACH:
                raise BadInput("saved.too_many_own", most=MOST_EACH)
            if len(known) >= MOST:
                raise BadInput("saved.too_many", most=MOST)
            made = Saved(
                secrets.token_hex(8), owner, _free_name(known, owner, name), page, shared, self._clock.now_ms()
            )
            await self._store({**known, made.id: made})
            return made

    async def find(self, search_id: str) -> Saved:
        """Return one search. Raises NotFound, StateUnusable."""
        async with self._changing:
            return _one(await self._loaded(), search_id)

    async def rename(self, search_id: str, name: str) -> Saved:
        """Give a search another name. Raises BadInput: its owner has one with this name; NotFound, StateUnusable."""
        async with self._changing:
            known = await self._loaded()
            found = _one(known, search_id)
            others = {key: each for key, each in known.items() if key != search_id}
            changed = attrs.evolve(found, name=_free_name(others, found.owner, name))
            await self._store({**known, search_id: changed})
            return changed

    async def share(self, search_id: str, *, shared: bool) -> Saved:
        """Share a search, or make it private. Raises NotFound, StateUnusable."""
        async with self._changing:
            known = await self._loaded()
            changed = attrs.evolve(_one(known, search_id), shared=shared)
            await self._store({**known, search_id: changed})
            return changed

    async def delete(self, search_id: str) -> Saved:
        """Delete a search. Raises NotFound, StateUnusable."""
        async with self._changing:
            known = await self._loaded()
            found = _one(known, search_id)
            await self._store({key: each for key, each in known.items() if key != search_id})
            return found

    async def _loaded(self) -> dict[str, Saved]:
        if self._searches is None:
            self._searches = _parsed(await self._file.load())
        return self._searches

    async def _store(self, searches: dict[str, Saved]) -> None:
        await self._file.store({"version": 1, "searches": [attrs.asdict(each) for each in searches.values()]})
        self._searches = searches


def _one(known: Mapping[str, Saved], search_id: str) -> Saved:
    if search_id not in known:
        raise NotFound("saved.not_there")
    return known[search_id]


def _free_name(known: Mapping[str, Saved], owner: str, name: str) -> str:
    name = " ".join(name.split())
    if not name or len(name) > NAME_CHARS or not name.isprintable():
        raise BadInput("saved.bad_name", most=NAME_CHARS)
    if any((each.owner, each.name) == (owner, name) for each in known.values()):
        raise BadInput("saved.name_taken", name=name)
    return name


def _parsed(document: Any) -> dict[str, Saved]:
    if document is None:
        return {}
    try:
        found = [
            Saved(
                str(each["id"]),
                str(each["owner"]),
                str(each["name"]),
                str(each["page"]),
                each["shared"] is True,
                int(each["created_ms"]),
            )
            for each in document["searches"]
        ]
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as problem:
        raise StateUnusable(f"{_NAME} has another form: {type(problem).__name__}: {problem}; move it away") from problem
    return {each.id: each for each in found}
