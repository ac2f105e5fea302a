"""Building the index in the background: published messages are indexed a few milliseconds later, many at a time.

    publish --> waiting --(5 ms later, in steps)--> entries and header of the newest file (`index.files`)
                                  a full file requests a checkpoint; checkpoints also run periodically

The index is either up to date or lagging: after a start that found it incomplete, after a failed write or checkpoint,
or when too many messages were waiting. While it lags, nothing waits in memory; a thread reads the log from the position
reached, and its records are indexed in short steps, until the end of the log.

The slots of an existing file are loaded, in a thread, when the first entry is added to it: they take 20 MB of memory,
which a broker that only serves reads does not need.

An index that cannot be written does not block sends; the failure is logged once, the write is retried every second, and
queries report it.

Steps pause while a checkpoint writes slots, about 0.1 s for 20 MB: copying the slots instead would block the event loop
for the same time.

A stop indexes what was published and leaves the rest to the last checkpoint. A query that arrives while keys wait in
memory first has them indexed; if the index lags behind the log, the query waits at most `QUERY_WAIT_S`, and its answer
says if it may be incomplete (`QueryResult.complete`).

Source: apache/rocketmq store/.../index/IndexService.java (buildIndex).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import attrs

from gantrymq.plugin.interfaces import DispatchEntry
from gantrymq.plugin.world import Clock, Timer, Workers
from gantrymq_storage_mmap.index.checkpoint import IndexCheckpoint
from gantrymq_storage_mmap.index.file import IndexPosition
from gantrymq_storage_mmap.index.files import IndexFiles
from gantrymq_storage_mmap.index.folder import LoadedIndex
from gantrymq_storage_mmap.log.commit_log import CommitLog
from gantrymq_storage_mmap.log.source import CommitLogSource
from gantrymq_store_files.log_entries import LogEntries
from gantrymq_store_files.log_walk import LogDamage

_CALM_S = 1.0  # delay after a start, which is busy enough
_PAUSE_S = 0.005  # messages published meanwhile are indexed together
RETRY_S = 1.0
STEP_MESSAGES = 256  # per turn of the event loop: under 1 ms
MOST_WAITING = 100_000  # messages; if there are more, they are read from the log later
CATCH_UP_S = 10.0  # maximum wait of a stop for a lagging index
_QUERY_STEPS = 32  # steps that a query runs at once, to find recently sent messages
QUERY_WAIT_S = 2.0  # maximum wait of a query for a lagging index: about 200 MB of log


@attrs.define(eq=False)
class IndexBuilder:
    """Adds messages to the index. All methods belong to the event loop; nothing is written before `start`."""

    files: IndexFiles  # the index files
    _log: CommitLog  # source of messages that are not indexed yet
    _workers: Workers
    _clock: Clock
    _report: Callable[[str], object]  # called with a sentence about each failure
    _request_checkpoint: Callable[[], object]  # requests a checkpoint; may start one at once
    enabled: bool  # ``messageIndexEnable``; False leaves the files unchanged
    failure: str = attrs.field(default="", init=False)  # why the index cannot be written
    busy: int = attrs.field(default=0, init=False)  # number of working threads
    _published: int = attrs.field(default=0, init=False)  # log offset up to which records may be indexed
    _waiting: list[DispatchEntry] = attrs.field(factory=list, init=False)  # published and not indexed, in log order
    _lagging: bool = attrs.field(default=False, init=False)  # the index lags: the log has to be read
    _walk: LogEntries | None = attrs.field(default=None, init=False)  # the walk that reads the log
    _begun_at: int = attrs.field(default=0, init=False)  # log offset at which the walk began
    # results of the walk
    _batches: Iterator[list[DispatchEntry] | LogDamage] = attrs.field(factory=lambda: iter(()), init=False)
    _read: list[DispatchEntry] = attrs.field(factory=list, init=False)  # of these, not indexed yet
    _reading: bool = attrs.field(default=False, init=False)  # a thread reads the next batch
    _loading: bool = attrs.field(default=False, init=False)
    _marking: bool = attrs.field(default=False, init=False)  # a thread writes slots for a checkpoint
    _checkpoint_failed: bool = attrs.field(default=False, init=False)  # the last checkpoint failed
    _woken: asyncio.Event = attrs.field(factory=asyncio.Event, init=False)  # wakes waiting queries, see `_wake`
    _timer: Timer | None = attrs.field(default=None, init=False)
    _running: bool = attrs.field(default=False, init=False)

    # --- start and stop ---------------------------------------------------------------------------------------------

    def start(self, loaded: LoadedIndex, published: int) -> None:
        """Continue from the *loaded* index; records before *published* may be indexed."""
        self.files.hold(loaded)
        self._published = published
        self._running = self.enabled
        self._lagging = self.enabled and self.files.place.log_offset < published
        if self._lagging:
            self._arm(_CALM_S)
        elif self._unsure:
            self._ready()

    async def stop(self) -> None:
        """Index everything published; a checkpoint then makes it durable.

        If that takes longer than `CATCH_UP_S`, the next start continues.
        """
        if self._running:
            self._continue()
            await self._catch_up_for(CATCH_UP_S)
            if self._lagging:
                self._report(f"the index lags {self.lag} bytes behind the log at this stop; the next start catches up")
            await self._until_ready()
            self.halt()
            while self._waiting and not self._lagging:
                self._index_waiting()
        await self.wait_idle()

    async def _catch_up_for(self, seconds: float) -> None:
        """Wait until the log is read to its end or cannot be read, at most *seconds*."""
        until = self._clock.monotonic() + seconds
        limit = self._clock.call_later(seconds, self._wake)
        while self._running and self._lagging and not self.failure and self._clock.monotonic() < until:
            await self._woken.wait()
        limit.cancel()

    async def wait_idle(self) -> None:
        """Wait until no thread works on the index."""
        while self.busy or self.files.busy or self.files.readers:
            await self._clock.sleep(0.001)

    def halt(self) -> None:
        """Stop the background work without finishing it."""
        self._running = False
        self._disarm()
        self._wake()

    # --- what is published ------------------------------------------------------------------------------------------

    def add(self, entries: Sequence[DispatchEntry], published: int) -> None:
        """Add *entries* that were published, up to log offset *published*."""
        self._published = published
        if self._lagging or not self._running or not entries:
            return
        self._waiting += entries
        if len(self._waiting) > MOST_WAITING:
            self._start_lagging()
        if self._timer is None:
            self._arm(_PAUSE_S)

    def cut(self, log_offset: int) -> None:
        """Forget the messages at and after *log_offset*. The index then lags, if a file with others was removed."""
        self._published = min(self._published, log_offset)
        if self._running:
            self._start_lagging()
            self.files.cut(log_offset)
            self._arm(0.0)

    @property
    def lag(self) -> int:
        """Bytes of published log that are neither indexed nor waiting in memory."""
        return self._published - self.files.place.log_offset if self._lagging else 0

    @property
    def up_to_date(self) -> bool:
        """Whether a query finds everything without `catch_up`."""
        return not self._lagging and not self._waiting and not self._unsure

    @property
    def _unsure(self) -> bool:
        """Whether slots on the disk may be wrong."""
        return self.files.newest is not None and self.files.newest.unsure

    # --- steps ------------------------------------------------------------------------------------------------------

    def _continue(self) -> None:
        """Continue at once, without the delay after a start, because a caller waits."""
        if self._unsure:
            self._ready()
        if self._lagging and not self.failure and self._timer is not None:
            self._arm(0.0)

    def _arm(self, delay_s: float) -> None:
        self._disarm()
        if self._running:
            self._timer = self._clock.call_later(delay_s, self._step)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _step(self) -> None:
        self._timer = None
        if self._lagging:
            if self._ready():  # one thread at a time: two would starve the event loop of the interpreter's lock
                self._index_log()
        elif self._waiting and self._ready():
            self._index_waiting()
            if self._waiting:
                self._arm(0.0)

    def _ready(self) -> bool:
        """Return whether the newest file accepts entries; if not, its slots are being loaded or written."""
        if self._marking:
            return False
        newest = self.files.newest
        if newest is None or newest.full or newest.table is not None:
            return True
        if not self._loading:
            self._loading = True
            self.files.reading(1)
            self._workers.submit(newest.load, done=self._loaded)
        return newest.table is not None

    def _loaded(self, _: None, error: BaseException | None) -> None:
        self._loading = False
        self.files.reading(-1)
        if error is not None:
            self._failed(f"the index cannot be read: {error}")
        else:
            self._wake()
            self._arm(0.0)

    def _index_waiting(self) -> None:
        """Index one step of the messages waiting in memory."""
        part = self._waiting[:STEP_MESSAGES]
        del self._waiting[:STEP_MESSAGES]
        self._index(part)
        self._request_if_full()

    def _index_log(self) -> None:
        """Index one step of the records read from the log, or start reading the next batch."""
        if self._reading:
            return
        part = self._read[:STEP_MESSAGES]
        if part:
            if self._index(part):
                del self._read[:STEP_MESSAGES]
                self._arm(0.0)
            self._request_if_full()
            return
        start = max(self.files.place.log_offset, self._log.min_offset)
        if start >= self._published:
            self._lagging, self._walk = False, None
            self._wake()
            return
        if self._walk is None:
            source, self._begun_at = CommitLogSource(self._log), start
            self._walk = LogEntries(source, start, self._published, delay_levels_ms=(), check_crc=False)
            self._batches = iter(self._walk)
        self.busy += 1
        self._reading = True
        self._workers.submit(next, self._batches, None, done=partial(self._batch_read, self._walk))

    def _batch_read(
        self, walk: LogEntries, found: list[DispatchEntry] | LogDamage | None, error: BaseException | None
    ) -> None:
        self.busy -= 1
        self._reading = False
        if not self._lagging:
            return
        if walk is self._walk:
            if error is not None:
                self._failed(f"the log cannot be read: {error}")
                return
            if isinstance(found, LogDamage):
                self._report(f"the index skips {found.size} bytes of the log at {found.log_offset}: {found.problem}")
                self.files.place = IndexPosition(found.log_offset + found.size)
            elif found is not None:
                self._read = found
            else:  # the end was reached, or a log file was deleted meanwhile
                self._walk = None
                if walk.position == self._begun_at >= self._log.min_offset:
                    self._failed(f"the log has nothing at {self._begun_at}")
                    return
                self.files.place = IndexPosition(max(walk.position, self.files.place.log_offset))
        self._arm(0.0)

    def _index(self, messages: Sequence[DispatchEntry]) -> bool:
        """Add every key of *messages*; False if that failed (the index then lags) or must wait for slots."""
        keys = self.files.keys_of(messages)
        if keys.start < len(keys.hashes):
            if self._lagging and not self._ready():
                return False
            try:
                self.files.take(keys)
            except OSError as error:
                self._failed(f"the index cannot be written: {error}")
                return False
            self.failure = ""
        self.files.place = IndexPosition(messages[-1].log_offset + messages[-1].size)
        return True

    def _request_if_full(self) -> None:
        """Request a checkpoint for a full file at the end of a step, unless the last checkpoint failed."""
        if self.files.filled and not self._checkpoint_failed:
            self.files.filled = False
            self._request_checkpoint()

    def _failed(self, failure: str) -> None:
        if not self.failure:
            self._report(f"{failure}; messages are still stored, and can be found by key once the index works again")
        self.failure = failure
        self._start_lagging()
        self._wake()
        self._arm(RETRY_S)

    def _wake(self) -> None:
        """Wake queries, because the log is read to its end, or cannot be read."""
        self._woken.set()
        self._woken.clear()

    def _start_lagging(self) -> None:
        """Drop what waits in memory; the log is read from the position reached."""
        self._lagging = True
        self._waiting, self._walk, self._read = [], None, []

    # --- checkpoints ------------------------------------------------------------------------------------------------

    async def mark(self) -> IndexCheckpoint:
        """Write the slots of everything that is not durable, and return it, to be synced by the caller.

        The caller reports the result with `checkpointed` or `checkpoint_failed`.

        Raises:
            OSError: slots cannot be written; the next call includes everything again.
        """
        mark = self.files.begin_checkpoint()
        self._marking = True
        self.files.reading(1)
        try:
            await self._workers.run(mark.write)
        except BaseException:
            self.files.give_back(mark)
            raise
        finally:
            self._marking = False
            self.files.reading(-1)
            self._wake()
            if self._timer is None and (self._lagging or self._waiting):
                self._arm(0.0)
        return mark

    def checkpointed(self, mark: IndexCheckpoint) -> None:
        """Record that all of *mark* was synced."""
        self._checkpoint_failed = self._checkpoint_failed and not mark.parts
        self.files.checkpointed(mark)

    def checkpoint_failed(self, mark: IndexCheckpoint) -> None:
        """Drop *mark*, which could not be made durable, and everything since; it is rebuilt from the log."""
        count = self.files.drop(mark)
        if count:
            if not self._checkpoint_failed:
                files, them = ("1 index file", "it") if count == 1 else (f"{count} index files", "them")
                self._report(f"{files} could not be made durable; the content of {them} is rebuilt from the log")
            self._checkpoint_failed = True
            self._start_lagging()
            self._arm(RETRY_S)

    # --- queries ----------------------------------------------------------------------------------------------------

    async def catch_up(self) -> bool:
        """Index waiting messages, and wait briefly for a lagging index; True if a query now finds everything."""
        self._continue()
        await self._catch_up_for(QUERY_WAIT_S)
        await self._until_ready()
        for _ in range(_QUERY_STEPS):
            if self._lagging or not self._waiting:
                break
            self._index_waiting()
        return self.up_to_date

    async def _until_ready(self) -> None:
        """Wait until waiting messages can be added or are left to be read from the log, and no slot may be wrong."""
        while self._running and self._waiting and not self._ready():
            await self._woken.wait()
        while self._loading and self._unsure:
            await self._woken.wait()
