"""Messages in lists: a small `gantrymq.interfaces.MessageStore` without durability.

Records have the bytes RocketMQ would have on disk, so pulls return what clients expect; the log has no files and so no
blanks, and everything appended counts as flushed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Awaitable, Generator, Iterator, Sequence
from operator import attrgetter

from gantrymq.errors import FilterBudgetExceeded, FormatError
from gantrymq.plugin.formats import MAX_PROPERTIES_BYTES, RecordView, read_record
from gantrymq.plugin.interfaces import (
    BoundaryType,
    Bounds,
    Cleaning,
    CleanReport,
    DispatchEntry,
    GetLimit,
    GetResult,
    GetStatus,
    MessageFilter,
    PutResult,
    PutStatus,
    QueryResult,
    RawLog,
    RecoveryReport,
    StoreContext,
    StoreMessage,
    StoreState,
)
from gantrymq.plugin.model import Queue
from gantrymq_storage_memory.raw_log import MemoryRawLog, end_of, has_queue_entry, start_of
from gantrymq_store_files.index_hash import index_keys
from gantrymq_store_files.put import encode_message, problem_in_group, refused, stored_at

_time_of = attrgetter("store_timestamp")

MAX_TOPIC_BYTES = 255
MAX_MESSAGE_BYTES = 4 * 1024 * 1024  # if no setting maxMessageSize is declared
MAX_EXAMINED = 800  # entries per get: a filter that rejects everything must not block the event loop


class _Done:
    """A completed awaitable that may be ignored."""

    def __await__(self) -> Generator[None, None, None]:
        return
        yield


class MemoryStore(MemoryRawLog):
    """A `MessageStore` in memory."""

    def __init__(self, context: StoreContext) -> None:
        super().__init__(context.log)
        self._now_ms = context.world.clock.now_ms
        self._settings = context.settings

    @property
    def raw_log(self) -> RawLog:
        """The log as bytes."""
        return self

    async def start(self) -> RecoveryReport:
        """Open for writing; there is nothing to recover."""
        self._refusal = None
        return RecoveryReport(clean=True, log_end=self._end())

    async def stop(self) -> None:
        """Refuse writes from now on."""
        self._refusal = "the store is stopped"

    def put(self, messages: Sequence[StoreMessage]) -> list[PutResult]:
        """Append in order; a message and those joined to it together or not at all."""
        results: list[PutResult] = []
        while (first := len(results)) < len(messages):
            end = first + 1
            while end < len(messages) and messages[end].same_file_as_previous:
                end += 1
            results += self._put_group(messages[first:end])
        return results

    def flushed(self, log_offset: int) -> Awaitable[None]:
        """Return a completed awaitable: memory is never flushed."""
        return _Done()

    def publish(self, up_to: int) -> Sequence[DispatchEntry]:
        """Add queue entries of records that end at or before *up_to*."""
        if self.visibility_limit is not None:
            up_to = min(up_to, self.visibility_limit)
        first = self._published
        while self._published < len(self._log) and end_of(self._log[self._published]) <= up_to:
            entry = self._log[self._published]
            self._published += 1
            if has_queue_entry(entry.sys_flag) and entry.log_offset >= self._dropped.get(entry.topic, 0):
                self._list(entry)
        return self._log[first : self._published]

    def get(self, queue: Queue, queue_offset: int, limit: GetLimit, match: MessageFilter | None) -> GetResult:
        """Read from *queue_offset*."""
        entries = self._queues.get(queue, [])
        start, end = self.bounds(queue)
        if end == 0:
            return GetResult(GetStatus.NO_MESSAGE_IN_QUEUE, 0, 0, 0)
        if queue_offset < start:
            return GetResult(GetStatus.OFFSET_TOO_SMALL, start, start, end)
        if queue_offset == end:
            return GetResult(GetStatus.OFFSET_OVERFLOW_ONE, queue_offset, start, end)
        if queue_offset > end:
            return GetResult(GetStatus.OFFSET_OVERFLOW_BADLY, end, start, end)
        found: list[bytes] = []
        size = 0
        next_offset = queue_offset
        for entry in entries[queue_offset - start : queue_offset - start + MAX_EXAMINED]:
            if found and (len(found) >= limit.max_count or size + entry.size > limit.max_bytes):
                break
            record = self._record(entry)
            try:
                fits = match is None or match.accepts_all or _matches(match, entry, record)
            except FilterBudgetExceeded:
                break
            next_offset += 1
            if fits:
                found.append(record)
                size += len(record)
        status = GetStatus.FOUND if found else GetStatus.NO_MATCHED_MESSAGE
        return GetResult(status, next_offset, start, end, found, len(found), size)

    def read(self, log_offset: int) -> RecordView | None:
        """Return the published record at *log_offset*."""
        number = bisect_left(self._log, log_offset, key=start_of)
        found = number < self._published and self._log[number].log_offset == log_offset
        return read_record(self._record(self._log[number])) if found else None

    def scan(self, start: int, end: int) -> Iterator[DispatchEntry]:
        """Iterate over published records that start in ``[start, end)``."""
        published = self._log[: self._published]
        yield from published[bisect_left(published, start, key=start_of) : bisect_left(published, end, key=start_of)]

    def bounds(self, queue: Queue) -> Bounds:
        """Return the offsets of a queue; it starts above 0 only if the log was copied from elsewhere."""
        start = self._first.get(queue, 0)
        return Bounds(start, start + len(self._queues.get(queue, ())))

    def queues(self) -> Sequence[Queue]:
        """Return every queue with a message."""
        return list(self._queues)

    async def offset_at(self, queue: Queue, time_ms: int, edge: BoundaryType) -> int:
        """Return the queue offset for a store time."""
        entries, start = self._queues.get(queue, []), self.bounds(queue).min_offset
        if edge is BoundaryType.LOWER:
            return start + bisect_left(entries, time_ms, key=_time_of)
        return start + max(0, bisect_right(entries, time_ms, key=_time_of) - 1)

    def query(self, topic: str, key: str, begin_ms: int, end_ms: int, limit: int) -> QueryResult:
        """Return the newest *limit* records with *key*, oldest first, by checking every record."""
        published = self._log[: self._published]
        text = key.encode("utf-8", "surrogatepass")
        found = [
            self._record(entry)
            for entry in published
            if entry.topic == topic
            and begin_ms <= entry.store_timestamp <= end_ms
            and text in index_keys(bytes(entry.properties), entry.sys_flag)
        ]
        records = found[-limit:] if limit > 0 else []
        last = published[-1] if published else None
        return QueryResult(
            records,
            last.store_timestamp if last else 0,
            last.log_offset if last else 0,
            "" if records else f"no message of topic {topic} with key {key} was stored in that time",
        )

    def drop(self, topic: str) -> Awaitable[None]:
        """Forget the queues of *topic*; its records stay readable by log offset."""
        self._drop(topic, self._end())
        return _Done()

    def dropped_at(self, topic: str) -> int:
        """Return the end of the log when *topic* was last dropped; 0 if never."""
        return self._dropped.get(topic, 0)

    async def clean(self, what: Cleaning) -> CleanReport:
        """Do nothing: there are no files."""
        return CleanReport()

    def state(self) -> StoreState:
        """Return positions and refusals."""
        cause = "" if self._refusal is None else "not_running"
        return StoreState(self._base, self._end(), self._end(), self._published_offset(), self._refusal, cause)

    def _put_group(self, group: Sequence[StoreMessage]) -> list[PutResult]:
        results: list[PutResult] = []
        for message in group:
            result = self._put(message)
            if result.status is PutStatus.OK:
                results.append(result)
                continue
            result = result._replace(problem=problem_in_group(len(results), len(group), result.problem))
            for _ in results:
                entry = self._log.pop()
                del self._bytes[-entry.size :]
                if has_queue_entry(entry.sys_flag):
                    self._next[Queue(entry.topic, entry.queue_id)] -= 1
            return [result] * len(group)
        return results

    def _put(self, message: StoreMessage) -> PutResult:
        if self._refusal is not None:
            return refused(PutStatus.SERVICE_NOT_AVAILABLE, self._refusal)
        clock_ms = self._now_ms()
        self._store_time = max(self._store_time, clock_ms)
        queue = Queue(message.topic, message.queue_id)
        queued = has_queue_entry(message.sys_flag)
        stored_ms, tags_code = stored_at(message, clock_ms, self._store_time)
        queue_offset = self._next.get(queue, 0) if queued else 0
        log_offset = self._end()
        if (refusal := self._refusal_of(message)) is not None:
            return refusal
        try:
            record = encode_message(message, message.properties, queue_offset, log_offset, stored_ms)
        except FormatError as problem:
            return refused(PutStatus.MESSAGE_ILLEGAL, str(problem))
        self._bytes += record
        self._log.append(
            DispatchEntry(
                message.topic,
                message.queue_id,
                queue_offset,
                log_offset,
                len(record),
                tags_code,
                stored_ms,
                read_record(record).sys_flag,
                message.prepared_offset,
                message.properties,
            )
        )
        if queued:
            self._next[queue] = queue_offset + 1
        return PutResult(PutStatus.OK, queue_offset, log_offset, len(record), stored_ms)

    def _refusal_of(self, message: StoreMessage) -> PutResult | None:
        """Return the result of a message that does not fit, None if it fits."""
        if message.queue_targets is not None and message.queue_targets.due_in_ms is None:
            return refused(
                PutStatus.MESSAGE_ILLEGAL,
                "this store keeps neither batch queues (queue.type=BatchCQ) nor light queues (INNER_MULTI_DISPATCH); "
                "use store=mmap",
            )
        known = "maxMessageSize" in self._settings.schema
        longest = self._settings.number("maxMessageSize") if known else MAX_MESSAGE_BYTES
        if len(message.body) > longest:
            problem = f"body of {len(message.body)} bytes; maxMessageSize is {longest}"
            return refused(PutStatus.BODY_TOO_LARGE, problem)
        if (length := len(message.properties)) > MAX_PROPERTIES_BYTES:
            problem = f"properties of {length} bytes; a record holds at most {MAX_PROPERTIES_BYTES}"
            return refused(PutStatus.PROPERTIES_TOO_LARGE, problem)
        length = len(message.topic.encode("utf-8", "surrogatepass"))
        if length > MAX_TOPIC_BYTES:
            problem = f"topic of {length} bytes; the longest allowed is {MAX_TOPIC_BYTES}"
            return refused(PutStatus.MESSAGE_ILLEGAL, problem)
        return None


def _matches(match: MessageFilter, entry: DispatchEntry, record: bytes) -> bool:
    if not match.match_entry(entry.tags_code, None):
        return False
    return not match.needs_message or match.match_message(read_record(record))
