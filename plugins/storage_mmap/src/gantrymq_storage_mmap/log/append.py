"""Appending messages as records at the end of the log, with one write for all records that fit the current file.

A message and the next ones with `same_file_as_previous` are a group: all of them are stored in one file, as RocketMQ
stores a client batch, or none. A group with a message that cannot be stored is refused; the other groups of the call
are stored. Records do not name their group, so recovery keeps the first ones of a group that a crash interrupted.

Source: apache/rocketmq store/.../CommitLog.java (asyncPutMessage, DefaultAppendMessageCallback),
MessageExtEncoder.java.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from zlib import crc32

from gantrymq.plugin import speedups
from gantrymq.plugin.formats import HEAD_V4, HEADS, MAX_PROPERTIES_BYTES, PROPERTIES_LENGTH, host_bits
from gantrymq.plugin.interfaces import DispatchEntry, MessageBatch, PutResult, PutStatus, StoreMessage
from gantrymq.plugin.sys_flag import BORN_HOST_V6, INNER_BATCH, STORE_HOST_V6, TRANSACTION_PREPARED
from gantrymq_storage_mmap.log.append_targeted import NO_INNER_BATCH, TargetedAppender
from gantrymq_storage_mmap.log.file import LogFile
from gantrymq_storage_mmap.queues.consume_queue import ConsumeQueue
from gantrymq_storage_mmap.queues.pending_entries import Target
from gantrymq_store_files.blank import BLANK_BYTES
from gantrymq_store_files.put import problem_in_group, refused, stored_at
from gantrymq_store_files.queue_entry import ENTRY

_HOST_BITS = BORN_HOST_V6 | STORE_HOST_V6
_FIXED_BYTES = HEAD_V4.size + PROPERTIES_LENGTH.size
_OK = PutStatus.OK
_pack_head, _pack_length, _pack_entry = HEAD_V4.pack, PROPERTIES_LENGTH.pack, ENTRY.pack
_new = tuple.__new__  # takes a third of the time of calling the named tuple
_PARTS = 5  # items of `parts` per record
_ODD_FLAGS = _HOST_BITS | INNER_BATCH | TRANSACTION_PREPARED

encode_records = (
    None
    if speedups.compiled is None
    else speedups.compiled.RecordEncoder(
        *(StoreMessage, ConsumeQueue, DispatchEntry, PutResult, _OK, crc32, MAX_PROPERTIES_BYTES, _ODD_FLAGS)
    )
)  # replaces the loop of `Appender._append_batch` for plain messages that fit the file


encode_batch = (
    None
    if speedups.compiled is None
    else speedups.compiled.BatchEncoder(
        *(MessageBatch, ConsumeQueue, DispatchEntry, PutResult, _OK, b"TAGS\x01", MAX_PROPERTIES_BYTES, _ODD_FLAGS)
    )
)  # the same for a `MessageBatch` that fits the file, from the body of the batch


class Appender(TargetedAppender):
    """Writes records and passes their entries to the publisher."""

    def append(self, messages: Sequence[StoreMessage]) -> list[PutResult]:
        """Store *messages* in order; return one result each.

        Budget: 4 us for a message of 1 KB in a batch, 1.5 us compiled (`bench_store.py`).

        If an exception is raised, the next offset of every queue is unchanged, except for messages that are
        already stored.
        """
        results = self._append(messages)
        while (done := len(results)) < len(messages):
            if self._writes.refusal is not None:
                return results + [refused(self._writes.status, self._writes.refusal)] * (len(messages) - done)
            end = _group_end(messages, done)
            results += self.append_targeted(messages[done:end])
            if self._writes.refusal is None:
                results += self._append(messages[end:])
        return results

    def _append(self, messages: Sequence[StoreMessage]) -> list[PutResult]:
        """Store the messages before the first group that needs `append_targeted`; return one result each."""
        batch = _Batch()
        try:
            return self._append_batch(messages, batch)
        except BaseException:
            batch.undo()
            raise

    def _append_batch(self, messages: Sequence[StoreMessage], batch: _Batch) -> list[PutResult]:
        log = self._log
        clock_ms = self._now_ms()
        now = max(clock_ms, log.last_timestamp)
        known = self._queues.by_name
        max_body = self._max_body()
        file = log.current
        offset = segment = log.end  # positions of the next record and of the first unwritten record
        limit = file.end - BLANK_BYTES if file is not None else -1
        results: list[PutResult] = []
        parts, entries, targets, packed = batch.parts, batch.entries, batch.targets, batch.packed
        first = together = 0  # the current group: its first message, and the first message after it
        obstacle: PutResult | None = None  # why the group is refused
        while (index := len(results)) < len(messages):
            if encode_batch is not None and not index and type(messages) is MessageBatch:
                records = encode_batch(messages, known, offset, limit, now, max_body, entries, targets, packed, results)
                if records:
                    parts.append(records)
                    offset += len(records)
                    continue
            elif encode_records is not None and index >= together:
                records = encode_records(
                    messages, index, known, offset, limit, now, max_body, entries, targets, packed, results
                )
                if records:
                    parts.append(records)
                    offset += len(records)
                    continue
            message = messages[index]
            if index >= together:
                first, together, obstacle = index, index + 1, None
                alone = together == len(messages) or not messages[together].same_file_as_previous
                if not alone:
                    together = _group_end(messages, index)
                if _has_targets(message) if alone else any(map(_has_targets, messages[first:together])):
                    break
            if obstacle is not None:
                results.append(obstacle)
                continue
            problem: PutResult | str | None = None
            topic, queue_id = message.topic, message.queue_id
            body, properties, sys_flag = message.body, message.properties, message.sys_flag
            born_host, store_host = message.born_host, message.store_host
            queue = known.get((topic, queue_id)) or self._queues.make(topic, queue_id)
            body_bytes, properties_bytes = len(body), len(properties)
            if (
                isinstance(queue, str)
                or body_bytes > max_body
                or properties_bytes > MAX_PROPERTIES_BYTES
                or not properties.isascii()
                or 0 in properties
                or sys_flag & INNER_BATCH
            ):
                problem = queue if isinstance(queue, str) else self.refusal_of(message, INNER_BATCH, NO_INNER_BATCH)
            if problem is not None or isinstance(queue, str):
                obstacle, offset = self._refuse(results, first, together, batch, offset, problem or str(queue))
                continue
            size = _FIXED_BYTES + body_bytes + len(queue.named) + properties_bytes
            plain = len(born_host) == 8 and len(store_host) == 8
            if not plain or sys_flag & _HOST_BITS:
                bits = host_bits(born_host, store_host)
                sys_flag = sys_flag & ~_HOST_BITS | bits
                size += HEADS[bits >> 4].size - HEAD_V4.size
            if index == first:
                needed = size if alone else size + sum(map(self._record_bytes, messages[first + 1 : together]))
                if offset + needed > limit:
                    if needed + BLANK_BYTES > log.file_bytes:
                        obstacle = self.too_long(needed)
                    elif parts and (failure := self._write(file, segment, batch, offset, now)) is not None:
                        return _failed(results, batch.first_result, len(messages), failure)
                    else:
                        batch.begin(len(results))
                        parts, entries, targets, packed = batch.parts, batch.entries, batch.targets, batch.packed
                        segment = offset
                        try:
                            file = log.roll(offset)
                        except OSError as error:
                            obstacle = refused(PutStatus.CREATE_FILE_FAILED, f"no new commit log file: {error}")
                        else:
                            offset = segment = file.start
                            limit = file.end - BLANK_BYTES
                    if obstacle is not None:
                        results.append(obstacle)
                        continue
            # RocketMQ's CommitLog gives them queue offset 0, as they enter no queue. Rolled back (12) has this bit too.
            queue_offset = 0 if sys_flag & TRANSACTION_PREPARED else queue.next_offset
            stored_ms, tags_code = now, message.tags_code
            if message.queue_targets is not None:
                stored_ms, tags_code = stored_at(message, clock_ms, now)
            try:
                head = (_pack_head if plain else HEADS[(sys_flag & _HOST_BITS) >> 4].pack)(
                    size,
                    queue.magic,
                    crc32(body) & 0x7FFFFFFF,
                    queue_id,
                    message.flag,
                    queue_offset,
                    offset,
                    sys_flag,
                    message.born_timestamp,
                    born_host,
                    stored_ms,
                    store_host,
                    message.reconsume_times,
                    message.prepared_offset,
                    body_bytes,
                )
                packed.append(_pack_entry(offset, size, tags_code))
            except struct.error as error:
                problem = f"a number does not fit its field: {error}"
            except TypeError as error:
                problem = f"body and hosts have to be bytes: {error}"
            if problem is not None:
                obstacle, offset = self._refuse(results, first, together, batch, offset, problem)
                continue
            parts += (head, body, queue.named, _pack_length(properties_bytes), properties)
            entries.append(
                _new(
                    DispatchEntry,
                    (
                        topic,
                        queue_id,
                        queue_offset,
                        offset,
                        size,
                        tags_code,
                        stored_ms,
                        sys_flag,
                        message.prepared_offset,
                        properties,
                    ),
                )
            )
            if sys_flag & TRANSACTION_PREPARED:  # prepared and rolled back messages are in the log only
                targets.append(None)
            else:
                targets.append(queue)
                queue.next_offset = queue_offset + 1
            results.append(_new(PutResult, (_OK, queue_offset, offset, size, stored_ms, "")))
            offset += size
        if parts and (failure := self._write(file, segment, batch, offset, now)) is not None:
            return _failed(results, batch.first_result, len(messages), failure)
        return results

    def _write(self, file: LogFile | None, start: int, batch: _Batch, end: int, now: int) -> PutResult | None:
        """Write the records of *batch* to ``[start, end)``; if that fails, change nothing and return the result."""
        assert file is not None
        data = b"".join(batch.parts)
        failure = self._writes.write(file, start, data)
        if failure is not None:
            batch.undo()
            return refused(self._writes.status, failure)
        with self._writes.all_or_none():
            self._publisher.add(batch.entries, batch.targets, batch.packed)
            self._log.advance(end, now)
        batch.begin(batch.first_result)
        return None

    @staticmethod
    def _refuse(
        results: list[PutResult], first: int, end: int, batch: _Batch, offset: int, problem: PutResult | str
    ) -> tuple[PutResult, int]:
        """Refuse the group ``[first, end)`` because of its next message.

        Returns:
            The result of each message of the group, and the log offset of the next group.
        """
        stored = len(results) - first
        offset = batch.undo(stored, offset)
        del results[first:]
        if isinstance(problem, str):
            problem = refused(PutStatus.MESSAGE_ILLEGAL, problem)
        result = problem._replace(problem=problem_in_group(stored, end - first, problem.problem))
        results.append(result)
        return result, offset

    def _record_bytes(self, message: StoreMessage) -> int:
        """Return the size of the record of *message*; an upper bound if it will be refused."""
        queue = self._queues.make(message.topic, message.queue_id)
        if isinstance(queue, str):
            return 0
        head = HEADS[host_bits(message.born_host, message.store_host) >> 4].size
        return head + len(message.body) + len(queue.named) + PROPERTIES_LENGTH.size + len(message.properties)


class _Batch:
    """Records of one call that go into one file and are not written yet."""

    __slots__ = ("entries", "first_result", "packed", "parts", "targets")

    def __init__(self) -> None:
        self.begin(0)

    def begin(self, first_result: int) -> None:
        """Start empty; *first_result*: index of the first result that depends on the next write."""
        self.first_result = first_result
        self.parts: list[bytes | memoryview] = []
        self.entries: list[DispatchEntry] = []
        self.targets: list[Target] = []
        self.packed: list[bytes] = []

    def undo(self, count: int | None = None, offset: int = 0) -> int:
        """Remove the last *count* records, by default all, and take back their queue offsets.

        With a *count*, the records must not come from the compiled function.

        Args:
            count: number of records.
            offset: log offset after the last record.

        Returns:
            The log offset after the record that is now the last one.
        """
        start = 0 if count is None else len(self.entries) - count
        undone = list(
            zip(self.entries[start:], self.targets[start:], strict=False)
        )  # the last entry may have no target yet
        for entry, queue in reversed(undone):
            if queue is not None:
                queue.next_offset = entry.queue_offset
        if count:
            offset = self.entries[start].log_offset
            del self.entries[start:], self.targets[start:], self.packed[start:]
            del self.parts[len(self.parts) - _PARTS * count :]
        return offset


def _group_end(messages: Sequence[StoreMessage], start: int) -> int:
    """Return the index after the last message of the group that starts at *start*."""
    end = start + 1
    while end < len(messages) and messages[end].same_file_as_previous:
        end += 1
    return end


def _has_targets(message: StoreMessage) -> bool:
    return message.queue_targets is not None and message.queue_targets.due_in_ms is None


def _failed(results: list[PutResult], first: int, count: int, failure: PutResult) -> list[PutResult]:
    """Return *count* results: those before *first* unchanged, the others failed."""
    return results[:first] + [failure] * (count - first)
