"""Dispatchers: followers of the log that plugins bring.

Each is brought up to the log's end at start and then fed after every publication. One that raises is parked: it keeps
its position, says so in the log, and is not fed again until the next start; the broker goes on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from gantrymq.interfaces import DispatchEntry, Dispatcher, MessageStore
from gantrymq.world import Workers

log = logging.getLogger(__name__)

REPLAY_BATCH = 1000  # entries
FLUSH_S = 5.0


class SyncFlushGate:
    """The gate of ``flushDiskType=SYNC_FLUSH``: an acknowledgement waits for the disk."""

    name = "sync flush"

    def __init__(self, store: MessageStore) -> None:
        self.passed = store.flushed


class Dispatchers:
    """Runs dispatchers side by side, each on its own feet."""

    def __init__(self, store: MessageStore, dispatchers: Sequence[Dispatcher], workers: Workers) -> None:
        self._store = store
        self._workers = workers
        self._running = list(dispatchers)
        self.parked: dict[str, str] = {}  # name to reason

    async def catch_up(self) -> None:
        """Cut every dispatcher to the log's end and replay what it has not seen; the log is read in a thread."""
        state = self._store.state()
        for dispatcher in list(self._running):
            try:
                dispatcher.truncate(state.max_log_offset)
                await self._replay(dispatcher, state.min_log_offset, state.max_log_offset)
            except Exception as error:
                self._park(dispatcher, error)

    def published(self, entries: Sequence[DispatchEntry]) -> None:
        """Feed what was just published."""
        for dispatcher in list(self._running):
            self._guarded(dispatcher, lambda each: each.dispatch(entries))

    def flush(self) -> None:
        """Make every position durable; called every FLUSH_S, so that a start after a kill replays little."""
        for dispatcher in list(self._running):
            self._guarded(dispatcher, lambda each: each.flush())

    async def close(self) -> None:
        """Make every position durable, for the last time."""
        self.flush()

    async def _replay(self, dispatcher: Dispatcher, first: int, end: int) -> None:
        entries = iter(self._store.scan(max(dispatcher.position(), first), end))
        while batch := await self._workers.run(_next_of, entries):
            dispatcher.dispatch(batch)

    def _guarded(self, dispatcher: Dispatcher, action: Callable[[Dispatcher], None]) -> None:
        try:
            action(dispatcher)
        except Exception as error:
            self._park(dispatcher, error)

    def _park(self, dispatcher: Dispatcher, error: Exception) -> None:
        self._running.remove(dispatcher)
        self.parked[dispatcher.name] = f"{type(error).__name__}: {error}"
        log.error("dispatcher %s is parked until the next start; its position is kept", dispatcher.name, exc_info=error)


def _next_of(entries: Iterator[DispatchEntry]) -> list[DispatchEntry]:
    """Runs in a thread."""
    return list(islice(entries, REPLAY_BATCH))
