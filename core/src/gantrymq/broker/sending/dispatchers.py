"""Running the dispatchers of plugins.

Each dispatcher is brought up to the log's end at startup and receives the entries of every publication after that. If
it raises an exception, it is suspended until the next start: the error is logged, the position is kept, and the broker
continues.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from gantrymq.interfaces import DispatchEntry, Dispatcher, MessageStore, StoreCapabilities
from gantrymq.world import Workers

log = logging.getLogger(__name__)

REPLAY_BATCH = 1000  # entries
FLUSH_S = 5.0


class SyncFlushGate:
    """The gate of ``flushDiskType=SYNC_FLUSH``, which waits until the log is synced.

    `pass_now` syncs on the event loop if the store can, and returns whether the gate has passed.
    """

    name = "sync flush"

    def __init__(self, store: MessageStore) -> None:
        self.passed = store.flushed
        loop_sync = StoreCapabilities.of(store).loop_sync
        self.pass_now = loop_sync.sync_now if loop_sync is not None else None


class Dispatchers:
    """The dispatchers, independent of each other."""

    def __init__(self, store: MessageStore, dispatchers: Sequence[Dispatcher], workers: Workers) -> None:
        self._store = store
        self._workers = workers
        self._all = tuple(dispatchers)
        self._running = list(dispatchers)
        self.parked: dict[str, str] = {}  # suspended dispatchers: name to reason

    async def catch_up(self) -> None:
        """Truncate each dispatcher at the log's end and replay missing entries; a thread reads the log."""
        state = self._store.state()
        for dispatcher in list(self._running):
            try:
                dispatcher.truncate(state.max_log_offset)
                await self._replay(dispatcher, state.min_log_offset, state.max_log_offset)
            except Exception as error:
                self._park(dispatcher, error)

    def published(self, entries: Sequence[DispatchEntry]) -> None:
        """Pass newly published entries to the dispatchers."""
        for dispatcher in list(self._running):
            self._guarded(dispatcher, lambda each: each.dispatch(entries))

    def truncated(self, log_offset: int) -> None:
        """Truncate every dispatcher, suspended ones included, before the log is truncated at *log_offset*."""
        for dispatcher in self._all:
            self._guarded(dispatcher, lambda each: each.truncate(log_offset))

    def flush(self) -> None:
        """Make every position durable; called every FLUSH_S to keep the replay after a crash short."""
        for dispatcher in list(self._running):
            self._guarded(dispatcher, lambda each: each.flush())

    async def close(self) -> None:
        """Make every position durable at shutdown."""
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
        if dispatcher in self._running:
            self._running.remove(dispatcher)
        self.parked[dispatcher.name] = f"{type(error).__name__}: {error}"
        log.error(
            "dispatcher %s is suspended until the next start; its position is kept", dispatcher.name, exc_info=error
        )


def _next_of(entries: Iterator[DispatchEntry]) -> list[DispatchEntry]:
    """Read the next entries; runs in a thread."""
    return list(islice(entries, REPLAY_BATCH))
