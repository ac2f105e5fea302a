"""Appending records that have other entries than one in an ordinary queue (`StoreMessage.queue_targets`).

- A record of a topic with ``queue.type=BatchCQ`` gets an entry in a batch queue. An inner batch, which is one record
  with several messages, advances the queue's next offset by that number and holds its base offset in INNER_BASE.
- A record that names light queues gets entries in its own queue and in each of those; INNER_MULTI_QUEUE_OFFSET holds
  its queue offsets there, and the publisher sees one entry per queue.

A group of joined messages is appended here as a whole if it contains such a record.

Both properties depend on queue offsets, so the property text is built here, in the order of Java's HashMap, and each
record is encoded separately: such messages are rare, and `Appender` has a fast loop for all others.

Source: apache/rocketmq store/.../queue/BatchConsumeQueue.java (assignQueueOffset), LmqDispatch.java (wrapLmqDispatch,
updateLmqOffsets), DefaultMessageStore.java (checkLmqMessage).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import attrs

from gantrymq.errors import FormatError
from gantrymq.plugin import properties as props
from gantrymq.plugin.formats import MAX_PROPERTIES_BYTES
from gantrymq.plugin.interfaces import DispatchEntry, PutResult, PutStatus, QueueTargets, StoreMessage
from gantrymq.plugin.model import LIGHT_QUEUE_ID, SEPARATOR, is_light
from gantrymq.plugin.properties import ordered_text
from gantrymq.plugin.sys_flag import INNER_BATCH, TRANSACTION_PREPARED
from gantrymq_storage_mmap.log.commit_log import CommitLog
from gantrymq_storage_mmap.log.writer import LogWriter
from gantrymq_storage_mmap.queues.batch_queue import BatchQueue
from gantrymq_storage_mmap.queues.consume_queue import ConsumeQueue
from gantrymq_storage_mmap.queues.pending_entries import Target
from gantrymq_storage_mmap.queues.publisher import Publisher
from gantrymq_storage_mmap.queues.table import QueueTable
from gantrymq_storage_mmap.settings import Options
from gantrymq_store_files.batch_entry import pack_batch_entry
from gantrymq_store_files.blank import BLANK_BYTES
from gantrymq_store_files.check import properties_problem
from gantrymq_store_files.put import encode_message, problem_in_group, refused, stored_at
from gantrymq_store_files.queue_entry import ENTRY

NO_INNER_BATCH = "an inner batch requires a topic with queue.type=BatchCQ"
_ORDINARY = QueueTargets()
_MAX_INNER = 32767  # messages of one inner batch: a signed 16-bit field of the queue entry


class _TargetedRecord(NamedTuple):
    """One message with its target queues."""

    message: StoreMessage
    properties: bytes  # including the assigned offsets
    queue_offset: int
    queue: BatchQueue | ConsumeQueue
    light: tuple[tuple[ConsumeQueue, int], ...]  # light queues with the queue offset in each
    stored_ms: int = 0
    tags_code: int = 0

    def encode(self, log_offset: int) -> bytes:
        return encode_message(self.message, self.properties, self.queue_offset, log_offset, self.stored_ms)

    def take(self, messages: int) -> None:
        """Advance the next offsets of the target queues."""
        self.queue.next_offset = self.queue_offset + messages
        for queue, queue_offset in self.light:
            queue.next_offset = queue_offset + 1

    def undo(self) -> None:
        """Restore the next offsets of the target queues."""
        self.queue.next_offset = self.queue_offset
        for queue, queue_offset in self.light:
            queue.next_offset = queue_offset


@attrs.define(eq=False)
class TargetedAppender:
    """The part of `Appender` for such records, and helpers for both parts."""

    _log: CommitLog
    _queues: QueueTable
    _publisher: Publisher
    _writes: LogWriter
    _now_ms: Callable[[], int]
    _max_body: Callable[[], int]  # returns the current ``maxMessageSize``; called once per batch
    _options: Options

    def append_targeted(self, group: Sequence[StoreMessage]) -> list[PutResult]:
        """Store a message and those joined to it in one file, or none of them; return one result each."""
        clock_ms = self._now_ms()
        now = max(clock_ms, self._log.last_timestamp)
        placed: list[_TargetedRecord] = []
        stored: list[PutResult] | PutResult
        try:
            for number, message in enumerate(group):
                place = self._place(message, *stored_at(message, clock_ms, now))
                if isinstance(place, PutResult):
                    stored = place._replace(problem=problem_in_group(number, len(group), place.problem))
                    break
                placed.append(place)
            else:
                stored = self._write_group(placed, now)
        except BaseException:
            if self._writes.refusal is None:  # nothing was written
                _undo(placed)
            raise
        if isinstance(stored, PutResult):
            _undo(placed)
            return [stored] * len(group)
        return stored

    # --- places -----------------------------------------------------------------------------------------------------

    def _place(self, message: StoreMessage, stored_ms: int, tags_code: int) -> _TargetedRecord | PutResult:
        """Assign the queue offsets of *message*; return a result if it cannot be stored."""
        targets = message.queue_targets or _ORDINARY
        barred = "a half message is in no queue, so neither in a batch queue nor in light queues"
        place: _TargetedRecord | PutResult | str | None = self.refusal_of(message, TRANSACTION_PREPARED, barred)
        if place is None and targets.batch:
            place = self._in_batch_queue(message, targets.batch)
        elif place is None:
            place = self._in_light_queues(message, targets.light)
        if isinstance(place, _TargetedRecord):
            place = place._replace(stored_ms=stored_ms, tags_code=tags_code)
            try:
                if len(place.properties) > MAX_PROPERTIES_BYTES:
                    return refused(
                        PutStatus.PROPERTIES_TOO_LARGE,
                        f"the properties have {len(place.properties)} bytes with the queue offsets in them, the "
                        f"longest allowed is {MAX_PROPERTIES_BYTES}",
                    )
                place.encode(0)
                place.take(targets.batch or 1)
            except FormatError as error:
                place = str(error)
        return refused(PutStatus.MESSAGE_ILLEGAL, place) if isinstance(place, str) else place

    def refusal_of(self, message: StoreMessage, barred: int, why: str) -> PutResult | None:
        """Return the result of a message that cannot be stored, because of *why* if it has the flag *barred*."""
        if len(message.body) > (longest := self._max_body()):
            problem = f"the body has {len(message.body)} bytes, maxMessageSize is {longest}"
            return refused(PutStatus.BODY_TOO_LARGE, problem)
        if (length := len(message.properties)) > MAX_PROPERTIES_BYTES:
            problem = f"the properties have {length} bytes, the longest allowed is {MAX_PROPERTIES_BYTES}"
            return refused(PutStatus.PROPERTIES_TOO_LARGE, problem)
        reason = why if message.sys_flag & barred else properties_problem(message.properties)
        return None if reason is None else refused(PutStatus.MESSAGE_ILLEGAL, reason)

    def _in_batch_queue(self, message: StoreMessage, messages: int) -> _TargetedRecord | str:
        queue = self._queues.make_batch(message.topic, message.queue_id)
        if isinstance(queue, str):
            return queue
        inner = bool(message.sys_flag & INNER_BATCH)
        if not 1 <= messages <= (_MAX_INNER if inner else 1):
            return f"a batch of {messages} messages; an inner batch holds 1 to {_MAX_INNER}, any other record 1"
        queue_offset, properties = queue.next_offset, message.properties
        if inner:
            own = props.decode(properties)
            own[props.INNER_BASE] = str(queue_offset)
            properties = ordered_text(own)
        return _TargetedRecord(message, properties, queue_offset, queue, ())

    def _in_light_queues(self, message: StoreMessage, names: tuple[str, ...]) -> _TargetedRecord | PutResult | str:
        """Assign offsets in the own queue of *message* and in the light queues *names*, if any."""
        queue = self._queues.make(message.topic, message.queue_id)
        if isinstance(queue, str):
            return queue
        if message.sys_flag & INNER_BATCH:
            return NO_INNER_BATCH
        if not names:
            return _TargetedRecord(message, message.properties, queue.next_offset, queue, ())
        if not self._options.light_queues:
            return "light queues are off; set enableLmq=true and enableMultiDispatch=true to dispatch messages to them"
        missing = {name for name in names if (name, LIGHT_QUEUE_ID) not in self._queues.by_name}
        if self._queues.light_count + len(missing) > self._options.max_light_queues:
            return refused(
                PutStatus.LIGHT_QUEUE_QUOTA,
                f"{sorted(missing)[0]} would be a new light queue, and there are {self._queues.light_count} where "
                f"maxLmqConsumeQueueNum allows {self._options.max_light_queues}",
            )
        offsets: dict[ConsumeQueue, int] = {}
        text: list[str] = []
        for name in names:
            light = self._queues.make(name, LIGHT_QUEUE_ID) if is_light(name) else "its name lacks %LMQ% in front"
            if isinstance(light, str):
                return f"{props.INNER_MULTI_DISPATCH} names {name!r}, which is not a light queue: {light}"
            text.append(str(offsets.setdefault(light, light.next_offset)))
        own = props.decode(message.properties)
        own[props.INNER_MULTI_QUEUE_OFFSET] = SEPARATOR.join(text)
        return _TargetedRecord(message, ordered_text(own), queue.next_offset, queue, tuple(offsets.items()))

    # --- records ----------------------------------------------------------------------------------------------------

    def _write_group(self, placed: list[_TargetedRecord], now: int) -> list[PutResult] | PutResult:
        """Write the records into one file; return a single result if that failed and nothing changed."""
        log, file = self._log, self._log.current
        size = sum(len(place.encode(0)) for place in placed)
        if size + BLANK_BYTES > log.file_bytes:
            return self.too_long(size)
        if file is None or log.end + size > file.end - BLANK_BYTES:
            try:
                file = log.roll(log.end)
            except OSError as error:
                return refused(PutStatus.CREATE_FILE_FAILED, f"no new commit log file: {error}")
        start = offset = log.end
        records: list[bytes] = []
        for place in placed:
            records.append(place.encode(offset))
            offset += len(records[-1])
        failure = self._writes.write(file, start, b"".join(records))
        if failure is not None:
            return refused(self._writes.status, failure)
        results: list[PutResult] = []
        with self._writes.all_or_none():
            for place, record in zip(placed, records, strict=True):
                self._publish(place, start, len(record))
                results.append(PutResult(PutStatus.OK, place.queue_offset, start, len(record), place.stored_ms))
                start += len(record)
            log.advance(offset, now)
        return results

    def too_long(self, needed: int) -> PutResult:
        """Return the result of a group that does not fit into one file."""
        return refused(
            PutStatus.MESSAGE_ILLEGAL,
            f"{needed} bytes must fit one commit log file, which holds {self._log.file_bytes - BLANK_BYTES} "
            f"(mappedFileSizeCommitLog={self._log.file_bytes})",
        )

    def _publish(self, place: _TargetedRecord, log_offset: int, size: int) -> None:
        """Pass the entries of the record to the publisher."""
        message, code, now = place.message, place.tags_code, place.stored_ms
        entry = DispatchEntry(
            message.topic,
            message.queue_id,
            place.queue_offset,
            log_offset,
            size,
            code,
            now,
            message.sys_flag,
            message.prepared_offset,
            place.properties,
        )
        if isinstance(place.queue, BatchQueue):
            assert message.queue_targets is not None
            packed = pack_batch_entry(log_offset, size, code, now, place.queue_offset, message.queue_targets.batch)
        else:
            packed = ENTRY.pack(log_offset, size, code)
        entries: list[DispatchEntry] = [entry]
        targets: list[Target] = [place.queue]
        for light, queue_offset in place.light:
            entries.append(entry._replace(topic=light.topic, queue_id=light.queue_id, queue_offset=queue_offset))
            targets.append(light)
        self._publisher.add(entries, targets, [packed] * len(entries))


def _undo(placed: Sequence[_TargetedRecord]) -> None:
    for place in reversed(placed):
        place.undo()
