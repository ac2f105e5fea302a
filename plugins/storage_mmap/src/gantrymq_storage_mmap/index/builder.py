"""Filling the index, off the way of a send: what was published is indexed a moment later, many messages at a time.

    publish --> waiting --(5 ms later, in steps)--> entries and header of the newest file (`index.files`)
                                  a full file asks for a checkpoint, which also comes by itself

The index is up to date, or it lags behind: after a start that found it short, after a write or a checkpoint that
failed, or when too much was waiting. Then nothing waits in memory; the log is read again from the place that was
reached, in a thread, and indexed in steps that leave the event loop to others, until nothing is left to read.

The slots of a file that a start found are read, in a thread, when its first entry is to be added: they take 20 MB of
memory, which a broker that is only read from does not need.

An index that cannot be written stops nobody: it is told once, tried again every second, and queries say so.

A checkpoint stops the steps while it writes slots, some 0.1 s for 20 MB: copying them instead would hold up the event
loop for as long.

A stop indexes what was published and leaves the rest to the last checkpoint. A query that comes while keys wait in
memory has them indexed first; while the index lags behind the log it waits `QUERY_WAIT_S` at most, and an answer that
may lack something says so (`QueryResult.complete`).

Source: apache/rocketmq store/.../index/IndexService.java (buildIndex).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import attrs

from gantrymq.interfaces import DispatchEntry
from gantrymq.world import Clock, Timer, Workers
from gantrymq_storage_mmap.index.checkpoint import IndexCheckpoint
from gantrymq_storage_mmap.index.file import IndexPosition
from gantrymq_storage_mmap.index.files import IndexFiles
from gantrymq_storage_mmap.index.folder import LoadedIndex
from gantrymq_storage_mmap.log.commit_log import CommitLog
from gantrymq_storage_mmap.log.source import CommitLogSource
from gantrymq_store_files.log_entries import LogEntries
from gantrymq_store_files.log_walk import LogDamage

__all__ = ["IndexBuilder"]

CALM_S = 1.0  # after a start, which has enough to do
PAUSE_S = 0.005  # what was published meanwhile is indexed together
RETRY_S = 1.0
STEP_MESSAGES = 256  # of one turn of the event loop: under a millisecond
MOST_WAITING = 100_000  # messages; more are left to be read from the log
CATCH_UP_S = 10.0  # that a stop waits for an index that lags behind
QUERY_STEPS = 32  # that a query does at once, to see what was sent a moment ago
QUERY_WAIT_S = 2.0  # that a query waits for an index that lags behind: some 200 MB of log


@attrs.define(eq=False)
class IndexBuilder:
    """What is on its way into the index. All methods belong to the event loop; nothing is written before `start`."""

    held: IndexFiles  # the files, for whoever has to do with them only
    _log: CommitLog  # where messages are read that are not indexed yet
    _workers: Workers
    _clock: Clock
    _tell: Callable[[str], object]  # is told of failures
    _hasten: Callable[[], object]  # asks for a checkpoint soon; it may begin one at once
    enabled: bool  # ``messageIndexEnable``; false leaves the files as they are
    failure: str = attrs.field(default="", init=False)  # why the index cannot be written
    busy: int = attrs.field(default=0, init=False)  # threads at work
    _published: int = attrs.field(default=0, init=False)  # log offset up to which records may be indexed
    _waiting: list[DispatchEntry] = attrs.field(factory=list, init=False)  # published and not indexed, in log order
    _behind: bool = attrs.field(default=False, init=False)  # the log has to be read
    _walk: LogEntries | None = attrs.field(default=None, init=False)  # that reads it
    _begun_at: int = attrs.field(default=0, init=False)  # the walk
    # what it finds
    _batches: Iterator[list[DispatchEntry] | LogDamage] = attrs.field(factory=lambda: iter(()), init=False)
    _read: list[DispatchEntry] = attrs.field(factory=list, init=False)  # and what is not indexed of that
    _reading: bool = attrs.field(default=False, init=False)  # a thread takes the next batch
    _loading: bool = attrs.field(default=False, init=False)
    _marking: bool = attrs.field(default=False, init=False)  # a thread writes slots for a checkpoint
    _undurable: bool = attrs.field(default=False, init=False)  # the last checkpoint failed
    _woken: asyncio.Event = attrs.field(factory=asyncio.Event, init=False)  # queries wait for it, see `_wake`
    _timer: Timer | None = attrs.field(default=None, init=False)
    _running: bool = attrs.field(default=False, init=False)

    # --- start and stop ---------------------------------------------------------------------------------------------

    def start(self, loaded: LoadedIndex, published: int) -> None:
        """Go on from what was *loaded*; records before *published* may be indexed."""
        self.held.hold(loaded)
        self._published = published
        self._running = self.enabled
        self._behind = self.enabled and self.held.place.log_offset < published
        if self._behind:
            self._arm(CALM_S)
        elif self._unsure:
            self._ready()

    async def stop(self) -> None:
        """Index what is published; a checkpoint makes it durable.

        Where that takes longer than `CATCH_UP_S`, the next start reads the log on.
        """
        if self._running:
            self._go_on()
            await self._catch_up_for(CATCH_UP_S)
            if self._behind:
                self._tell(f"the index lags {self.lag} bytes behind the log at this stop; the next start catches up")
            await self._until_ready()
            self.halt()
            while self._waiting and not self._behind:
                self._index_waiting()
        await self.quiet()

    async def _catch_up_for(self, seconds: float) -> None:
        """Wait until the log is read to its end, or cannot be, but no longer than that."""
        until = self._clock.monotonic() + seconds
        limit = self._clock.call_later(seconds, self._wake)
        while self._running and self._behind and not self.failure and self._clock.monotonic() < until:
            await self._woken.wait()
        limit.cancel()

    async def quiet(self) -> None:
        """Wait until no thread is at work for the index."""
        while self.busy or self.held.busy or self.held.readers:
            await self._clock.sleep(0.001)

    def halt(self) -> None:
        """End the background work and leave everything as it is."""
        self._running = False
        self._disarm()
        self._wake()

    # --- what is published ------------------------------------------------------------------------------------------

    def add(self, entries: Sequence[DispatchEntry], published: int) -> None:
        """Take over what was published, up to log offset *published*."""
        self._published = published
        if self._behind or not self._running or not entries:
            return
        self._waiting += entries
        if len(self._waiting) > MOST_WAITING:
            self._fall_behind()
        if self._timer is None:
            self._arm(PAUSE_S)

    @property
    def lag(self) -> int:
        """Bytes of published log that are not indexed, and not about to be."""
        return self._published - self.held.place.log_offset if self._behind else 0

    @property
    def up_to_date(self) -> bool:
        """Whether a query sees everything without `catch_up`."""
        return not self._behind and not self._waiting and not self._unsure

    @property
    def _unsure(self) -> bool:
        """Whether slots on the disk may lead astray."""
        return self.held.newest is not None and self.held.newest.unsure

    # --- steps ------------------------------------------------------------------------------------------------------

    def _go_on(self) -> None:
        """Somebody waits: do not wait for the start of the broker to be over."""
        if self._unsure:
            self._ready()
        if self._behind and not self.failure and self._timer is not None:
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
        if self._behind:
            if self._ready():  # one thread at a time: two would keep the event loop from its turn
                self._index_log()
        elif self._waiting and self._ready():
            self._index_waiting()
            if self._waiting:
                self._arm(0.0)

    def _ready(self) -> bool:
        """Whether the newest file takes entries; else its slots are on their way into memory, or to the disk."""
        if self._marking:
            return False
        newest = self.held.newest
        if newest is None or newest.full or newest.table is not None:
            return True
        if not self._loading:
            self._loading = True
            self.held.reading(1)
            self._workers.submit(newest.load, done=self._loaded)
        return newest.table is not None

    def _loaded(self, _: None, error: BaseException | None) -> None:
        self._loading = False
        self.held.reading(-1)
        if error is not None:
            self._failed(f"the index cannot be read: {error}")
        else:
            self._wake()
            self._arm(0.0)

    def _index_waiting(self) -> None:
        """One step over what waits in memory."""
        part = self._waiting[:STEP_MESSAGES]
        del self._waiting[:STEP_MESSAGES]
        self._index(part)
        self._ask()

    def _index_log(self) -> None:
        """One step over what was read of the log, or the start of reading on."""
        if self._reading:
            return
        part = self._read[:STEP_MESSAGES]
        if part:
            if self._index(part):
                del self._read[:STEP_MESSAGES]
                self._arm(0.0)
            self._ask()
            return
        start = max(self.held.place.log_offset, self._log.min_offset)
        if start >= self._published:
            self._behind, self._walk = False, None
            self._wake()
            return
        if self._walk is None:
            source, self._begun_at = CommitLogSource(self._log), start
            self._walk = LogEntries(source, start, self._published, delay_levels_ms=(), check_crc=False)
            self._batches = iter(self._walk)
        self.busy += 1
        self._reading = True
        self._workers.submit(next, self._batches, None, done=partial(self._have_read, self._walk))

    def _have_read(
        self, walk: LogEntries, found: list[DispatchEntry] | LogDamage | None, error: BaseException | None
    ) -> None:
        self.busy -= 1
        self._reading = False
        if not self._behind:
            return
        if walk is self._walk:
            if error is not None:
                self._failed(f"the log cannot be read: {error}")
                return
            if isinstance(found, LogDamage):
                self._tell(f"the index leaves out {found.size} bytes of the log at {found.log_offset}: {found.problem}")
                self.held.place = IndexPosition(found.log_offset + found.size)
            elif found is not None:
                self._read = found
            else:  # that was all, or a file was deleted under its feet
                self._walk = None
                if walk.position == self._begun_at >= self._log.min_offset:
                    self._failed(f"the log has nothing at {self._begun_at}")
                    return
                self.held.place = IndexPosition(max(walk.position, self.held.place.log_offset))
        self._arm(0.0)

    def _index(self, messages: Sequence[DispatchEntry]) -> bool:
        """Add every key of *messages*; False when that failed and the index has fallen behind, or has to wait there."""
        keys = self.held.keys_of(messages)
        if keys.start < len(keys.hashes):
            if self._behind and not self._ready():
                return False
            try:
                self.held.take(keys)
            except OSError as error:
                self._failed(f"the index cannot be written: {error}")
                return False
            self.failure = ""
        self.held.place = IndexPosition(messages[-1].log_offset + messages[-1].size)
        return True

    def _ask(self) -> None:
        """At the end of a step: a full file asks for a checkpoint, but not one after the other that fail."""
        if self.held.filled and not self._undurable:
            self.held.filled = False
            self._hasten()

    def _failed(self, failure: str) -> None:
        if not self.failure:
            self._tell(f"{failure}; messages are stored all the same, and found by key once it is well again")
        self.failure = failure
        self._fall_behind()
        self._wake()
        self._arm(RETRY_S)

    def _wake(self) -> None:
        """Tell queries that the log is read to its end, or cannot be."""
        self._woken.set()
        self._woken.clear()

    def _fall_behind(self) -> None:
        """Forget what waits; the log is read from the place that was reached."""
        self._behind = True
        self._waiting, self._walk, self._read = [], None, []

    # --- checkpoints ------------------------------------------------------------------------------------------------

    async def mark(self) -> IndexCheckpoint:
        """What is not durable, with its slots written; it has to be synced, and its end told.

        Raises:
            OSError: slots cannot be written. Nothing was synced in vain, the next mark has it all.
        """
        mark = self.held.begin_checkpoint()
        self._marking = True
        self.held.reading(1)
        try:
            await self._workers.run(mark.write)
        except BaseException:
            self.held.give_back(mark)
            raise
        finally:
            self._marking = False
            self.held.reading(-1)
            self._wake()
            if self._timer is None and (self._behind or self._waiting):
                self._arm(0.0)
        return mark

    def checkpointed(self, mark: IndexCheckpoint) -> None:
        """All of *mark* was synced."""
        self._undurable = self._undurable and not mark.parts
        self.held.checkpointed(mark)

    def checkpoint_failed(self, mark: IndexCheckpoint) -> None:
        """*mark* could not be made durable: what it holds, and what came since, is made again from the log."""
        count = self.held.drop(mark)
        if count:
            if not self._undurable:
                files, them = ("1 index file", "it") if count == 1 else (f"{count} index files", "them")
                self._tell(f"{files} could not be made durable; what was in {them} is built again from the log")
            self._undurable = True
            self._fall_behind()
            self._arm(RETRY_S)

    # --- queries ----------------------------------------------------------------------------------------------------

    async def catch_up(self) -> bool:
        """Index what waits in memory, and wait a moment for a log that is read; True if a query now sees everything."""
        self._go_on()
        await self._catch_up_for(QUERY_WAIT_S)
        await self._until_ready()
        for _ in range(QUERY_STEPS):
            if self._behind or not self._waiting:
                break
            self._index_waiting()
        return self.up_to_date

    async def _until_ready(self) -> None:
        """Wait until what waits can be added, or is left to be read from the log, and no slot leads astray."""
        while self._running and self._waiting and not self._ready():
            await self._woken.wait()
        while self._loading and self._unsure:
            await self._woken.wait()
