"""How the files of the tables are written, and which of them could not be.

A file that cannot be written is tried again until it can; memory has what it should hold. A full disk is met with the
room of a `Reserve`. What is wrong is logged once, shown by ``gantrymq status`` and metrics, and after `MOST_UNSAVED_S`
commits of offsets are refused: they would be lost with the process.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final

import attrs

from gantrymq.broker.tables.reserve import Reserve
from gantrymq.errors import StoreError
from gantrymq.formats.config import save
from gantrymq.world import World, is_full

__all__ = ["MOST_UNSAVED_S", "StateWrites"]

log = logging.getLogger(__name__)

MOST_UNSAVED_S: Final = 60.0  # for so long commits are taken that no file has


@attrs.frozen
class _Failure:
    sentence: str
    since: float  # monotonic, of the first try in a row


class StateWrites:
    """Writes files of one folder."""

    def __init__(self, world: World, folder: Path, reserve: Reserve) -> None:
        """Nothing is touched yet."""
        self._world = world
        self._folder = folder
        self._reserve = reserve
        self._failures: dict[str, _Failure] = {}

    @property
    def failing(self) -> Mapping[str, str]:
        """Name of each file that could not be written the last time, with a sentence."""
        return {name: failure.sentence for name, failure in self._failures.items()}

    def failing_s(self, name: str) -> float:
        """For how many seconds a file could not be written, 0 where it could."""
        failure = self._failures.get(name)
        return 0.0 if failure is None else self._world.clock.monotonic() - failure.since

    def hold_room(self) -> None:
        """Take the reserve where there is room for it. Runs in a thread."""
        self._reserve.keep(0)

    async def write(self, name: str, text: Awaitable[Callable[[], str]]) -> StoreError | None:
        """Write a file; the problem is returned as well as told.

        Args:
            text: what makes the text in a thread, of copies that the loop makes before.
        """
        path = self._folder / name
        try:
            await self._world.workers.run(self._write, path, await text)
        except OSError as error:
            return self._failed(name, f"{path} cannot be written: {error.strerror or error}; make room or fix it")
        except Exception as error:  # a mistake of ours; whoever waits has to hear of it all the same
            log.exception("%s could not be made", path)
            return self._failed(name, f"{path} cannot be made: {error!r}")
        if self._failures.pop(name, None) is not None:
            log.warning("%s is written again", path)
        return None

    def _write(self, path: Path, make: Callable[[], str]) -> None:
        text = make()
        try:
            save(self._world.files, path, text)
        except OSError as error:
            if not is_full(error) or not self._reserve.give_up():
                raise
            save(self._world.files, path, text)
        else:
            self._reserve.keep(2 * len(text))

    def _failed(self, name: str, sentence: str) -> StoreError:
        before = self._failures.get(name)
        if before is None or before.sentence != sentence:
            log.warning("%s; it is tried again", sentence)
        self._failures[name] = _Failure(sentence, before.since if before else self._world.clock.monotonic())
        return StoreError(sentence)
