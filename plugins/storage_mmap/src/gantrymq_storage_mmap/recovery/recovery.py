"""Recovery: find the end of the log, and bring the queues in line with it.

1. Where to start. After a clean stop: at the record of the newest queue entry. After any other: at the newest file
   whose first record is older than what the checkpoint says is durable. At the log's start when there are no queues.
2. From there every record is checked whole. Where something is no sound record, sound ones are looked for behind it.
   When there are none the log ends there, and what stands behind is copied aside and zeroed. When there are, the place
   is a hole: its bytes are copied aside, a filler takes their place, and the records behind it stay (`log_mend`).
3. Each record's queue entries (a batch queue's, light queues', ext units) are compared and written where one is missing
   or wrong. Entries behind the last record of a
   queue are cut off (and kept) too. Where the scanned part, or the note of the last clean stop (`queue_ends`), shows
   that older entries are missing, the whole log is read.
4. Each queue's minimum follows the log's minimum.

Damage before the starting place is not looked for, so that the time depends on the checkpoint and not on the log's
length; only the head of each file is. Reads notice the rest (`get`).

Java differs in these points: it checks only the body's CRC, ends the log at the first damage and deletes what stands
behind, and rebuilds queues that are missing only from its starting file on.

Source: apache/rocketmq store/.../CommitLog.java (recoverNormally, recoverAbnormally, isMappedFileMatchedRecover),
ConsumeQueue.java (recover, truncateDirtyLogicFiles, correctMinOffset).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gantrymq.errors import StoreDamaged
from gantrymq.formats.check import HEAD_BYTES, Found, check_place, head_is_sound
from gantrymq.formats.checkpoint import Checkpoint
from gantrymq.interfaces import RecoveryReport
from gantrymq.world import Clock, Files
from gantrymq_storage_mmap.log.commit_log import CommitLog
from gantrymq_storage_mmap.log.mend import MAX_NOTES, LogMend
from gantrymq_storage_mmap.log.scan import LogScan, ScanEnd, first_record
from gantrymq_storage_mmap.options import Options
from gantrymq_storage_mmap.queues.batch_queue import BatchQueue
from gantrymq_storage_mmap.queues.consume_queue import ConsumeQueue
from gantrymq_storage_mmap.queues.table import QueueTable
from gantrymq_storage_mmap.recovery.queue_cut import QueueCut
from gantrymq_storage_mmap.recovery.queue_rebuild import EntriesMissing
from gantrymq_storage_mmap.recovery.queue_rebuilds import BatchTopic, QueueRebuilds
from gantrymq_storage_mmap.recovery.set_aside import SetAside

__all__ = ["Recovery"]

PROGRESS_S = 1.0


class Recovery:
    """One recovery of one store. Blocks; runs in a thread while nothing else uses the store."""

    def __init__(
        self,
        files: Files,
        log: CommitLog,
        queues: QueueTable,
        options: Options,
        clock: Clock,
        tell: Callable[[str], object],
        tell_progress: Callable[[str], object],
    ) -> None:
        """*tell* is shown each note as it is made, *tell_progress* a line each second while a scan goes on."""
        self.stamp_ms = clock.now_ms()  # names the folder of what is cut off
        self._files = files
        self._log = log
        self._queues = queues
        self._options = options
        self._log_aside = SetAside(files, options.log_folder, self.stamp_ms)
        self._queue_aside = SetAside(files, options.root / "consumequeue", self.stamp_ms)
        self._tell = tell
        self._tell_progress = tell_progress
        self._clock = clock
        self._mend = LogMend(files, log, self._log_aside, self.note)
        self._notes: list[str] = []
        self.log_start = 0  # where the scan began
        self.last_timestamp = 0  # ms, store time of the newest record
        self.checkpoint = Checkpoint()  # what may be believed of the one that was found

    def run(self, clean: bool, checkpoint: Checkpoint, short: Sequence[str] = ()) -> RecoveryReport:
        """Recover; the log and the queues have their positions afterwards, and everything is durable.

        Args:
            clean: the last stop was a normal one.
            checkpoint: as it was found.
            short: queues that are known to lack entries.

        Raises:
            StoreDamaged: what is there contradicts itself.
            OSError: the disk failed.
        """
        known = max(map(self._last_entry, self._every_queue()), default=(-1, 0))
        start = self._clean_start(known) if clean else None
        unclean = start is None
        if start is None:
            start = self._unclean_start(checkpoint)
        if short:
            names = ", ".join(short[:MAX_NOTES]) + (", ..." if len(short) > MAX_NOTES else "")
            self.note(f"entries of {len(short)} queues are missing ({names}); the whole log is read to write them anew")
            start = self._log.min_offset
        first = self._damaged_head(start)
        trust_end = not unclean and first == start
        rebuilds, scan, end = self._scan_all(first, trust_end=trust_end, known=known if clean else (-1, 0))
        if checkpoint.ahead_of(end.last_timestamp):
            self.note(
                f"the checkpoint's times are {checkpoint.log_timestamp} and {checkpoint.queue_timestamp} ms, but the "
                f"newest record is of {end.last_timestamp} ms; it is not believed, and written anew"
            )
            if unclean and self.log_start > self._log.min_offset:
                first = self._log.min_offset
                rebuilds, scan, end = self._scan_all(first, trust_end=False, known=known if clean else (-1, 0))
        self.checkpoint = checkpoint.up_to(end.last_timestamp)
        self.last_timestamp = end.last_timestamp
        self._mend.fill(scan.holes)
        if trust_end and end.found is Found.END:
            self._refuse_late_files(end.log_offset)
        else:
            self._mend.cut(end)
            self._mend.sync(self.log_start, end.log_offset)
        self._settle_queues(rebuilds, end.log_offset, look_behind=not clean or end.found is not Found.END)
        self._tell_skipped(rebuilds)
        return RecoveryReport(
            clean=clean,
            records_checked=end.records,
            log_end=end.log_offset,
            cut_bytes=self._mend.cut_bytes,
            kept=tuple(self._log_aside.kept + self._queue_aside.kept),
            entries_rebuilt=rebuilds.rebuilt,
            notes=tuple(self._notes),
        )

    def _tell_skipped(self, rebuilds: QueueRebuilds) -> None:
        for topic in sorted(rebuilds.skipped_topics):
            self.note(f"topic {topic} has records that no queue can list; they are in the log only")
        for sentence in rebuilds.misplaced[:MAX_NOTES]:
            self.note(sentence)
        if len(rebuilds.misplaced) > MAX_NOTES:
            self.note(f"{len(rebuilds.misplaced) - MAX_NOTES} more records are in the log only")

    # --- where to start ---------------------------------------------------------------------------------------------

    def _clean_start(self, newest: tuple[int, int]) -> int | None:
        """The record of the newest queue entry; None when it is not there, so that this was no clean stop after all."""
        if newest[0] < self._log.min_offset:
            return self._log.min_offset
        file = self._log.find(newest[0])
        if file is not None:
            found = check_place(
                file.mapping().view, newest[0] - file.start, newest[0], check_crc=self._options.check_crc
            )
            if found.record is not None and found.size == newest[1]:
                return newest[0]
        self.note(f"a queue names a record at {newest[0]} that is not in the log; recovering as after a crash")
        return None

    def _damaged_head(self, start: int) -> int:
        """Where to start instead when an older file does not begin with a record or a blank: one look at each file."""
        for file in self._log.files:
            if file.start >= start:
                break
            head = file.pread(file.start, file.start + HEAD_BYTES)
            if not head_is_sound(head, file.start, file.end - file.start):
                self.note(f"log file {file.path} does not begin with a record; the log is read from there on")
                return file.start
        return start

    def _unclean_start(self, checkpoint: Checkpoint) -> int:
        durable = checkpoint.recovery_timestamp()
        if durable > 0 and any(self._last_entry(queue)[0] >= 0 for queue in self._every_queue()):
            for file in reversed(self._log.files):
                record = first_record(file)
                if record is not None and 0 < record.store_timestamp <= durable:
                    return file.start
        return self._log.min_offset

    def _every_queue(self) -> list[ConsumeQueue | BatchQueue]:
        return [*self._queues.by_name.values(), *self._queues.batch.values()]

    @staticmethod
    def _last_entry(queue: ConsumeQueue | BatchQueue) -> tuple[int, int]:
        if isinstance(queue, BatchQueue):
            entry: tuple[int, ...] | None = queue.entry(queue.end - 1) if queue.end > queue.first else None
        else:
            entry = queue.entry(queue.max_offset - 1) if queue.max_offset > queue.min_offset else None
        return (entry[0], entry[1]) if entry is not None else (-1, 0)

    # --- scan -------------------------------------------------------------------------------------------------------

    def _scan_all(
        self, start: int, *, trust_end: bool, known: tuple[int, int]
    ) -> tuple[QueueRebuilds, LogScan, ScanEnd]:
        """Scan from *start* on; from the log's start when it turns out that queues miss older entries."""
        try:
            return self._scan(start, trust_end, known)
        except EntriesMissing:
            self.note("consume queues miss entries from before the recovery's start; the whole log is read again")
            return self._scan(self._log.min_offset, trust_end, known)

    def _scan(self, start: int, trust_end: bool, known: tuple[int, int]) -> tuple[QueueRebuilds, LogScan, ScanEnd]:
        self.log_start = start
        while True:
            rebuilds = QueueRebuilds(self._queues, self._options, start, partial=start > self._log.min_offset)
            progress = self._progress(start)
            scan = LogScan(self._log.files, self._options.check_crc, rebuilds.see, progress, rebuilds.holes)
            try:
                return rebuilds, scan, scan.run(start, trust_end=trust_end, known=known)
            except BatchTopic as found:
                self._queues.turn_to_batch(found.topic)

    def _progress(self, start: int) -> Callable[[int], None]:
        """Tells once a second how far the scan is, after the first second."""
        clock = self._clock
        begun = told = clock.monotonic()
        end = self._log.files[-1].end if self._log.files else start

        def progress(log_offset: int) -> None:
            nonlocal told
            now = clock.monotonic()
            if now - told >= PROGRESS_S:
                told = now
                done, speed = log_offset - start, (log_offset - start) / (now - begun)
                self._tell_progress(
                    f"recovering the store: {done / 1e6:.0f} of at most {(end - start) / 1e6:.0f} MB of the log read, "
                    f"{speed / 1e6:.0f} MB/s"
                )

        return progress

    # --- the log's end ----------------------------------------------------------------------------------------------

    def _refuse_late_files(self, place: int) -> None:
        """After a clean stop nothing lies behind the end."""
        for file in self._log.files:
            if file.start > place and first_record(file) is not None:
                raise StoreDamaged(
                    f"the log ends at {place}, but {file.path} behind it holds records; copy the store, put an empty "
                    f"file named abort into {self._options.root} and start again to have what lies between given up"
                )

    # --- queues -----------------------------------------------------------------------------------------------------

    def _settle_queues(self, rebuilds: QueueRebuilds, end: int, *, look_behind: bool) -> None:
        for sentence in rebuilds.finish(end, self._log.min_offset):
            self.note(sentence)
        if look_behind:
            cut = QueueCut(self._files, self._queues, self._queue_aside, self.note)
            cut.behind_ends(hinted=self._mend.cut_bytes > 0)
        for queue in self._queues.dirty():
            for position in queue.file_starts(queue.dirty_from, queue.max_offset):
                self._queues.queue_files.made(queue.folder, position).datasync()
            queue.dirty_from = -1
        for extra in self._queues.extras():
            for position in extra.take_dirty():
                extra.files.made(extra.folder, position).datasync()
        for files in (self._queues.queue_files, self._queues.batch_files, self._queues.ext_files):
            for folder in files.new_folders:
                self._files.sync_dir(folder)
            files.new_folders = {}

    def note(self, sentence: str) -> None:
        """Tell *sentence* and put it into the report."""
        self._notes.append(sentence)
        self._tell(sentence)
