"""Documents that the console keeps in its folder, such as saved searches: JSON files that are replaced atomically."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from gantrymq.errors import GantryError
from gantrymq.plugin.world import World, make_durable_dirs

_MODE: Final = 0o600


class StateUnusable(GantryError):
    """A file of the console's folder cannot be read or written; the text names it and says why."""


class StateFile:
    """One document. Without a folder it is kept in memory only."""

    def __init__(self, world: World, folder: Path | None, name: str) -> None:
        self._files = world.files
        self._workers = world.workers
        self._path = folder / name if folder is not None else None

    async def load(self) -> Any:
        """Return the document; None if there is none. Raises StateUnusable."""
        return await self._workers.run(self._read) if self._path is not None else None

    async def store(self, document: Any) -> None:
        """Replace the document; it is synced when this returns. Raises StateUnusable: the old one is unchanged."""
        if self._path is not None:
            await self._workers.run(self._write, json.dumps(document, indent=1).encode() + b"\n")

    def _read(self) -> Any:
        assert self._path is not None
        try:
            return json.loads(self._files.read(self._path))
        except FileNotFoundError:
            return None
        except OSError as problem:
            raise StateUnusable(f"{self._path} cannot be read: {problem.strerror or problem}") from problem
        except (ValueError, RecursionError) as problem:
            raise StateUnusable(f"{self._path} is damaged: {problem}; move it away") from problem

    def _write(self, data: bytes) -> None:
        assert self._path is not None
        try:
            make_durable_dirs(self._files, self._path.parent)
            self._files.replace(self._path, data, _MODE)
        except OSError as problem:
            raise StateUnusable(f"{self._path} cannot be written: {problem.strerror or problem}") from problem
