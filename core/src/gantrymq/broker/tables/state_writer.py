"""Writing the documents of the tables, and keeping track of failed writes.

A document that cannot be written is retried until it succeeds; memory holds the current state meanwhile. A problem is
logged once and reported by ``gantrymq status`` and the metrics. After `MOST_UNSAVED_S` seconds offset commits are
refused, because they would be lost with the process.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import attrs

from gantrymq.errors import StoreError
from gantrymq.interfaces import StateStore
from gantrymq.world import World

log = logging.getLogger(__name__)

MOST_UNSAVED_S: Final = 60.0  # accept commits for this long while the offset file cannot be written


@attrs.frozen
class _Failure:
    sentence: str
    since: float  # monotonic s of the first failed attempt in a row


class StateWriter:
    """Writer for the documents of one broker."""

    def __init__(self, world: World, store: StateStore) -> None:
        """Create the writer without touching the store."""
        self._world = world
        self._store = store
        self._failures: dict[str, _Failure] = {}

    @property
    def failing(self) -> Mapping[str, str]:
        """Files whose last write failed: name to error sentence."""
        return {name: failure.sentence for name, failure in self._failures.items()}

    def failing_s(self, name: str) -> float:
        """Return for how many seconds writing a file has failed; 0 if its last write succeeded."""
        failure = self._failures.get(name)
        return 0.0 if failure is None else self._world.clock.monotonic() - failure.since

    async def write(self, name: str, text: Awaitable[Callable[[], str]]) -> StoreError | None:
        """Write a file. An error is logged and returned.

        Args:
            text: prepares the copies on the event loop; the resulting function encodes them in a thread.
        """
        path = self._store.place(name)
        try:
            make = await text
            await self._world.workers.run(self._write, name, make)
        except OSError as error:
            return self._failed(name, f"{path} cannot be written: {error.strerror or error}; make room or fix it")
        except Exception as error:  # a bug of ours; waiters must still get an error
            log.exception("%s could not be made", path)
            return self._failed(name, f"{path} cannot be made: {error!r}")
        if self._failures.pop(name, None) is not None:
            log.warning("%s is written again", path)
        return None

    def _write(self, name: str, make: Callable[[], str]) -> None:
        self._store.save(name, make())

    def _failed(self, name: str, sentence: str) -> StoreError:
        before = self._failures.get(name)
        if before is None or before.sentence != sentence:
            log.warning("%s; it is tried again", sentence)
        self._failures[name] = _Failure(sentence, before.since if before else self._world.clock.monotonic())
        return StoreError(sentence)
