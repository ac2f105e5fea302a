"""Appends the log that a master sends to the log of its slave, and reports its end; for fixed and elected roles.

Records are appended in the step of the event loop in which they arrive. With flushDiskType=SYNC_FLUSH the slave reports
what is on its disk, else what it has appended, at once. Records that come one by one, each after the report of the one
before, are synced in that step too if the disk is quick.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from gantrymq.errors import LogMismatch
from gantrymq.plugin.interfaces import BrokerStorage, RawLog
from gantrymq.plugin.network import BusyPoll
from gantrymq.plugin.world import wait_set
from gantrymq_replication.link import Link
from gantrymq_replication.protocol import Refused
from gantrymq_replication.settings import HaSettings
from gantrymq_replication.single_records import SingleRecordSync, is_one_record

UNREPORTED_BYTES: Final = 32 * 1024 * 1024  # appended and not reported; the slave reads no more until there are fewer


class LogAppending:
    """The end of a slave's log, while one connection adds to it."""

    def __init__(
        self, broker: BrokerStorage, raw_log: RawLog, rules: HaSettings, link: Link, report: Callable[[int], bytes]
    ) -> None:
        """*report* returns the bytes of a report."""
        self.end = raw_log.log_range().max_offset  # offset of the next record
        self.wrote_at_ms = 0
        self._broker, self._log, self._rules, self._link, self._make_report = broker, raw_log, rules, link, report
        self._clock = broker.world.clock
        self._syncs = broker.settings.text("flushDiskType") == "SYNC_FLUSH"
        self._single_records = SingleRecordSync(broker.store_capabilities.loop_sync)
        self._busy_poll = BusyPoll(broker.world, broker.settings.number("busyPollMicros") / 1_000_000)
        self._empty = not self.end
        self._rest = b""  # of an incomplete record
        self._begun = False  # the end of the log is reported
        self._reported, self._reported_at = -1, 0.0
        self._grown = asyncio.Event()

    def begin(self, end: int | None = None) -> None:
        """Report the end of the log from now on, at once if it was cut to *end*."""
        self._begun = True
        if end is not None:
            self.end, self._empty = end, not end
            self.report(end)
        self._grown.set()

    def append(self, log_offset: int, pieces: Sequence[bytes], heard_at: float) -> None:
        """Append the whole records in *pieces*, the log from *log_offset* on, received at *heard_at*. Keep the rest.

        Raises:
            Refused: they do not fit.
            StoreError: this store takes no more.
        """
        if self._empty:  # it begins where the master begins
            self.end, self._empty = log_offset, False
        data = b"".join((self._rest, *pieces))
        before = self.end
        try:
            self.end = self._log.append_raw(before, data)
        except LogMismatch as error:
            raise Refused(f"the master's log does not fit: {error}") from error
        self._rest = data[self.end - before :]
        if self.end > before:
            self._has_grown(before, heard_at, alone=is_one_record(data))

    def _has_grown(self, before: int, heard_at: float, *, alone: bool) -> None:
        """Report the end, which was *before*, at once if nothing has to be waited for."""
        single = alone and before == self._reported
        if self._begun and self._link.writable and self._reportable_now(single=single):
            self.report(self.end)
            self._busy_poll.happened(self, heard_at, self._reported_at, alone=alone)
            return
        self._grown.set()
        if self.end - self._reported > UNREPORTED_BYTES:
            self._link.pause()

    def _reportable_now(self, *, single: bool) -> bool:
        """Return whether the end may be reported in this step; *single*: as for `SingleRecordSync`."""
        return not self._syncs or self._single_records.sync_now(self.end, single=single)

    def report(self, log_offset: int) -> None:
        """Report that the slave has the log up to *log_offset*."""
        self._link.write(self._make_report(log_offset))
        self._reported, self._reported_at = log_offset, self._clock.monotonic()
        self.wrote_at_ms = self._clock.now_ms()

    async def report_always(self) -> None:
        """Report the end that was not reported at once, and after haSendHeartbeatInterval without a report."""
        while True:
            if self._reported < 0:  # the logs are not compared yet
                await self._grown.wait()
                self._grown.clear()
                continue
            have = self.end if self._begun else self._reported
            due = self._reported_at + self._rules.heartbeat_s - self._clock.monotonic()
            if have > self._reported or due <= 0:
                if self._syncs:
                    await self._broker.store.flushed(have)
                await self._link.drain()
                self.report(max(have, self._reported))
                if self.end - self._reported <= UNREPORTED_BYTES:
                    self._link.resume()
                continue
            await wait_set(self._clock, self._grown, due)
            self._grown.clear()
