"""Truncating the log at a record, with everything that refers to the removed records.

    memory      unpublished entries, queues and index are cut
    listeners   dispatchers and others are told
    checkpoint  with the offset at which the log ends: from here on, a start completes the truncation
    log         later files are deleted, the newest first; the rest of the last file is zeroed
    queues      the same in the files of every queue that was cut
    checkpoint  without that offset

Before the first checkpoint is saved, a crash leaves the log as it was, and recovery restores the entries from it. Bytes
after the log's end must be zeros: recovery would take records there for a part of the log.

`Truncation.hide` does the same without the log: the records stay, and recovery would list them again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Protocol

import attrs

from gantrymq.errors import LogMismatch, StoreError
from gantrymq.plugin.interfaces import DispatchEntry
from gantrymq.plugin.world import Clock, File, Files, FileTree, TimeSlices, Workers
from gantrymq_storage_mmap.checkpoint.checkpointer import Checkpointer
from gantrymq_storage_mmap.index.builder import IndexBuilder
from gantrymq_storage_mmap.log.commit_log import CommitLog
from gantrymq_storage_mmap.log.flush import LogFlusher
from gantrymq_storage_mmap.log.source import CommitLogSource
from gantrymq_storage_mmap.queues.batch_queue import BatchQueue
from gantrymq_storage_mmap.queues.consume_queue import ConsumeQueue, entry_of, first_in_log
from gantrymq_storage_mmap.queues.dropped_topics import DroppedTopics
from gantrymq_storage_mmap.queues.publisher import Publisher
from gantrymq_storage_mmap.queues.segmented_file import SegmentedFile
from gantrymq_storage_mmap.queues.table import QueueTable
from gantrymq_store_files.check import LogContent
from gantrymq_store_files.file_names import file_start
from gantrymq_store_files.log_entries import LogEntries
from gantrymq_store_files.log_source import check_offset
from gantrymq_store_files.log_walk import LogDamage
from gantrymq_store_files.queue_entry import ENTRY_BYTES

_TURN_QUEUES: Final = 1000
_CHUNK_BYTES: Final = 1024 * 1024
_ZEROS: Final = bytes(_CHUNK_BYTES)

# Returns the new end of a queue (an entry number), or None if it stays, and the log offset of its newest kept entry.
_Find = Callable[[], tuple[int | None, int]]


class _Cache(Protocol):
    def clear(self) -> None: ...


@attrs.define(eq=False)
class Truncation:
    """Truncates one store. All methods belong to the event loop, except those documented otherwise."""

    _files: Files
    _workers: Workers
    _clock: Clock
    _log: CommitLog
    _queues: QueueTable
    _dropped: DroppedTopics
    _publisher: Publisher
    _flusher: LogFlusher
    _index: IndexBuilder
    _checkpointer: Checkpointer
    _caches: Sequence[_Cache]  # of bytes of the log
    _delay_levels_ms: Sequence[int]
    refusal: str | None = attrs.field(default=None, init=False)  # why writes are refused meanwhile, or after a failure

    async def run(self, log_offset: int, tell: Callable[[], object]) -> None:
        """Remove everything at and after *log_offset*; see `gantrymq.interfaces.RawLog.truncate`.

        Args:
            log_offset: start of a record, or end of the log.
            tell: called before anything is removed from the log.

        Raises:
            LogMismatch: no record starts there.
            StoreError: the disk failed; writes are refused until the next start, unless nothing has changed yet.
        """
        log = self._log
        if not log.min_offset <= log_offset <= log.end:
            raise LogMismatch(f"log offset {log_offset} is outside the log, which has {log.min_offset} to {log.end}")
        if log_offset == log.end:
            return
        self.refusal = f"the log is being truncated at {log_offset}; try again later"
        try:
            await self._flusher.flushed(log.end)
            if not await self._workers.run(self._is_start, log_offset):
                raise LogMismatch(f"no record starts at log offset {log_offset}, so the log cannot be truncated there")
        except BaseException:
            self.refusal = None
            raise
        try:
            async with self._checkpointer.lock:
                await self._run(log_offset, tell)
        except BaseException as error:
            self.refusal = (
                f"the log could not be truncated at {log_offset}: {error}; restart the broker once the disk works again"
            )
            if isinstance(error, OSError):
                raise StoreError(self.refusal) from error
            raise
        self.refusal = None

    def _is_start(self, log_offset: int) -> bool:
        """Runs in a thread."""
        found = check_offset(CommitLogSource(self._log), log_offset, check_crc=False).found
        return found in (LogContent.RECORD, LogContent.BLANK)

    async def _run(self, log_offset: int, tell: Callable[[], object]) -> None:
        log = self._log
        self._publisher.cut(log_offset)
        cut, timestamp = await self._cut_published(log_offset)
        self._index.files.reading(1)  # keeps removed files on the disk while the saved checkpoint refers to them
        try:
            self._index.cut(log_offset)
            tell()
            self._checkpointer.log_end = log_offset
            await self._checkpointer.take()
        finally:
            self._index.files.reading(-1)
        while log.ahead.busy:
            await self._clock.sleep(0.001)
        removed = log.truncate(log_offset, timestamp)
        log.ahead.restart(log.files[-1].start)
        self._flusher.flushed_offset = log_offset
        for cache in self._caches:
            cache.clear()
        noted = self._dropped.limit(log_offset)

        def cut_files() -> None:
            cut_log_files(self._files, log, log_offset)
            for file in removed:
                file.close()
            if noted is not None:
                self._dropped.save(noted)

        await self._workers.run(cut_files)
        await self._clear_queues(cut)
        self._checkpointer.log_end = None
        await self._checkpointer.take()

    async def hide(self, log_offset: int, tell: Callable[[], object]) -> list[list[DispatchEntry]]:
        """Remove everything at and after *log_offset* from queues and index, durably; it stays in the log.

        Return the entries of the log from there on, to be published again.

        Args:
            log_offset: start of a record, or end of the log.
            tell: called before anything is removed.

        Raises:
            LogMismatch: no record starts there.
            StoreError: the disk failed; the store must be started again.
        """
        if not await self._workers.run(self._is_start, log_offset):
            raise LogMismatch(f"no record starts at log offset {log_offset}, so nothing can be hidden from there on")
        self.refusal = f"messages from log offset {log_offset} on are being hidden; try again later"
        self._publisher.cut(log_offset)
        try:
            async with self._checkpointer.lock:
                cut, _ = await self._cut_published(log_offset)
                self._index.files.reading(1)
                try:
                    self._index.cut(log_offset)
                    tell()
                    await self._checkpointer.take()
                finally:
                    self._index.files.reading(-1)
                for cache in self._caches:
                    cache.clear()
                await self._clear_queues(cut)
            found = await self._workers.run(self._entries_from, log_offset)
        except OSError as error:
            raise StoreError(f"messages from log offset {log_offset} on could not be hidden: {error}") from error
        self.refusal = None
        return found

    def _entries_from(self, log_offset: int) -> list[list[DispatchEntry]]:
        """Runs in a thread."""
        walk = LogEntries(
            CommitLogSource(self._log),
            log_offset,
            self._log.end,
            delay_levels_ms=self._delay_levels_ms,
            check_crc=False,
        )
        return [each for each in walk if not isinstance(each, LogDamage)]

    async def _cut_published(self, log_offset: int) -> tuple[dict[SegmentedFile, int], int]:
        """Cut the queues. Return those, each with its old end, and the store time of the newest record that stays."""
        publisher = self._publisher
        cut: dict[SegmentedFile, int] = {}
        newest = publisher.newest[0]
        if log_offset < publisher.published_offset:
            await self._checkpointer.write_pending()
            ends, newest = await self._find_ends(log_offset)
            cut = await self._cut_queues(ends)
        last, timestamp = await self._workers.run(self._newest, newest, log_offset)
        if log_offset < publisher.published_offset:
            publisher.recovered(log_offset, timestamp, last)
        return cut, timestamp

    async def _clear_queues(self, cut: dict[SegmentedFile, int]) -> None:
        """Delete or zero what the files of queues have after their ends."""
        slices = TimeSlices(self._clock, _TURN_QUEUES)
        for segments, old_end in cut.items():
            file_bytes = segments.files.file_bytes
            for start in range(-(-segments.end // file_bytes) * file_bytes, old_end, file_bytes):
                segments.files.forget_file(segments, start)
            await slices.item_done()

        def clear() -> list[SegmentedFile]:
            return [segments for segments in cut if not clear_after_end(self._files, segments)]

        for segments in await self._workers.run(clear):
            if isinstance(segments, ConsumeQueue):
                segments.empty = True
        for queue in list(self._queues.by_name.values()):  # a copied queue without entries may begin anywhere
            if queue.empty and not queue.tail and queue.next_offset == queue.max_offset:
                queue.begin_at(0)
            await slices.item_done()

    # --- queues -----------------------------------------------------------------------------------------------------

    async def _find_ends(self, log_offset: int) -> tuple[list[tuple[ConsumeQueue | BatchQueue, int]], int]:
        """Return the queues to be cut, each with its new end, and the log offset of the newest kept entry."""
        found: list[tuple[ConsumeQueue | BatchQueue, _Find]] = []
        slices = TimeSlices(self._clock, _TURN_QUEUES)
        for queue in list(self._queues.by_name.values()):
            if queue.max_offset > queue.min_offset:
                found.append((queue, _find_end(queue, log_offset)))
            await slices.item_done()
        for batch in list(self._queues.batch.values()):
            if batch.number_end > batch.first:
                found.append((batch, _find_batch_end(batch, log_offset)))
        ends = await self._workers.run(lambda: [find() for _, find in found])
        newest = max((kept for _, kept in ends), default=-1)
        return [(queue, end) for (queue, _), (end, _) in zip(found, ends, strict=True) if end is not None], newest

    async def _cut_queues(self, ends: Sequence[tuple[ConsumeQueue | BatchQueue, int]]) -> dict[SegmentedFile, int]:
        """Cut the queues in memory, whose entries are all in files. Return what was cut, with its old end."""
        cut: dict[SegmentedFile, int] = {}
        pending, slices = self._queues.pending, TimeSlices(self._clock, _TURN_QUEUES)
        for queue, end in ends:
            if not queue.dropped:
                cut[queue] = queue.end
                pending.forget(queue)
                if isinstance(queue, BatchQueue):
                    queue.settle(min(queue.first, end), end)
                else:
                    if (ext := queue.ext) is not None:
                        before = queue.entry(end - 1) if end > queue.min_offset else None
                        position = next(iter(ext.starts()), 0) if before is None else ext.end_after(before[2])
                        cut[ext] = ext.end
                        pending.forget(ext)
                        ext.cut(min(position, ext.end))
                    queue.cut(end * ENTRY_BYTES)
                    queue.next_offset = end
                    queue.warm_offset = min(queue.warm_offset, end)
                    if end <= queue.min_offset:
                        queue.min_offset, queue.oldest = end, -1
            await slices.item_done()
        return cut

    def _newest(self, start: int, log_offset: int) -> tuple[tuple[int, int], int]:
        """Return log offset and size of the newest record before *log_offset*, and its store time in ms.

        Runs in a thread. *start* is the log offset of a record before it; -1 if none is known.
        """
        file = self._log.find(log_offset - 1)
        if file is None:
            return (-1, 0), 0
        walk = LogEntries(
            CommitLogSource(self._log), max(start, file.start), log_offset, delay_levels_ms=(), check_crc=False
        )
        for _ in walk:
            pass
        return walk.last, walk.last_timestamp


def _find_end(queue: ConsumeQueue, log_offset: int) -> _Find:
    low, high, read = queue.min_offset, queue.max_offset, queue.detached()

    def find() -> tuple[int | None, int]:
        def log_offset_at(queue_offset: int) -> int:
            entry = entry_of(read(queue_offset * ENTRY_BYTES, ENTRY_BYTES))
            return -1 if entry is None else entry[0]

        if 0 <= (last := log_offset_at(high - 1)) < log_offset:
            return None, last
        end, _ = first_in_log(lambda n: entry_of(read(n * ENTRY_BYTES, ENTRY_BYTES)), low, high, log_offset)
        return end, log_offset_at(end - 1) if end > low else -1

    return find


def _find_batch_end(queue: BatchQueue, log_offset: int) -> _Find:
    first, number_end, read = queue.first, queue.number_end, queue.detached_entries()

    def find() -> tuple[int | None, int]:
        last = queue.last_where(lambda entry: entry.log_offset < log_offset, read, missing=False)
        entry = queue.entry(last, read) if last >= first else None
        return None if last + 1 == number_end else last + 1, -1 if entry is None else entry.log_offset

    return find


# --- files ----------------------------------------------------------------------------------------------------------


def cut_log_files(files: FileTree, log: CommitLog, log_offset: int) -> None:
    """Delete every file after the last one of *log*, the newest first, and zero the last one from *log_offset* on.

    Blocks; repeating it is harmless. Raises OSError.
    """
    last = log.files[-1]
    folder = last.path.parent
    for name in reversed(files.list(folder)):
        start = file_start(name)
        if start is not None and start > last.start:
            files.remove(folder / name)
            files.sync_dir(folder)
    if log_offset < last.end:
        _zero(last.file, log_offset - last.start, last.end - last.start)


def clear_after_end(files: Files, segments: SegmentedFile) -> bool:
    """Delete or zero everything after the end of *segments*. Blocks. Raises OSError.

    Returns:
        Whether a file is left.
    """
    left = False
    folder: Path = segments.folder
    if segments.dropped or files.stat(folder) is None:
        return False
    for start in reversed(segments.starts()):
        if start >= segments.end:
            segments.delete_file(start)
            continue
        left = True
        if start + segments.files.file_bytes > segments.end:
            file = files.open(segments.path(start))
            try:
                _zero(file, segments.end - start, segments.files.file_bytes)
            finally:
                file.close()
    return left


def _zero(file: File, start: int, end: int) -> None:
    """Zero ``[start, end)`` of *file* durably; parts that hold only zeros are not written."""
    for low, high in file.written(start, end):
        for at in range(low, high, _CHUNK_BYTES):
            length = min(_CHUNK_BYTES, high - at)
            if file.pread(length, at) != _ZEROS[:length]:
                file.pwrite(memoryview(_ZEROS)[:length], at)
    file.datasync()
