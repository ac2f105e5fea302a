"""Writing the files of the tables, and keeping track of failed writes.

A file that cannot be written is retried until it succeeds; memory holds the current state meanwhile. On a full disk the
space of a `DiskReserve` is used. A problem is logged once and reported by ``gantrymq status`` and the metrics. After
`MOST_UNSAVED_S` seconds offset commits are refused, because they would be lost with the process.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final

import attrs

from gantrymq.broker.tables.disk_reserve import DiskReserve
from gantrymq.errors import StoreError
from gantrymq.formats.config import save
from gantrymq.world import World, is_disk_full

__all__ = ["MOST_UNSAVED_S", "StateWriter"]

log = logging.getLogger(__name__)

MOST_UNSAVED_S: Final = 60.0  # accept commits for this long while the offset file cannot be written


@attrs.frozen
class _Failure:
    sentence: str
    since: float  # monotonic s of the first failed attempt in a row


class StateWriter:
    """Writer for the state files of one folder."""

    def __init__(self, world: World, folder: Path, reserve: DiskReserve) -> None:
        """Create the writer without touching the disk."""
        self._world = world
        self._folder = folder
        self._reserve = reserve
        self._failures: dict[str, _Failure] = {}

    @property
    def failing(self) -> Mapping[str, str]:
        """Files whose last write failed: name to error sentence."""
        return {name: failure.sentence for name, failure in self._failures.items()}

    def failing_s(self, name: str) -> float:
        """Return for how many seconds writing a file has failed; 0 if its last write succeeded."""
        failure = self._failures.get(name)
        return 0.0 if failure is None else self._world.clock.monotonic() - failure.since

    def hold_room(self) -> None:
        """Allocate the reserve if there is space for it. Runs in a thread."""
        self._reserve.keep(0)

    async def write(self, name: str, text: Awaitable[Callable[[], str]]) -> StoreError | None:
        """Write a file. An error is logged and returned.

        Args:
            text: prepares the copies on the event loop; the resulting function encodes them in a thread.
        """
        path = self._folder / name
        try:
            await self._world.workers.run(self._write, path, await text)
        except OSError as error:
            return self._failed(name, f"{path} cannot be written: {error.strerror or error}; make room or fix it")
        except Exception as error:  # a bug of ours; waiters must still get an error
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
            if not is_disk_full(error) or not self._reserve.give_up():
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
