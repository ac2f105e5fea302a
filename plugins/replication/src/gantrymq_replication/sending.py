"""Sends the log to one slave, by the protocol of fixed or of elected roles.

A slave that has everything gets each append at once, in the step of the event loop that appends. A coroutine
sends everything else, as fast as the slave reads.

If only what is on the master's disk may be sent, appends wait for a sync. Records that come one by one, each after the
report of the one before, are synced by the event loop if the disk is quick, because their sender waits for each.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Final, Protocol

import attrs

from gantrymq.errors import GantryError, LogMismatch
from gantrymq.plugin.interfaces import LoopSync, RawLog
from gantrymq.plugin.network import BusyPoll
from gantrymq.plugin.world import Clock, Timer, TimeSlices, wait_set
from gantrymq_replication.link import Link
from gantrymq_replication.settings import HaSettings
from gantrymq_replication.single_records import SingleRecordSync, is_one_record

_PIECE_BYTES: Final = 512 * 1024  # read from the log at once
_QUIET_S: Final = 0.005  # without records, until a heartbeat with the new confirm offset
_NEVER: Final = float("-inf")

_Wrote = Callable[[int, float], object]


class Frames(Protocol):
    """The protocol of one connection."""

    @property
    def next_offset(self) -> int:
        """Where the next transfer begins."""

    @property
    def has_news(self) -> bool:
        """Whether a heartbeat would contain something new."""

    def room(self) -> int:
        """Return how many bytes may be sent from `next_offset` on; 0 for none yet."""

    def transfer(self, data: bytes) -> tuple[bytes, bytes]:
        """Return head and body of a transfer of *data*, the log from `next_offset` on; empty for a heartbeat."""


@attrs.frozen
class SentLog:
    """The log and how it is sent: the same for all slaves of a master."""

    raw: RawLog
    clock: Clock
    rules: HaSettings
    busy_poll: BusyPoll  # between records that are sent one by one, and their reports
    flushed: Callable[[int], Awaitable[object]] | None = None  # send only the part on the disk, for which this waits
    loop_sync: LoopSync | None = None  # for records that come one by one


class LogSending:
    """The sending half of one connection."""

    def __init__(self, sent: SentLog, link: Link, frames: Frames, wrote: _Wrote | None = None) -> None:
        """*wrote* is called with the number of bytes of the log that were written, and monotonic seconds."""
        self._sent, self._link, self._frames, self._wrote = sent, link, frames, wrote
        self._now = sent.clock.monotonic
        self._wake = asyncio.Event()
        self._flushed = sent.flushed
        self._begun = False
        self._idle = False  # the coroutine waits for an append
        self._written_at = _NEVER
        self._window_at, self._window_bytes = 0.0, 0
        self._news: Timer | None = None
        self._unreported = True  # the slave has not reported all that was sent
        self._single_records = SingleRecordSync(sent.loop_sync)

    def begin(self, *, ahead: bool = False) -> None:
        """Send from now on; first a heartbeat if there is no more, which shows the slave that it has everything.

        With *ahead* also records that are not on the master's disk yet: the slave must cut those that a power cut
        removes.
        """
        self._begun = True
        if ahead:
            self._flushed = None
        self._wake.set()

    def appended(self, end: int) -> None:
        """Send the log up to *end*, at once if nothing has to be waited for."""
        if not self._idle:
            return  # the coroutine looks for more by itself
        sent, start = self._sent, self._frames.next_offset
        most = min(_PIECE_BYTES, self._frames.room())
        waits = self._flushed is not None and sent.loop_sync is None
        if waits or sent.rules.bytes_per_second or end - start > most or not self._link.writable:
            self._wake.set()
            return
        try:
            data = sent.raw.read_log(start, end - start)
        except GantryError:
            data = b""
        if isinstance(data, bytes) and len(data) == end - start:
            single = is_one_record(data)
            if self._flushed is None or self._single_records.sync_now(end, single=single and not self._unreported):
                self._write(data)
                now = self._written_at
                sent.busy_poll.happened(self, now, now, alone=single)
                return
        elif not isinstance(data, bytes):  # not in memory
            asyncio.ensure_future(data).cancel()
        self._wake.set()

    def reported(self, heard_at: float, *, alone: bool) -> None:
        """Note that a report of *heard_at* was handled; *alone* if the slave has all that was sent."""
        self._unreported = not alone
        self._sent.busy_poll.happened(self, heard_at, self._now(), alone=alone)

    def tell(self) -> None:
        """Send a heartbeat soon, if no record follows and it would contain something new."""
        if self._idle and self._news is None and self._frames.has_news:
            self._news = self._sent.clock.call_later(_QUIET_S, self._tell)

    def _tell(self) -> None:
        self._news = None
        if not self._idle or not self._frames.has_news:
            return
        left = self._written_at + _QUIET_S - self._now()
        if left > 0:
            self._news = self._sent.clock.call_later(left, self._tell)
        else:
            self._write(b"")

    async def run(self) -> None:
        """Send until the connection is lost or this is cancelled.

        Raises:
            OSError: the connection is lost, the slave is too slow, or the log was truncated.
            StoreError: the log cannot be read.
        """
        sent, frames = self._sent, self._frames
        try:
            while True:
                end = sent.raw.log_range().max_offset
                if not self._begun:
                    await self._wake.wait()
                    self._wake.clear()
                elif frames.next_offset < end and frames.room():
                    if self._flushed is not None:
                        await self._flushed(end)
                    await self._send(end)
                elif self._now() - self._written_at >= sent.rules.heartbeat_s:
                    self._write(b"")
                else:
                    await self._wait()
        finally:
            if self._news is not None:
                self._news.cancel()

    async def _send(self, end: int) -> None:
        """Send the log up to *end*."""
        frames, slices = self._frames, TimeSlices(self._sent.clock, 16)
        while (start := frames.next_offset) < end:
            most = min(await self._flow(), end - start, frames.room())
            try:
                data = self._sent.raw.read_log(start, most)
                data = await data if isawaitable(data) else data
            except LogMismatch as error:
                raise ConnectionError(f"it is too slow, or the log was truncated: {error}; it begins again") from error
            self._write(data)
            await slices.item_done()

    def _write(self, data: bytes) -> None:
        """Write *data* in transfers, or a heartbeat if it is empty."""
        size = self._sent.rules.batch_bytes
        parts: list[bytes] = []
        for start in range(0, len(data) or 1, size):
            parts += self._frames.transfer(data[start : start + size])
        self._link.writelines(parts)
        self._written_at = self._now()
        self._unreported = self._unreported or bool(data)
        self._window_bytes += len(data)
        if self._wrote is not None:
            self._wrote(len(data), self._written_at)

    async def _flow(self) -> int:
        """Wait until the slave reads and flow control allows to send, and return how many bytes."""
        await self._link.drain()
        rate = self._sent.rules.bytes_per_second
        if not rate:
            return _PIECE_BYTES
        while True:
            now = self._now()
            if now - self._window_at >= 1:
                self._window_at, self._window_bytes = now, 0
            if self._window_bytes < rate:
                return min(_PIECE_BYTES, rate - self._window_bytes)
            await self._sent.clock.sleep(self._window_at + 1 - now)

    async def _wait(self) -> None:
        """Wait until something was appended or a heartbeat is due."""
        due = max(0.001, self._written_at + self._sent.rules.heartbeat_s - self._now())
        self._idle = True
        self.tell()
        await wait_set(self._sent.clock, self._wake, due)
        self._idle = False
        self._wake.clear()
