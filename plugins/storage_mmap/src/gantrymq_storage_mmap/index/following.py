"""Filling the index, off the way of a send: what was published is indexed a moment later, many messages at a time.

    publish --> waiting --(5 ms later, in steps)--> entries and header of the newest file (`index.files`)
                                  a full file asks for a checkpoint, which also comes by itself

The index is up to date, or it lags behind: after a start that found it short, after a write or a checkpoint that
failed, or when too much was waiting. Then nothing waits in memory; the log is read again from the place that was
reached, in a thread, and indexed in steps that leave the event loop to others, until nothing is left to read.

The slots of a file that a start found are read, in a thread, when its first entry is to be added: they take 20 MB of
memory, which a broker that is only read from does not need.

An index that cannot be written stops nobody: it is told once, tried again every second, and queries say so.

Source: apache/rocketmq store/.../index/IndexService.java (buildIndex).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from gantrymq.formats.index import IndexLayout
from gantrymq.interfaces import DispatchEntry
from gantrymq.world import Clock, Files, Timer, Workers
from gantrymq_storage_mmap.index.file import IndexFile, IndexPlace
from gantrymq_storage_mmap.index.files import IndexFiles
from gantrymq_storage_mmap.index.log import CHUNK_BYTES, LogPiece, decode_piece, read_piece
from gantrymq_storage_mmap.log.commit_log import CommitLog

__all__ = ["IndexFollower"]

PAUSE_S = 0.005  # what was published meanwhile is indexed together
RETRY_S = 1.0
STEP_MESSAGES = 256  # of one turn of the event loop: under a millisecond
MOST_WAITING = 100_000  # messages; more are left to be read from the log


class IndexFollower:
    """Follows what is published. All methods belong to the event loop."""

    def __init__(
        self,
        world: tuple[Files, Workers, Clock],
        root: Path,
        layout: IndexLayout,
        log: CommitLog,
        tell: Callable[[str], object],
        hasten: Callable[[], object],
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
            hasten: asks for a checkpoint soon; it may begin one at once.
            enabled: ``messageIndexEnable``; false leaves the files as they are.
        """
        self.enabled = enabled
        _, self._workers, self._clock = world
        self._log, self._tell, self._hasten = log, tell, hasten
        self._held = IndexFiles(world, root, layout, tell)
        self.failure = ""  # why the index cannot be written
        self.busy = 0  # threads at work
        self._published = 0  # log offset up to which records may be indexed
        self._waiting: list[Sequence[DispatchEntry]] = []  # published and not indexed, in log order
        self._waiting_count = 0
        self._behind = False  # the log has to be read
        self._piece: LogPiece | None = None
        self._chunk_bytes = CHUNK_BYTES
        self._reading = False  # a thread reads the log
        self._loading = False
        self._undurable = False  # the last checkpoint failed
        self._waiters: list[asyncio.Future[None]] = []  # queries
        self._timer: Timer | None = None
        self._running = False

    @property
    def files(self) -> Sequence[IndexFile]:
        """Oldest first."""
        return self._held.all

    @property
    def place(self) -> IndexPlace:
        """Up to where the log is indexed."""
        return self._held.place

    # --- what is published ------------------------------------------------------------------------------------------

    def add(self, entries: Sequence[DispatchEntry], published: int) -> None:
        """Take over what was published, up to log offset *published*. Budget: 1 us a call."""
        self._published = published
        if self._behind or not self._running or not entries:
            return
        self._waiting.append(entries)
        self._waiting_count += len(entries)
        if self._waiting_count > MOST_WAITING:
            self._fall_behind()
        if self._timer is None:
            self._arm(PAUSE_S)

    @property
    def lag(self) -> int:
        """Bytes of published log that are not indexed, and not about to be."""
        return self._published - self.place.log_offset if self._behind else 0

    @property
    def up_to_date(self) -> bool:
        """Whether a query sees everything without `catch_up`."""
        return not self._behind and not self._waiting and not self._unsure

    @property
    def _unsure(self) -> bool:
        """Whether slots on the disk may lead astray."""
        return self._held.newest is not None and self._held.newest.unsure

    async def _wait(self) -> None:
        """Until `_wake`."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await waiter

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
        newest = self._held.newest
        if newest is None or newest.full or newest.table is not None:
            return True
        if not self._loading:
            self._loading = True
            self._held.reading(1)
            self._workers.submit(newest.load, done=self._loaded)
        return newest.table is not None

    def _loaded(self, _: None, error: BaseException | None) -> None:
        self._loading = False
        self._held.reading(-1)
        if error is not None:
            self._failed(f"the index cannot be read: {error}")
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
            self._held.place = IndexPlace(last.log_offset + last.size)
        self._ask()

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
        if not entries or self._index(entries):
            if place == start:
                self._chunk_bytes, self._piece = self._chunk_bytes * 4, None
            else:
                self._chunk_bytes = CHUNK_BYTES
                self._held.place = IndexPlace(place)
            self._arm(0.0)
        self._ask()

    def _have_piece(self, piece: LogPiece | None, error: BaseException | None) -> None:
        self.busy -= 1
        self._reading = False
        if not self._behind:
            return
        self._piece = piece
        if error is not None:
            self._failed(f"the log cannot be read: {error}")
        elif piece is None or not len(piece.data):
            self._failed(f"the log has nothing at {self.place.log_offset}")
        else:
            self._arm(0.0)

    def _index(self, messages: Sequence[DispatchEntry]) -> bool:
        """Add every key of *messages*; False when that failed and the index has fallen behind, or has to wait there."""
        keys = self._held.keys_of(messages)
        if keys.start >= len(keys.hashes):
            return True
        if self._behind and not self._ready():
            return False
        try:
            self._held.take(keys)
        except OSError as error:
            self._failed(f"the index cannot be written: {error}")
            return False
        self.failure = ""
        return True

    def _ask(self) -> None:
        """At the end of a step: a full file asks for a checkpoint, but not one after the other that fail."""
        if self._held.filled and not self._undurable:
            self._held.filled = False
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
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _fall_behind(self) -> None:
        """Forget what waits; the log is read from the place that was reached."""
        self._behind = True
        self._waiting, self._waiting_count, self._piece = [], 0, None
