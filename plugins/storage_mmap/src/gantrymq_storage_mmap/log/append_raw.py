"""Appending records of another log, and assigning them to queues.

A record carries its queue offset, so it is assigned as recovery does it (`recovery.requeue`): offsets that the other
log has lost repeat the next entry, and an offset of 0 where more is expected means that the topic was deleted and
created again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import attrs

from gantrymq.errors import LogMismatch, StoreError
from gantrymq.plugin.formats import MIN_RECORD_BYTES
from gantrymq.plugin.interfaces import DispatchEntry
from gantrymq.plugin.model import LIGHT_QUEUE_ID
from gantrymq.plugin.sys_flag import INNER_BATCH, TRANSACTION_PREPARED
from gantrymq_storage_mmap.log.commit_log import CommitLog
from gantrymq_storage_mmap.log.file import LogFile
from gantrymq_storage_mmap.log.writer import LogWriter
from gantrymq_storage_mmap.queues.batch_queue import BatchQueue
from gantrymq_storage_mmap.queues.consume_queue import ConsumeQueue
from gantrymq_storage_mmap.queues.dropper import QueueDropper
from gantrymq_storage_mmap.queues.pending_entries import Target
from gantrymq_storage_mmap.queues.publisher import Publisher
from gantrymq_storage_mmap.queues.table import QueueTable
from gantrymq_storage_mmap.recovery.requeue import MAX_GAP_ENTRIES
from gantrymq_storage_mmap.settings import Options
from gantrymq_store_files.batch_entry import pack_batch_entry
from gantrymq_store_files.blank import BLANK_BYTES
from gantrymq_store_files.queue_entry import ENTRY
from gantrymq_store_files.raw_records import read_raw_records


@attrs.define(eq=False)
class RawAppender:
    """Writes checked records at the log's end and passes their entries to the publisher."""

    _log: CommitLog
    _queues: QueueTable
    _dropper: QueueDropper
    _publisher: Publisher
    _writes: LogWriter
    _options: Options
    _has_batch_queues: Callable[[str], bool]  # whether a topic has queue.type=BatchCQ
    _report: Callable[[str], object]
    _told: set[tuple[str, int]] = attrs.field(factory=set, init=False)  # queues with a reported misplaced record
    _entries: list[DispatchEntry] = attrs.field(factory=list, init=False)  # of the records being written
    _targets: list[Target] = attrs.field(factory=list, init=False)
    _packed: list[bytes] = attrs.field(factory=list, init=False)

    def append(self, data: bytes) -> str:
        """Append the whole records and blanks at the start of *data*.

        Returns:
            Why what follows them is not appended; empty if it is nothing or the start of a record.

        Raises:
            LogMismatch: a topic has another kind of queues here.
            StoreError: the disk failed.
        """
        log, place = self._log, 0
        while True:
            file = log.current or self._next_file()
            found = read_raw_records(
                data[place:],
                log.end,
                file.end,
                delay_levels_ms=self._options.delay_levels_ms,
                check_crc=self._options.check_crc,
            )
            if found.entries:
                self._write(file, data[place : place + found.size], found.entries)
            place += found.size
            if not found.blank:
                return found.problem
            self._close(file, data[place : place + found.blank])
            place += found.blank

    def hold(self, entries: Iterable[DispatchEntry]) -> None:
        """Mark records of the log that are in no queue as unpublished, so that they are published again."""
        for entry in entries:
            self._assign(entry)
        self._publisher.add(self._entries, self._targets, self._packed)
        self._entries, self._targets, self._packed = [], [], []

    def _next_file(self) -> LogFile:
        try:
            return self._log.roll(self._log.end)
        except OSError as error:
            raise StoreError(f"no new commit log file: {error}") from error

    def _close(self, file: LogFile, blank: bytes) -> None:
        """End *file* with *blank*, which may contain more than its head."""
        at = self._log.end
        self._next_file()
        if any(blank[BLANK_BYTES:]) and (failure := self._writes.write(file, at, blank)) is not None:
            raise StoreError(failure)

    def _write(self, file: LogFile, data: bytes, entries: list[DispatchEntry]) -> None:
        for entry in entries:
            if entry.sys_flag & INNER_BATCH and entry.topic not in self._queues.batch_topics:
                self._convert(entry.topic)
        log = self._log
        failure = self._writes.write(file, log.end, data)
        if failure is not None:
            raise StoreError(failure)
        with self._writes.all_or_none():
            for entry in entries:
                self._assign(entry)
            self._publisher.add(self._entries, self._targets, self._packed)
            self._entries, self._targets, self._packed = [], [], []
            log.advance(log.end + len(data), max(entries[-1].store_timestamp, log.last_timestamp))

    # --- queues -----------------------------------------------------------------------------------------------------

    def _convert(self, topic: str) -> None:
        if any(queue.next_offset for queue in self._queues.by_topic.get(topic, ())):
            raise LogMismatch(
                f"the log holds inner batches of topic {topic}, which has ordinary queues here; delete the topic here, "
                "and create it with queue.type=BatchCQ before copying its messages"
            )
        self._queues.forget(topic)
        self._queues.batch_topics.add(topic)

    def _assign(self, entry: DispatchEntry) -> None:
        """Add the entries of one record in its own queue and in light queues."""
        topic, queue_id, queue_offset, log_offset, size, tags_code, _, sys_flag, _, properties = entry
        queue = self._queues.by_name.get((topic, queue_id))
        if queue is None or queue_offset != queue.next_offset or sys_flag & TRANSACTION_PREPARED:
            found = self._target(entry)
            if not isinstance(found, ConsumeQueue):
                packed = b""
                if found is not None:
                    found.next_offset = queue_offset + entry.messages
                    packed = pack_batch_entry(*entry[3:7], queue_offset, entry.messages)
                self._add(entry, found, packed)
                return
            queue = found
        packed = ENTRY.pack(log_offset, size, tags_code)
        self._add(entry, queue, packed)
        queue.next_offset = queue_offset + 1
        if self._options.light_queues and b"INNER_" in properties:
            most = log_offset // MIN_RECORD_BYTES  # a larger offset was set by a client, see `recovery.replay`
            for name, light_offset in entry.light_queue_offsets:
                light = entry._replace(topic=name, queue_id=LIGHT_QUEUE_ID, queue_offset=light_offset)
                target = self._target(light) if light_offset <= most else None
                if isinstance(target, ConsumeQueue):
                    self._add(light, target, packed)
                    target.next_offset = light_offset + 1

    def _add(self, entry: DispatchEntry, target: Target, packed: bytes) -> None:
        self._entries.append(entry)
        self._targets.append(target)
        self._packed.append(packed)

    def _target(self, entry: DispatchEntry) -> Target:
        """Return the queue of a record, ready for its queue offset; None if the record is in the log only."""
        if entry.sys_flag & TRANSACTION_PREPARED:
            return None
        topic, queue_offset = entry.topic, entry.queue_offset
        queue = self._queue(topic, entry.queue_id)
        if isinstance(queue, str):
            self._misplaced(entry, queue)
            return None
        if queue.next_offset and queue_offset == 0:
            batch = topic in self._queues.batch_topics
            self._dropper.drop(topic, entry.log_offset, self._log.min_offset)
            if batch:
                self._queues.batch_topics.add(topic)
            queue = self._queue(topic, entry.queue_id)
            assert not isinstance(queue, str)
        gap = queue_offset - queue.next_offset
        if gap and isinstance(queue, ConsumeQueue):
            if not queue.next_offset and queue.empty:
                queue.begin_at(queue_offset)
            elif 0 < gap <= MAX_GAP_ENTRIES:
                self._publisher.repeats = True
                packed = ENTRY.pack(entry.log_offset, entry.size, entry.tags_code)
                for missing in range(queue.next_offset, queue_offset):
                    self._add(entry._replace(queue_offset=missing), queue, packed)
            else:
                self._misplaced(entry, f"the next one in its queue is {queue.next_offset}")
                return None
        elif gap < 0 or (queue.next_offset and gap > MAX_GAP_ENTRIES):
            self._misplaced(entry, f"the next one in its queue is {queue.next_offset}")
            return None
        return queue

    def _queue(self, topic: str, queue_id: int) -> ConsumeQueue | BatchQueue | str:
        queues = self._queues
        if topic not in queues.by_topic and self._has_batch_queues(topic):
            queues.batch_topics.add(topic)
        return (queues.make_batch if topic in queues.batch_topics else queues.make)(topic, queue_id)

    def _misplaced(self, entry: DispatchEntry, problem: str) -> None:
        name = (entry.topic, entry.queue_id)
        if name not in self._told:
            self._told.add(name)
            self._report(
                f"the copied record at {entry.log_offset} (topic {entry.topic}, queue {entry.queue_id}, queue offset "
                f"{entry.queue_offset}) is in the log only: {problem}"
            )
