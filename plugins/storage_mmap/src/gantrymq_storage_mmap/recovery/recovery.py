"""Recovery: find the end of the log, and make the queues consistent with it.

1. Start. After a clean stop of ours nothing is read but the newest record. After any other stop reading starts at the
   checkpoint, the log offset up to which everything is durable (`checkpoint.saved_point`). If a Java broker used the
   store since: at the record of the newest queue entry, or, after a crash, at the newest file whose first record is
   older than the durable time in RocketMQ's checkpoint. At the log's start if queues lack entries.
2. From there every record is checked as a whole. If a place has no sound record, sound records are searched after it.
   If there are none, the log ends there, and everything after it is copied to quarantine and zeroed. If there are, the
   place is a hole: its bytes are copied to quarantine and replaced by a filler, and the records after it stay
   (`log_repair`).
3. Everything read is written again and synced; otherwise a page that is only in the cache would be shown to consumers
   and then lost.
4. Queues are cut there, and the records requeued (`replay`); then the ends of all queues are checked (`queue_ends`).

Damage before the start is not searched, so that the duration depends on the checkpoint and not on the log's length;
only the head of each file is checked. Reads detect the rest (`reading.get`).

Differences to Java: it checks only the body's CRC, ends the log at the first damage and deletes everything after it,
and rebuilds missing queues only from its starting file on.

Source: apache/rocketmq store/.../CommitLog.java (recoverNormally, recoverAbnormally, isMappedFileMatchedRecover),
ConsumeQueue.java (recover, truncateDirtyLogicFiles, correctMinOffset).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import attrs

from gantrymq.errors import StoreDamaged
from gantrymq.plugin.interfaces import RecoveryReport
from gantrymq.plugin.names import SCHEDULE_TOPIC
from gantrymq.plugin.world import Clock, Files
from gantrymq_storage_mmap.checkpoint.saved_point import SavedPoint
from gantrymq_storage_mmap.log.commit_log import CommitLog
from gantrymq_storage_mmap.log.file import LogFile
from gantrymq_storage_mmap.log.source import CommitLogSource
from gantrymq_storage_mmap.queues.batch_queue import BatchQueue
from gantrymq_storage_mmap.queues.consume_queue import ConsumeQueue
from gantrymq_storage_mmap.queues.dropped_topics import DroppedTopics
from gantrymq_storage_mmap.queues.table import QueueTable
from gantrymq_storage_mmap.recovery.log_repair import MAX_NOTES, LogRepair, Quarantine
from gantrymq_storage_mmap.recovery.queue_ends import QueueEnds
from gantrymq_storage_mmap.recovery.queue_repair import QueueHole, QueueRepair, RepairView, repair_summary
from gantrymq_storage_mmap.recovery.replay import BatchTopic, Replay
from gantrymq_storage_mmap.recovery.requeue import EntriesMissing, LogHoles
from gantrymq_storage_mmap.settings import Options
from gantrymq_store_files.check import HEAD_BYTES, LogContent, head_is_sound
from gantrymq_store_files.checkpoint import Checkpoint
from gantrymq_store_files.log_entries import LogEntries
from gantrymq_store_files.log_source import check_offset
from gantrymq_store_files.log_walk import LogDamage

PROGRESS_S = 1.0
_MOST_ENTRIES = 5_000_000  # rebuilt in memory, 100 MB


@attrs.define(eq=False)
class Recovery:
    """One recovery of one store. Blocks; runs in a thread while nothing else uses the store."""

    _files: Files
    _clock: Clock
    _log: CommitLog  # its files are loaded, its positions are set after recovery
    _queues: QueueTable  # as loaded
    _dropped: DroppedTopics  # records of deleted topics
    _options: Options
    _delay_levels_ms: Sequence[int]  # of the messages that are stored
    _make_durable: Callable[[], object]  # writes and syncs the tails of queues
    _report: Callable[[str], object]  # called with each note
    _report_progress: Callable[[str], object]  # called with a line each second while the log is read
    newest: tuple[int, int] = attrs.field(default=(-1, 0), init=False)  # log offset and size of the newest record
    log_start: int = attrs.field(default=0, init=False)  # log offset from which the log was read
    durable_offset: int = attrs.field(default=0, init=False)  # every record before it has durable entries
    last_timestamp: int = attrs.field(default=0, init=False)  # ms, newest store time; new ones never get an earlier one
    _source: CommitLogSource = attrs.field(init=False)
    _log_quarantine: Quarantine = attrs.field(init=False)
    _queue_quarantine: Quarantine = attrs.field(init=False)
    _log_repair: LogRepair = attrs.field(init=False)
    _holes: LogHoles = attrs.field(init=False)
    _ends: QueueEnds = attrs.field(init=False)
    _notes: list[str] = attrs.field(factory=list, init=False)
    _end: int = attrs.field(default=0, init=False)  # log offset after the last sound record
    _records: int = attrs.field(default=0, init=False)  # number of records read
    _entries_rebuilt: int = attrs.field(default=0, init=False)  # number of entries rebuilt in files
    _tail: LogDamage | None = attrs.field(default=None, init=False)  # damage after the end
    _only_zeros: bool = attrs.field(default=True, init=False)  # after the end

    def __attrs_post_init__(self) -> None:
        inside = Path("recovered", str(self._clock.now_ms()))  # quarantine folder
        self._source = CommitLogSource(self._log)
        self._log_quarantine = Quarantine(self._files, self._options.log_folder.parent, inside)
        self._queue_quarantine = Quarantine(self._files, self._options.root, inside)
        self._log_repair = LogRepair(self._files, self._log, self._log_quarantine, self.note)

    def run(
        self, clean: bool, checkpoint: Checkpoint, saved: SavedPoint | None, searched: tuple[int, int]
    ) -> RecoveryReport:
        """Recover the store; then the log and the queues have their positions.

        Args:
            clean: the last stop was a normal one.
            checkpoint: RocketMQ's checkpoint as found.
            saved: our checkpoint, if it is valid.
            searched: log offset and size of the record of the newest queue entry, if queues were searched.

        Raises:
            StoreDamaged: the contents contradict each other.
            OSError: the disk failed.
        """
        known = (-1, 0)
        if clean:
            known = saved.newest[:2] if saved is not None else searched
        untouched = clean and saved is not None and self._is_unchanged(saved)
        if saved is not None and untouched:
            self._end, self.newest, self.last_timestamp = saved.offset, saved.newest[:2], saved.newest[2]
            self.log_start = saved.offset
            self._records = 1 if saved.newest[0] >= 0 else 0
            replay = self._begin_replay(saved.offset)
        else:
            replay = self._read_from(self._start(clean, checkpoint, saved, known), known)
            if checkpoint.ahead_of(self.last_timestamp) and saved is None:
                self.note(
                    f"the checkpoint's times are {checkpoint.log_timestamp} and {checkpoint.queue_timestamp} ms, but "
                    f"the newest record is of {self.last_timestamp} ms; it is ignored and rewritten"
                )
                if not clean and self.log_start > self._log.min_offset:
                    replay = self._read_from(self._log.min_offset, known)
        if self.log_start > self._log.min_offset and not self._repair_queues(searched=saved is None):
            untouched = False
            replay = self._read_from(self._log.min_offset, known)
        short = list(self._ends.check_unlisted(replay, self.log_start, self._end))
        if short and self.log_start > self._log.min_offset:
            names = ", ".join(short[:MAX_NOTES]) + (", ..." if len(short) > MAX_NOTES else "")
            self.note(f"entries of {len(short)} queues are missing ({names}); the whole log is read to rebuild them")
            untouched = False
            replay = self._read_from(self._log.min_offset, known)
            list(self._ends.check_unlisted(replay, self.log_start, self._end))
        if saved is not None and self._end >= saved.offset and self.log_start >= saved.newest[0]:
            self.last_timestamp = max(self.last_timestamp, saved.newest[2])
            if not self._records:
                self.newest = saved.newest[:2]
        if not untouched:
            self._repair_log(clean)
        self._settle_queues(replay, saved)
        return RecoveryReport(
            clean=clean,
            records_checked=self._records,
            log_end=self._end,
            cut_bytes=self._log_repair.cut_bytes,
            kept=tuple(self._log_quarantine.kept + self._queue_quarantine.kept),
            entries_rebuilt=replay.listed + self._entries_rebuilt,
            notes=tuple(self._notes),
        )

    def note(self, sentence: str) -> None:
        """Report *sentence* and add it to the result."""
        self._notes.append(sentence)
        self._report(sentence)

    # --- where to start ---------------------------------------------------------------------------------------------

    def _is_unchanged(self, saved: SavedPoint) -> bool:
        """After a clean stop of ours: whether the log ends where *saved* says, and its newest record is sound."""
        if not self._holds_newest(saved):
            return False
        if check_offset(self._source, saved.offset, check_crc=False).found is not LogContent.END:
            return False
        for file in self._log.files:
            if file.start > saved.offset and check_offset(self._source, file.start, check_crc=False).record is not None:
                raise StoreDamaged(
                    f"the log ends at {saved.offset}, but {file.path} after it holds records; copy the store, put an "
                    f"empty file named abort into {self._options.root} and start again to give up the data between"
                )
        return all(self._has_sound_head(file, saved.offset) for file in self._log.files)

    def _start(self, clean: bool, checkpoint: Checkpoint, saved: SavedPoint | None, known: tuple[int, int]) -> int:
        """Return the log offset at which to start reading the log."""
        low = self._log.min_offset
        if saved is not None:
            start = saved.newest[0] if clean or not self._holds_newest(saved) else saved.offset
        elif clean and (known[0] < low or self._has_newest_queued(known)):
            start = sum(known) if known[0] >= low else low
        else:
            start = self._by_time(checkpoint)
        start = max(start, low) if start >= 0 else low
        for file in self._log.files:
            if file.start < start and not self._has_sound_head(file, start):
                self.note(f"log file {file.path} does not begin with a record; the log is read from there on")
                return file.start
        return start

    def _holds_newest(self, saved: SavedPoint) -> bool:
        """Return whether the newest record in *saved* is sound, or has left the log."""
        place, size = saved.newest[:2]
        if place < self._log.min_offset:
            return True
        return check_offset(self._source, place, check_crc=self._options.check_crc).size == size

    def _has_newest_queued(self, known: tuple[int, int]) -> bool:
        """Return whether the record of the newest queue entry is in the log; if not, the stop was not clean."""
        found = check_offset(self._source, known[0], check_crc=self._options.check_crc)
        if found.record is not None and found.size == known[1]:
            self.newest, self.last_timestamp = known, found.record.store_timestamp
            return True
        self.note(f"a queue refers to a record at {known[0]} that is not in the log; recovering as after a crash")
        return False

    @staticmethod
    def _has_sound_head(file: LogFile, start: int) -> bool:
        """Check the head of a file before *start*; later files are read anyway."""
        if file.start >= start:
            return True
        head = file.pread(file.start, file.start + HEAD_BYTES)
        return head_is_sound(head, file.start, file.end - file.start)

    def _by_time(self, checkpoint: Checkpoint) -> int:
        """Return RocketMQ's start: the newest file whose first record is older than the checkpoint."""
        durable = checkpoint.recovery_timestamp()
        if durable > 0 and any(segments.end for segments in self._queues.segmented_files()):
            for file in reversed(self._log.files):
                record = check_offset(self._source, file.start, check_crc=False).record
                if record is None or record.topic == SCHEDULE_TOPIC:
                    continue  # a delayed message has the time of a clock that may have been set back
                if 0 < record.store_timestamp <= durable:
                    return file.start
        return self._log.min_offset

    # --- reading ----------------------------------------------------------------------------------------------------

    def _begin_replay(self, start: int) -> Replay:
        self._holes = LogHoles()
        self._ends = QueueEnds(
            self._files, self._queues, self._holes, self._queue_quarantine, self.note, self._options.light_queues
        )
        return Replay(
            self._queues,
            self._dropped,
            self._holes,
            start,
            partial=start > self._log.min_offset,
            light=self._options.light_queues,
            make_durable=self._make_durable,
        )

    def _read_from(self, start: int, known: tuple[int, int]) -> Replay:
        """Read the log from *start* on; again from the log's start if queues lack older entries."""
        while True:
            replay = self._begin_replay(start)
            try:
                self._read(replay, start, known)
            except BatchTopic as found:
                self._queues.convert_to_batch(str(found))
            except EntriesMissing:
                self.note("consume queues lack entries from before the recovery's start; the whole log is read again")
                start = self._log.min_offset
            else:
                return replay

    def _read(self, replay: Replay, start: int, known: tuple[int, int]) -> None:
        """Replay all records from *start* on. *known*: log offset and size of a record that existed at a clean stop."""
        options = self._options
        walk = LogEntries(self._source, start, delay_levels_ms=self._delay_levels_ms, check_crc=options.check_crc)
        progress = self._progress(start)
        pending: list[LogDamage] = []  # holes, once a record is found after them
        self.log_start = start
        for found in walk:
            if isinstance(found, LogDamage):
                pending.append(found)
                continue
            for damage in pending:
                self._holes.add(damage)
            pending = []
            replay.process(found)
            progress(walk.position)
        self._records = walk.records
        if walk.records:
            self.last_timestamp, self.newest = walk.last_timestamp, walk.last
        self._end, self._tail = walk.sound_end, pending[0] if pending else None
        self._only_zeros = not pending and walk.zeros_from >= 0
        place, size = known
        if size and self._end <= place and self._log.find(place) is self._log.find(place + size - 1):
            # The record existed at a clean stop, so this is damage and not an interrupted write.
            problem = pending[0].problem if pending else f"nothing at log offset {place}"
            self._holes.add(LogDamage("damaged", self._end, place + size - self._end, problem, self.last_timestamp))
            self._end, self._tail = place + size, None

    def _progress(self, start: int) -> Callable[[int], None]:
        """Return a function that reports once a second how far the log was read."""
        clock = self._clock
        begun = reported = clock.monotonic()
        end = self._log.files[-1].end if self._log.files else start

        def progress(log_offset: int) -> None:
            nonlocal reported
            now = clock.monotonic()
            if now - reported >= PROGRESS_S:
                reported = now
                done, speed = log_offset - start, (log_offset - start) / (now - begun)
                self._report_progress(
                    f"recovering the store: {done / 1e6:.0f} of at most {(end - start) / 1e6:.0f} MB of the log read, "
                    f"{speed / 1e6:.0f} MB/s"
                )

        return progress

    # --- what is changed --------------------------------------------------------------------------------------------

    def _repair_log(self, clean: bool) -> None:
        self._log_repair.fill(self._holes.found)
        if not self._only_zeros:
            self._log_repair.cut(self._end, self._tail)
        if not clean:
            self._log_repair.write_again(self.log_start, self._end)

    def _repair_queues(self, *, searched: bool) -> bool:
        """Rebuild missing or wrong queue entries; False if there are too many, so that the whole log must be read.

        *searched*: no checkpoint gives the ends of the queues.
        """
        queues, end = self._queues, self._end
        repair = QueueRepair(self._log, self._dropped, self._delay_levels_ms)
        holes: list[QueueHole] = []
        segmented_files: list[ConsumeQueue | BatchQueue] = [*queues.by_name.values(), *queues.batch.values()]
        for view in map(RepairView, segmented_files):
            if not repair.is_consistent(view, end):
                holes += repair.holes(view, end)
            if searched:
                holes += repair.holes_outside_files(view, end)
        if sum(hole.high - hole.low for hole in holes if not hole.open) > _MOST_ENTRIES:
            names = {f"{hole.view.queue.topic}/{hole.view.queue.queue_id}" for hole in holes}
            self.note(f"entries of {len(names)} queues are missing; the whole log is read to rebuild them")
            return False
        if holes:
            made = repair.make(holes, self._progress(self._log.min_offset))
            for each in made:
                each.write()
                if each.hole.open and each.entries:
                    queues.pending.appended(each.hole.view.queue, len(each.entries))
            self._entries_rebuilt = sum(each.count for each in made)
            self._make_durable()
            if (sentence := repair_summary(made)) is not None:
                self.note(sentence)
        return True

    def _settle_queues(self, replay: Replay, saved: SavedPoint | None) -> None:
        log_min = self._log.min_offset
        minima = saved is None or saved.log_min != log_min
        for sentence in self._ends.settle(replay, log_min, minima=minima):
            self.note(sentence)
        if saved is not None and self.log_start == log_min:
            self._ends.restore_offsets(saved, self._dropped.before)
        for topic in sorted(replay.skipped_topics):
            self.note(f"topic {topic} has records that no queue can hold; they are in the log only")
        for sentence in replay.misplaced[:MAX_NOTES]:
            self.note(sentence)
        if len(replay.misplaced) > MAX_NOTES:
            self.note(f"{len(replay.misplaced) - MAX_NOTES} more records are in the log only")
        self.durable_offset = self.log_start if self._queues.pending.unsynced else self._end
