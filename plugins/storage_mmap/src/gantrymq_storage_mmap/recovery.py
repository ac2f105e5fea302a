"""Recovery: find the end of the log, and bring the queues in line with it.

1. Where to start. After a clean stop: at the record of the newest queue entry. After any other: at the newest file
   whose first record is older than what the checkpoint says is durable. At the log's start when there are no queues.
2. From there every record is checked whole. The first thing that is no sound record ends the log: what stands there
   and behind is copied aside and zeroed, later files that hold anything are moved aside.
3. Each record's queue entry is compared and written where it is missing or wrong. Entries behind the last record of a
   queue are cut off (and kept) too. Where the scanned part shows that older entries are missing, the whole log is read.
4. Each queue's minimum follows the log's minimum.

Java differs in three points: it checks only the body's CRC, it deletes what it cuts off, and it rebuilds queues that
are missing only from its starting file on.

Source: apache/rocketmq store/.../CommitLog.java (recoverNormally, recoverAbnormally, isMappedFileMatchedRecover),
ConsumeQueue.java (recover, truncateDirtyLogicFiles, correctMinOffset).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gantrymq.errors import StoreDamaged
from gantrymq.formats.check import Found, check_place
from gantrymq.formats.checkpoint import Checkpoint
from gantrymq.formats.queue_entry import ENTRY_BYTES
from gantrymq.formats.record import RecordView
from gantrymq.interfaces import RecoveryReport
from gantrymq.model.names import LMQ_PREFIX
from gantrymq.model.sys_flag import INNER_BATCH, TRANSACTION_PREPARED
from gantrymq.world import File, Files
from gantrymq_storage_mmap.commit_log import CommitLog
from gantrymq_storage_mmap.consume_queue import ConsumeQueue
from gantrymq_storage_mmap.log_file import file_name, file_start
from gantrymq_storage_mmap.log_scan import ScanEnd, check_records, first_record
from gantrymq_storage_mmap.options import Options
from gantrymq_storage_mmap.queue_rebuild import EntriesMissing, QueueRebuild, first_entry_from
from gantrymq_storage_mmap.queue_table import QueueTable
from gantrymq_storage_mmap.set_aside import SetAside, nonzero_end

__all__ = ["Recovery"]

LOOK_BEHIND_BYTES = 64 * 1024


class Recovery:
    """One recovery of one store. Blocks; runs in a thread while nothing else uses the store."""

    def __init__(
        self,
        files: Files,
        log: CommitLog,
        queues: QueueTable,
        options: Options,
        stamp_ms: int,
        tell: Callable[[str], object],
    ) -> None:
        """*stamp_ms* names the folder of what is cut off; *tell* is shown each note as it is made."""
        self._files = files
        self._log = log
        self._queues = queues
        self._options = options
        self._log_aside = SetAside(files, options.log_folder, stamp_ms)
        self._queue_aside = SetAside(files, options.root / "consumequeue", stamp_ms)
        self._tell = tell
        self._notes: list[str] = []
        self._cut_bytes = 0
        self._skipped_topics: set[str] = set()
        self.log_start = 0  # where the scan began
        self.last_timestamp = 0  # ms, store time of the newest record

    def run(self, clean: bool, checkpoint: Checkpoint) -> RecoveryReport:
        """Recover; the log and the queues have their positions afterwards, and everything is durable.

        Raises:
            StoreDamaged: what is there contradicts itself.
            OSError: the disk failed.
        """
        start = self._clean_start() if clean else None
        if start is None:
            start = self._unclean_start(checkpoint)
        try:
            rebuilds, end = self._scan(start)
        except EntriesMissing:
            self._note("consume queues miss entries from before the recovery's start; the whole log is read again")
            start = self._log.min_offset
            rebuilds, end = self._scan(start)
        self.log_start, self.last_timestamp = start, max(end.last_timestamp, checkpoint.log_timestamp)
        if not (clean and end.found is Found.END):
            self._cut_log(end)
        else:
            self._refuse_late_files(end.log_offset)
        self._settle_queues(rebuilds, start, end.log_offset, look_behind=not clean or end.found is not Found.END)
        for topic in sorted(self._skipped_topics):
            self._note(
                f"topic {topic} has records whose kind of queue is not built in this version; they are in the log only"
            )
        return RecoveryReport(
            clean=clean,
            records_checked=end.records,
            log_end=end.log_offset,
            cut_bytes=self._cut_bytes,
            kept=tuple(self._log_aside.kept + self._queue_aside.kept),
            entries_rebuilt=sum(rebuild.rebuilt for rebuild in rebuilds.values()),
            notes=tuple(self._notes),
        )

    # --- where to start ---------------------------------------------------------------------------------------------

    def _clean_start(self) -> int | None:
        """The record of the newest queue entry; None when it is not there, so that this was no clean stop after all."""
        newest = max((self._last_entry(queue) for queue in self._queues.by_name.values()), default=(-1, 0))
        if newest[0] < self._log.min_offset:
            return self._log.min_offset
        file = self._log.find(newest[0])
        if file is not None:
            found = check_place(
                file.mapping().view, newest[0] - file.start, newest[0], check_crc=self._options.check_crc
            )
            if found.record is not None and found.size == newest[1]:
                return newest[0]
        self._note(f"a queue names a record at {newest[0]} that is not in the log; recovering as after a crash")
        return None

    def _unclean_start(self, checkpoint: Checkpoint) -> int:
        durable = checkpoint.recovery_timestamp()
        if durable > 0 and any(not queue.empty for queue in self._queues.by_name.values()):
            for file in reversed(self._log.files):
                record = first_record(file)
                if record is not None and 0 < record.store_timestamp <= durable:
                    return file.start
        return self._log.min_offset

    @staticmethod
    def _last_entry(queue: ConsumeQueue) -> tuple[int, int]:
        entry = queue.entry(queue.max_offset - 1) if queue.max_offset > queue.min_offset else None
        return (entry[0], entry[1]) if entry is not None else (-1, 0)

    # --- scan -------------------------------------------------------------------------------------------------------

    def _scan(self, start: int) -> tuple[dict[ConsumeQueue, QueueRebuild], ScanEnd]:
        rebuilds: dict[ConsumeQueue, QueueRebuild] = {}
        by_name: dict[tuple[str, int], QueueRebuild] = {}
        levels, dropped = self._options.delay_levels_ms, self._queues.dropped.holds

        def see(record: RecordView) -> None:
            if record.sys_flag & (TRANSACTION_PREPARED | INNER_BATCH):
                if record.sys_flag & INNER_BATCH:
                    self._skipped_topics.add(record.topic)
                return
            if dropped(record.topic, record.log_offset):
                return
            rebuild = by_name.get((record.topic, record.queue_id))
            if rebuild is None:
                queue = self._queues.make(record.topic, record.queue_id)
                if isinstance(queue, str):
                    self._skipped_topics.add(record.topic)
                    return
                rebuild = QueueRebuild(queue, start, partial=start > self._log.min_offset)
                by_name[record.topic, record.queue_id] = rebuilds[queue] = rebuild
            rebuild.see(record, levels)

        return rebuilds, check_records(self._log.files, start, self._options.check_crc, see)

    # --- the log's end ----------------------------------------------------------------------------------------------

    def _cut_log(self, end: ScanEnd) -> None:
        """Keep and zero what stands behind the last sound record."""
        place, gap = end.log_offset, False
        if end.problem:
            kind = "a write that did not finish" if end.found is Found.TORN else "damage"
            self._note(f"the log ends at {place} because of {kind}: {end.problem}")
        for file in self._log.files:
            if file.end <= place:
                continue
            file.unmap()
            if file.start <= place:
                cut = self._log_aside.cut(file.file, place - file.start, file.end - file.start, file.start)
                if cut:
                    self._note(f"{cut} bytes behind the log's end at {place} were kept in {self._log_aside.kept[-1]}")
                self._cut_bytes += cut
            elif (used := nonzero_end(file.file, 0, file.end - file.start)) > 0:
                self._cut_bytes += used
                moved = self._log_aside.move(file.path)
                self._note(f"log file {file_name(file.start)} lies behind the log's end and was kept as {moved}")
                gap = True
            elif gap:
                self._files.remove(file.path)  # zeros only, and no longer next to the others
        for file in self._log.files:
            if self.log_start < file.end and file.start <= place:
                file.file.datasync()

    def _refuse_late_files(self, place: int) -> None:
        """After a clean stop nothing lies behind the end."""
        for file in self._log.files:
            if file.start > place and first_record(file) is not None:
                raise StoreDamaged(
                    f"the log ends at {place}, but {file.path} behind it holds records; copy the store, put an empty "
                    f"file named abort into {self._options.root} and start again to have it moved aside"
                )

    # --- queues -----------------------------------------------------------------------------------------------------

    def _settle_queues(
        self, rebuilds: dict[ConsumeQueue, QueueRebuild], start: int, end: int, *, look_behind: bool
    ) -> None:
        log_min = self._log.min_offset
        for queue in self._queues.by_name.values():
            rebuild = rebuilds.get(queue)
            if rebuild is None:  # no record was scanned: entries from the scan's start on have none
                rebuild = QueueRebuild(queue, end if queue.topic.startswith(LMQ_PREFIX) else start)
            rebuild.finish()
            if rebuild.lost:
                self._note(f"queue {queue.topic}/{queue.queue_id}: {rebuild.lost} messages are not in the log")
            queue.min_offset = min(first_entry_from(queue, log_min), queue.max_offset)
        if look_behind:
            self._cut_queues()
        for queue in self._queues.dirty():
            for position in queue.file_starts(queue.dirty_from, queue.max_offset):
                self._queues.queue_files.made(queue.folder, position).datasync()
            queue.dirty_from = -1
        for folder in self._queues.queue_files.new_folders:
            self._files.sync_dir(folder)
        self._queues.queue_files.new_folders = {}

    def _cut_queues(self) -> None:
        """Keep and zero what stands behind the end of each queue.

        Entries without a record are left when the log lost what its queues did not. Then every byte behind every end is
        looked at; while nothing hints at it, the next 64 KiB are (files are sparse, and there may be very many).
        """
        queues = [queue for queue in self._queues.by_name.values() if not queue.empty]
        if self._cut_bytes or any(self._holds_more(queue) for queue in queues):
            for queue in queues:
                self._cut_queue(queue)

    def _holds_more(self, queue: ConsumeQueue) -> bool:
        """Whether something stands right behind the queue's end."""
        for file, _, first in self._behind(queue):
            last = min(first + LOOK_BEHIND_BYTES, self._options.queue_file_bytes)
            if nonzero_end(file, first, last) > first:
                return True
        return False

    def _cut_queue(self, queue: ConsumeQueue) -> None:
        for file, position, first in self._behind(queue):
            if cut := self._queue_aside.cut(file, first, self._options.queue_file_bytes, position):
                self._note(
                    f"queue {queue.topic}/{queue.queue_id}: {-(-cut // ENTRY_BYTES)} entries without a record were "
                    f"kept in {self._queue_aside.kept[-1]}"
                )

    def _behind(self, queue: ConsumeQueue) -> Iterator[tuple[File, int, int]]:
        """Files that reach behind the queue's end: each with its position, and where in it the end is."""
        end = queue.max_offset * ENTRY_BYTES
        for name in self._files.list(queue.folder):
            position = file_start(name)
            if position is not None and position + self._options.queue_file_bytes > end:
                file = self._queues.queue_files.existing(queue.folder, position)
                if file is not None:
                    yield file, position, max(end - position, 0)

    def _note(self, sentence: str) -> None:
        self._notes.append(sentence)
        self._tell(sentence)
