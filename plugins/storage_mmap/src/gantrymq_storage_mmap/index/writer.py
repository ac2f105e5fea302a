"""Filling the index, off the way of a send: what was published is indexed a moment later, many messages at a time.

    publish --> waiting --(5 ms later, in steps)--> entries and header of the newest file
                                full file --(thread)--> slots, sync, checkpoint

The index is up to date, or it lags behind: after a start that found it short, after a write that failed, or when too
much was waiting. Then nothing waits in memory; the log is read again from the place that was reached, in a thread, and
indexed in steps that leave the event loop to others, until nothing is left to read.

The slots of a file that a start found are read, in a thread, when its first entry is to be added: they take 20 MB of
memory, which a broker that is only read from does not need.

An index that cannot be written stops nobody: it is told once, tried again every second, and queries say so.

Source: apache/rocketmq store/.../index/IndexService.java (buildIndex, getAndCreateLastIndexFile, flush).
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Callable, Sequence
from pathlib import Path

from gantrymq.formats.index import IndexHeader, IndexLayout, index_file_name
from gantrymq.formats.index_hash import hash_entries
from gantrymq.interfaces import DispatchEntry
from gantrymq.world import Clock, Files, Timer, Workers
from gantrymq_storage_mmap.index.file import IndexFile
from gantrymq_storage_mmap.index.folder import IndexPlace, LoadedIndex, read_note, write_note
from gantrymq_storage_mmap.index.log import CHUNK_BYTES, LogPiece, decode_piece, read_piece
from gantrymq_storage_mmap.log.commit_log import CommitLog

__all__ = ["IndexWriter"]

PAUSE_S = 0.005  # what was published meanwhile is indexed together
RETRY_S = 1.0
CATCH_UP_S = 10.0  # that a stop waits for an index that lags behind
STEP_MESSAGES = 256  # of one turn of the event loop: under a millisecond
QUERY_STEPS = 16  # that a query does at once, to see what was sent a moment ago
SOON_BYTES = 8 * 1024 * 1024  # of log that a query waits for
MOST_WAITING = 100_000  # messages; more are left to be read from the log
NOTE_BYTES = 1024 * 1024  # a stop notes its place when the next start would have to read more than this


class IndexWriter:
    """Index files, newest last, and what is on its way into them. All methods belong to the event loop."""

    def __init__(
        self,
        world: tuple[Files, Workers, Clock],
        root: Path,
        layout: IndexLayout,
        log: CommitLog,
        tell: Callable[[str], object],
        on_full: Callable[[int], object],
        *,
        enabled: bool,
    ) -> None:
        """Nothing is written before `start`.

        Args:
            world: files, workers, clock.
            root: the store's folder.
            layout: of every file.
            log: where messages are read that are not indexed yet.
            tell: is told of failures.
            on_full: is told the end time, ms, of a full file that is durable.
            enabled: ``messageIndexEnable``; false leaves the files as they are.
        """
        self.enabled = enabled
        self._files, self._workers, self._clock = world
        self._root, self._layout, self._log, self._tell, self._on_full = root, layout, log, tell, on_full
        self.files: list[IndexFile] = []
        self.failure = ""  # why the index cannot be written
        self.place = IndexPlace(0)
        self.busy = 0  # threads at work
        self.queries = 0  # that read files in a thread
        self._removing: list[IndexFile] = []
        self._published = 0  # log offset up to which records may be indexed
        self._waiting: list[Sequence[DispatchEntry]] = []  # published and not indexed, in log order
        self._waiting_count = 0
        self._behind = False  # the log has to be read
        self._piece: LogPiece | None = None
        self._chunk_bytes = CHUNK_BYTES
        self._reading = False  # a thread reads the log
        self._sealing = False
        self._loading = False
        self._waiters: list[asyncio.Future[None]] = []  # queries
        self._timer: Timer | None = None
        self._running = False

    # --- start and stop ---------------------------------------------------------------------------------------------

    def start(self, loaded: LoadedIndex, published: int) -> None:
        """Go on from what was *loaded*; records before *published* may be indexed."""
        self.files, self.place, self._published = loaded.files, loaded.place, published
        self._running = self.enabled
        self._behind = self.enabled and self.place.log_offset < published
        if self._behind:
            self._arm(0.0)
        self._seal()

    async def stop(self) -> None:
        """Index what is published, make everything durable.

        Where that takes longer than `CATCH_UP_S`, the next start reads the log on.

        Raises:
            OSError: the index cannot be made durable.
        """
        if not self._running:
            return
        await self._catch_up_for(CATCH_UP_S)
        await self._until_ready()
        self.halt()
        while self._waiting and not self._behind:
            self._index_waiting()
        await self.quiet()
        for file in self.files:
            if not file.durable:
                await self._workers.run(file.settle)
                file.settled()
                if file.full:
                    self._on_full(file.header.end_timestamp)
        if self.files:
            await self._workers.run(self._files.sync_dir, self._root / "index")
        newest = self.files[-1] if self.files else None
        indexed = newest.header.end_offset if newest is not None else self._log.min_offset
        note = (self.place.log_offset, newest.path.name if newest is not None else "")
        if note[0] - indexed > NOTE_BYTES and note != read_note(self._files, self._root):
            await self._workers.run(write_note, self._files, self._root, *note)

    async def _catch_up_for(self, seconds: float) -> None:
        """Go on reading the log, but no longer than that."""
        until = self._clock.monotonic() + seconds
        limit = self._clock.call_later(seconds, self._wake)
        while self._behind and not self.failure and self._clock.monotonic() < until:
            await self._wait()
        limit.cancel()
        if self._behind:
            self._tell(f"the index lags {self.lag} bytes behind the log at this stop; the next start catches up")

    async def quiet(self) -> None:
        """Wait until no thread is at work for the index."""
        while self.busy or self.queries:
            await self._clock.sleep(0.001)

    def halt(self) -> None:
        """End the background work and leave everything as it is."""
        self._running = False
        self._disarm()
        self._wake()

    def close(self) -> None:
        """Close every file."""
        for file in (*self.files, *self._removing):
            file.close()
        self.files, self._removing = [], []

    # --- what is published ------------------------------------------------------------------------------------------

    def add(self, entries: Sequence[DispatchEntry], published: int) -> None:
        """Take over what was published, up to log offset *published*. Budget: 1 us a call."""
        self._published = published
        if self._behind or not self._running or not entries:
            return
        self._waiting.append(entries)
        self._waiting_count += len(entries)
        if self._waiting_count > MOST_WAITING:
            self._fall_behind(IndexPlace(self._waiting[0][0].log_offset))
        if self._timer is None:
            self._arm(PAUSE_S)

    def taken_bytes(self) -> int:
        """What the files take of the disk, at most."""
        return sum(file.taken_bytes for file in self.files)

    @property
    def lag(self) -> int:
        """Bytes of published log that are not indexed, and not about to be."""
        return self._published - self.place.log_offset if self._behind else 0

    @property
    def up_to_date(self) -> bool:
        """Whether a query sees everything without `catch_up`."""
        return not self._behind and not self._waiting

    async def catch_up(self) -> bool:
        """Index what waits in memory, and wait for a log that is soon read; True when a query now sees everything."""
        while self._running and self._behind and not self.failure and self.lag <= SOON_BYTES:
            await self._wait()
        await self._until_ready()
        for _ in range(QUERY_STEPS):
            if self._behind or not self._waiting:
                break
            self._index_waiting()
        return self.up_to_date

    async def _until_ready(self) -> None:
        """Wait until what waits can be added, or is left to be read from the log."""
        while self._running and self._waiting and not self._ready():
            await self._wait()

    async def _wait(self) -> None:
        """Until `_wake`."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await waiter

    def delete_before(self, log_offset: int) -> int:
        """Remove files that know no message at or behind *log_offset*, in a thread; never the newest one.

        Returns:
            How many are no longer part of the index.
        """
        gone: list[IndexFile] = []
        files = self.files
        while len(files) - len(gone) > 1:
            file = files[len(gone)]
            if not file.durable or file.header.end_offset >= log_offset:
                break
            gone.append(file)
        if gone:
            self.files = files[len(gone) :]
            self._removing += gone
            self._remove()
        return len(gone)

    def reading(self, more: int) -> None:
        """A query begins (1) or ends (-1) to read files in a thread; removed ones are closed when none does."""
        self.queries += more
        self._remove()

    def _remove(self) -> None:
        if self.queries or not self._removing:
            return
        gone, self._removing = self._removing, []
        for file in gone:
            file.close()
        self.busy += 1

        def done(_: None, error: BaseException | None) -> None:
            self.busy -= 1
            if error is not None:
                self._tell(f"index files could not be removed: {error}; the next start finds them again")

        self._workers.submit(_remove_files, self._files, [file.path for file in gone], done=done)

    # --- steps ------------------------------------------------------------------------------------------------------

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
            self._index_log()
        elif self._waiting and self._ready():
            self._index_waiting()
            if self._waiting:
                self._arm(0.0)

    def _ready(self) -> bool:
        """Whether the newest file takes entries; else its slots are on their way into memory."""
        newest = self.files[-1] if self.files else None
        if newest is None or newest.full or newest.table is not None:
            return True
        if not self._loading:
            self._loading = True
            self.busy += 1
            self._workers.submit(newest.load, done=self._loaded)
        return newest.table is not None

    def _loaded(self, _: None, error: BaseException | None) -> None:
        self.busy -= 1
        self._loading = False
        if error is not None:
            self._failed(self.place, f"the index cannot be read: {error}")
        else:
            self._wake()
            self._arm(0.0)

    def _index_waiting(self) -> None:
        """One step over what waits in memory."""
        part: list[DispatchEntry] = []
        used = 0
        while used < len(self._waiting) and len(part) < STEP_MESSAGES:
            part += self._waiting[used]
            used += 1
        rest = part[2 * STEP_MESSAGES :]  # a publication may be much larger than a step
        del part[2 * STEP_MESSAGES :]
        self._waiting[:used] = [rest] if rest else []
        self._waiting_count -= len(part)
        if self._index(part):
            last = part[-1]
            self.place = IndexPlace(last.log_offset + last.size)

    def _index_log(self) -> None:
        """One step over the log, or the start of reading its next piece."""
        if self._reading:
            return
        start = max(self.place.log_offset, self._log.min_offset)
        if start >= self._published:
            self._behind, self._piece = False, None
            self._wake()
            return
        piece = self._piece
        if piece is None or not piece.start <= start < piece.start + len(piece.data):
            self.busy += 1
            self._reading = True
            self._workers.submit(
                read_piece, self._log, start, self._published, self._chunk_bytes, done=self._have_piece
            )
            return
        entries, place, problem = decode_piece(piece, start, STEP_MESSAGES)
        if problem:
            self._tell(f"the index leaves out the rest of a log file: {problem}")
        if entries and not self._index(entries):
            return
        if place == start:
            self._chunk_bytes, self._piece = self._chunk_bytes * 4, None
        else:
            self._chunk_bytes = CHUNK_BYTES
            self.place = IndexPlace(place)
        self._arm(0.0)

    def _have_piece(self, piece: LogPiece | None, error: BaseException | None) -> None:
        self.busy -= 1
        self._reading = False
        if not self._behind:
            return
        self._piece = piece
        if error is not None:
            self._failed(self.place, f"the log cannot be read: {error}")
        elif piece is None or not len(piece.data):
            self._failed(self.place, f"the log has nothing at {self.place.log_offset}")
        else:
            self._arm(0.0)

    # --- entries ----------------------------------------------------------------------------------------------------

    def _index(self, messages: Sequence[DispatchEntry]) -> bool:
        """Add every key of *messages*; False when that failed and the index has fallen behind, or has to wait there."""
        place, known = self.place
        hashes, offsets, timestamps = hash_entries(messages)
        first = bisect_left(offsets, place)  # keys before it are in the index
        if first < len(offsets) and offsets[first] == place:
            first += known
        if first < len(hashes) and self._behind and not self._ready():
            return False
        done = first
        try:
            while done < len(hashes):
                file = self._writable()
                assert file.table is not None
                put = file.table.put(hashes, offsets, timestamps, done)
                try:
                    file.write(put)
                except OSError:
                    file.table.undo(put)
                    raise
                done += put.taken
                if file.full:
                    self._seal()
        except OSError as error:
            at = offsets[done]
            self._failed(IndexPlace(at, done - bisect_left(offsets, at)), f"the index cannot be written: {error}")
            return False
        if done > first:
            self.failure = ""
        return True

    def _writable(self) -> IndexFile:
        """The newest file, or the next one where it is full.

        Raises:
            OSError: it cannot be made.
        """
        newest = self.files[-1] if self.files else None
        if newest is not None and not newest.full:
            return newest
        folder = self._root / "index"
        self._files.make_dirs(folder)
        now = self._clock.now_ms()
        name = index_file_name(now, self._clock.utc_offset_ms(now))
        if newest is not None and name <= newest.path.name:
            name = _next_name(newest.path.name)
        header = newest.header.following() if newest is not None else IndexHeader()
        made = IndexFile.create(self._files, folder / name, self._layout, header)
        self.files.append(made)
        return made

    def _failed(self, place: IndexPlace, failure: str) -> None:
        if not self.failure:
            self._tell(f"{failure}; messages are stored all the same, and found by key once it is well again")
        self.failure = failure
        self._fall_behind(place)
        self._wake()
        self._arm(RETRY_S)

    def _wake(self) -> None:
        """Tell queries that the log is read to its end, or cannot be."""
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _fall_behind(self, place: IndexPlace) -> None:
        """Forget what waits; the log is read from *place* on."""
        self.place = place
        self._behind = True
        self._waiting, self._waiting_count, self._piece = [], 0, None

    # --- full files -------------------------------------------------------------------------------------------------

    def _seal(self) -> None:
        """Make the oldest full file that is not durable so, in a thread."""
        file = next((file for file in self.files if not file.durable and file.full), None)
        if file is None or self._sealing or not self._running:
            return
        self._sealing = True
        self.busy += 1

        def done(_: None, error: BaseException | None) -> None:
            self._sealing = False
            self.busy -= 1
            if error is not None:
                self._tell(f"index file {file.path.name} could not be made durable, a crash would rebuild it: {error}")
                return  # tried again when the next file is full, and at the stop
            file.settled()
            self._on_full(file.header.end_timestamp)
            self._seal()

        self._workers.submit(self._settle, file, done=done)

    def _settle(self, file: IndexFile) -> None:
        file.settle()
        self._files.sync_dir(file.path.parent)


def _remove_files(files: Files, paths: Sequence[Path]) -> None:
    """Runs in a thread."""
    for path in paths:
        files.remove(path)


def _next_name(name: str) -> str:
    """A name behind *name*, though the clock has not moved on."""
    return str(int(name) + 1).zfill(len(name))
