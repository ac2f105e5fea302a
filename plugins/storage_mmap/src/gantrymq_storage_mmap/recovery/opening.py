"""Opening a store: load its files and recover their contents.

Source of the order: apache/rocketmq store/.../DefaultMessageStore.java (load).
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from gantrymq.errors import FormatError, StoreError
from gantrymq.plugin.interfaces import RecoveryReport
from gantrymq.plugin.world import is_disk_full
from gantrymq_storage_mmap.checkpoint.saved_point import SavedPoint, read_point, write_point
from gantrymq_storage_mmap.components import StoreComponents
from gantrymq_storage_mmap.index.file import IndexPosition
from gantrymq_storage_mmap.index.folder import IndexLoader, LoadedIndex
from gantrymq_storage_mmap.log.file import load_log_files
from gantrymq_storage_mmap.log.source import next_record
from gantrymq_storage_mmap.queues.loading import QueueLoader
from gantrymq_storage_mmap.recovery.recovery import Recovery
from gantrymq_storage_mmap.truncation import clear_after_end, cut_log_files
from gantrymq_store_files.checkpoint import CHECKPOINT_BYTES, Checkpoint, decode_checkpoint, encode_checkpoint
from gantrymq_store_files.delay_levels import DELAY_LEVELS, DelayLevels, read_delay_levels


@attrs.frozen
class OpenedStore:
    """Result of opening a store."""

    report: RecoveryReport
    durable_offset: int
    checkpoint: Checkpoint
    saved: SavedPoint | None
    index: LoadedIndex


class StoreOpening(StoreComponents):
    """The components of a store, and the loading of its files."""

    _given_up = False  # whether the start was cancelled
    _levels: DelayLevels | None = None  # as recorded in the store's folder

    def _open(self) -> OpenedStore:
        """Load and recover. Runs in a thread; nothing else uses the store meanwhile."""
        options, files, root = self._options, self._files, self._root
        clean = files.stat(root / "abort") is None
        stat = files.stat(root / "checkpoint")
        data = files.read(root / "checkpoint") if stat is not None else b""
        checkpoint = decode_checkpoint(data)
        self._wire(load_log_files(files, options.log_folder, options.log_file_bytes))
        self._dropped.load(self._log.min_offset)
        self._dropper.load()
        self._checkpointer.watch()
        notes: list[str] = []
        saved = read_point(files, root, notes.append) if stat is not None else None
        if saved is not None and not self._is_current(saved, checkpoint):
            saved = None
        log_end = saved.log_end if saved is not None and self._log.files else None
        if log_end is not None:
            notes.append(f"the log is truncated at {log_end}, which the last stop had interrupted")
            self._log.truncate(log_end, 0)
            cut_log_files(files, self._log, log_end)
        recovery = Recovery(
            files,
            self._clock,
            self._log,
            self._queues,
            self._dropped,
            options,
            self._recorded_levels(notes.append).newest_ms,
            self._checkpointer.make_durable_now,
            self._report,
            self._progress,
        )
        if stat is not None and len(data) != CHECKPOINT_BYTES:
            recovery.note(
                f"{root / 'checkpoint'} has {len(data)} bytes where {CHECKPOINT_BYTES} belong; it is rewritten"
            )
        for sentence in notes:
            recovery.note(sentence)
        loader = QueueLoader(files, root, self._queues, self._dropped, self._dropper.move_aside)
        loader.load(saved)
        if saved is not None and log_end is not None:
            for segments in self._queues.segmented_files():
                clear_after_end(files, segments)
            saved = attrs.evolve(saved, log_end=None)
            write_point(files, root, saved)
        if clean:
            self._mark_open()
        report = recovery.run(clean, checkpoint, saved, loader.newest)
        self._dropped.cut(report.log_end)
        self._log.recovered(report.log_end, recovery.last_timestamp, recovery.log_start)
        self._note_levels(report.log_end)
        if self._log.current is not None:
            self._log.current.file.allocate(options.log_file_bytes)  # files of a Java broker are sparse
        self._publisher.recovered(report.log_end, recovery.last_timestamp, recovery.newest)
        self._watch.check()
        index = self._load_index(saved, None if clean else checkpoint.index_timestamp)
        checkpoint = checkpoint.up_to(recovery.last_timestamp)
        if index.full_timestamp < checkpoint.index_timestamp:  # files still to be built are not durable yet
            checkpoint = checkpoint._replace(index_timestamp=index.full_timestamp)
            files.replace(root / "checkpoint", encode_checkpoint(checkpoint))
        return OpenedStore(report, recovery.durable_offset, checkpoint, saved, index)

    def _progress(self, sentence: str) -> None:
        """Report how far the recovery is. Raises StoreError to end it, if the start was cancelled."""
        if self._given_up:
            raise StoreError("the start was cancelled")
        self._context.progress(sentence)

    def _load_index(self, saved: SavedPoint | None, trusted_ms: int | None) -> LoadedIndex:
        log = self._log
        index = IndexLoader(
            self._files,
            self._root / "index",
            self._options.index_layout,
            log.min_offset,
            log.end,
            saved.index if saved is not None else None,
            trusted_ms,
            self._report,
        ).load()
        self._index.files.hold(index)
        place = next_record(log, index.place.log_offset)
        if place != index.place.log_offset:  # the newest indexed message was given up; later ones are not indexed
            index = attrs.evolve(index, place=IndexPosition(place))
        return index

    def _is_current(self, saved: SavedPoint, checkpoint: Checkpoint) -> bool:
        """Return whether *saved* is current (no other broker used the store) and fits the log and the settings."""
        log = self._log
        return (
            saved.belongs_to(checkpoint)
            and saved.file_bytes == self._queues.file_bytes
            and log.min_offset <= saved.offset <= (log.files[-1].end if log.files else log.min_offset)
        )

    def _recorded_levels(self, report: Callable[[str], object]) -> DelayLevels:
        """Return the delay levels of the stored messages; the setting if they are not recorded."""
        try:
            self._levels = read_delay_levels(self._files, self._root)
        except FormatError as problem:
            self._levels = None
            report(f"{problem}; it is rewritten")
        return self._levels or DelayLevels.of(self._options.delay_levels)

    def _note_levels(self, log_end: int) -> None:
        """Record that messages from *log_end* on have the delay levels of the setting. Blocks."""
        setting, before = self._options.delay_levels, self._levels
        if before is None:
            self._levels = DelayLevels.of(setting)
        else:
            self._levels = before.with_setting(setting, log_end, self._log.min_offset)
        if self._levels == before:
            return
        try:
            self._files.replace(self._root / DELAY_LEVELS, self._levels.pack())
        except OSError as error:
            self._report(f"{self._root / DELAY_LEVELS} cannot be written, the next start tries again: {error}")

    def _mark_open(self) -> None:
        """Create ``abort``, which exists while the store is open; on a full disk without the (unused) process id."""
        try:
            self._files.replace(self._root / "abort", str(self._context.world.process_id).encode("ascii"))
        except OSError as error:
            if not is_disk_full(error):
                raise
            self._files.open(self._root / "abort", create=True).close()
            self._files.sync_dir(self._root)
