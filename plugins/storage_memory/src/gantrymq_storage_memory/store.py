"""Messages in lists: the smallest store that fulfils `gantrymq.interfaces.MessageStore`, except for durability.

Records have the bytes RocketMQ would have on disk, so pulls return what clients expect; the log has no files and so no
blanks, and everything appended counts as flushed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Awaitable, Generator, Iterator, Sequence
from operator import attrgetter

from gantrymq.errors import FilterBudgetExceeded, FormatError
from gantrymq.formats.record import RecordView, encode_record, read_record
from gantrymq.interfaces import (
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
    RecoveryReport,
    StoreContext,
    StoreMessage,
    StoreState,
)
from gantrymq.model.queue import Queue
from gantrymq.model.sys_flag import TRANSACTION_MASK, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from gantrymq_store_files.index_hash import index_keys

_start_of = attrgetter("log_offset")
_time_of = attrgetter("store_timestamp")

MAX_TOPIC_BYTES = 255
MAX_MESSAGE_BYTES = 4 * 1024 * 1024  # if no setting maxMessageSize is declared
MAX_EXAMINED = 800  # entries per get: a filter that rejects everything must not block the event loop


class _Done:
    """A completed awaitable that may be ignored."""

    def __await__(self) -> Generator[None, None, None]:
        return
        yield


class MemoryStore:
    """A `MessageStore` in memory."""

    def __init__(self, context: StoreContext) -> None:
        settings = context.settings
        self._now_ms = context.world.clock.now_ms
        self._settings = settings
        self._log: list[DispatchEntry] = []  # everything appended
        self._records: dict[int, bytes] = {}  # by log offset
        self._published = 0  # number of published entries of the log
        self._queues: dict[Queue, list[DispatchEntry]] = {}  # published entries; index = queue offset
        self._next: dict[Queue, int] = {}
        self._dropped: dict[str, int] = {}  # topic to the log's end when it was last dropped
        self._store_time = 0
        self._refusal: str | None = "the store is not started"

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
        first = self._published
        while self._published < len(self._log) and _end_of(self._log[self._published]) <= up_to:
            entry = self._log[self._published]
            self._published += 1
            queue = Queue(entry.topic, entry.queue_id)
            if _has_queue_entry(entry.sys_flag) and entry.log_offset >= self._dropped.get(entry.topic, 0):
                self._queues.setdefault(queue, []).append(entry)
        return self._log[first : self._published]

    def get(self, queue: Queue, queue_offset: int, limit: GetLimit, match: MessageFilter | None) -> GetResult:
        """Read from *queue_offset*."""
        entries = self._queues.get(queue, [])
        end = len(entries)
        if end == 0:
            return GetResult(GetStatus.NO_MESSAGE_IN_QUEUE, 0, 0, 0)
        if queue_offset < 0:
            return GetResult(GetStatus.OFFSET_TOO_SMALL, 0, 0, end)
        if queue_offset == end:
            return GetResult(GetStatus.OFFSET_OVERFLOW_ONE, queue_offset, 0, end)
        if queue_offset > end:
            return GetResult(GetStatus.OFFSET_OVERFLOW_BADLY, end, 0, end)
        found: list[bytes] = []
        size = 0
        next_offset = queue_offset
        for entry in entries[queue_offset : queue_offset + MAX_EXAMINED]:
            if found and (len(found) >= limit.max_count or size + entry.size > limit.max_bytes):
                break
            record = self._records[entry.log_offset]
            try:
                fits = match is None or match.accepts_all or _matches(match, entry, record)
            except FilterBudgetExceeded:
                break
            next_offset += 1
            if fits:
                found.append(record)
                size += len(record)
        status = GetStatus.FOUND if found else GetStatus.NO_MATCHED_MESSAGE
        return GetResult(status, next_offset, 0, end, found, len(found), size)

    def read(self, log_offset: int) -> RecordView | None:
        """Return the published record at *log_offset*."""
        record = self._records.get(log_offset)
        return None if record is None or log_offset >= self._published_offset() else read_record(record)

    def view(self, log_offset: int) -> RecordView | None:
        """Like `read`."""
        return self.read(log_offset)

    def scan(self, start: int, end: int) -> Iterator[DispatchEntry]:
        """Iterate over published records that start in ``[start, end)``."""
        published = self._log[: self._published]
        yield from published[bisect_left(published, start, key=_start_of) : bisect_left(published, end, key=_start_of)]

    def bounds(self, queue: Queue) -> Bounds:
        """Return the offsets of a queue; its start is always 0."""
        return Bounds(0, len(self._queues.get(queue, ())))

    def queues(self) -> Sequence[Queue]:
        """Return every queue with a message."""
        return list(self._queues)

    async def offset_at(self, queue: Queue, time_ms: int, edge: BoundaryType) -> int:
        """Return the queue offset for a store time."""
        entries = self._queues.get(queue, [])
        if edge is BoundaryType.LOWER:
            return bisect_left(entries, time_ms, key=_time_of)
        return max(0, bisect_right(entries, time_ms, key=_time_of) - 1)

    def query(self, topic: str, key: str, begin_ms: int, end_ms: int, limit: int) -> QueryResult:
        """Return the newest *limit* records with *key*, oldest first, by checking every record."""
        published = self._log[: self._published]
        text = key.encode("utf-8", "surrogatepass")
        found = [
            self._records[entry.log_offset]
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
        self._dropped[topic] = self._end()
        for queue in [queue for queue in self._next if queue.topic == topic]:
            del self._next[queue]
            self._queues.pop(queue, None)
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
        return StoreState(0, self._end(), self._end(), self._published_offset(), self._refusal, cause)

    def _put_group(self, group: Sequence[StoreMessage]) -> list[PutResult]:
        results: list[PutResult] = []
        for message in group:
            result = self._put(message)
            if result.status is PutStatus.OK:
                results.append(result)
                continue
            if len(group) > 1:
                which = f"message {len(results) + 1} of {len(group)}, which are stored together or not at all"
                result = result._replace(problem=f"{which}: {result.problem}")
            for _ in results:
                entry = self._log.pop()
                del self._records[entry.log_offset]
                if _has_queue_entry(entry.sys_flag):
                    self._next[Queue(entry.topic, entry.queue_id)] -= 1
            return [result] * len(group)
        return results

    def _put(self, message: StoreMessage) -> PutResult:
        if self._refusal is not None:
            return PutResult(PutStatus.SERVICE_NOT_AVAILABLE, 0, 0, 0, 0, self._refusal)
        self._store_time = max(self._store_time, self._now_ms())
        queue = Queue(message.topic, message.queue_id)
        queued = _has_queue_entry(message.sys_flag)
        due_in_ms = message.queue_targets.due_in_ms if message.queue_targets is not None else None
        queue_offset = self._next.get(queue, 0) if queued else 0
        log_offset = self._end()
        try:
            self._check_lengths(message)
            record = encode_record(
                topic=message.topic,
                queue_id=message.queue_id,
                body=message.body,
                properties=message.properties,
                queue_offset=queue_offset,
                log_offset=log_offset,
                store_timestamp=self._store_time,
                born_timestamp=message.born_timestamp,
                born_host=message.born_host,
                store_host=message.store_host,
                flag=message.flag,
                sys_flag=message.sys_flag,
                reconsume_times=message.reconsume_times,
                prepared_offset=message.prepared_offset,
            )
        except FormatError as problem:
            return PutResult(PutStatus.MESSAGE_ILLEGAL, 0, 0, 0, 0, str(problem))
        self._records[log_offset] = record
        self._log.append(
            DispatchEntry(
                message.topic,
                message.queue_id,
                queue_offset,
                log_offset,
                len(record),
                message.tags_code if due_in_ms is None else self._store_time + due_in_ms,
                self._store_time,
                read_record(record).sys_flag,
                message.prepared_offset,
                message.properties,
            )
        )
        if queued:
            self._next[queue] = queue_offset + 1
        return PutResult(PutStatus.OK, queue_offset, log_offset, len(record), self._store_time)

    def _check_lengths(self, message: StoreMessage) -> None:
        if message.queue_targets is not None and message.queue_targets.due_in_ms is None:
            raise FormatError(
                "this store keeps neither batch queues (queue.type=BatchCQ) nor light queues (INNER_MULTI_DISPATCH); "
                "use store=mmap"
            )
        known = "maxMessageSize" in self._settings.schema
        longest = self._settings.number("maxMessageSize") if known else MAX_MESSAGE_BYTES
        if len(message.body) > longest:
            raise FormatError(f"body of {len(message.body)} bytes; maxMessageSize is {longest}")
        length = len(message.topic.encode("utf-8", "surrogatepass"))
        if length > MAX_TOPIC_BYTES:
            raise FormatError(f"topic of {length} bytes; the longest allowed is {MAX_TOPIC_BYTES}")

    def _end(self) -> int:
        return _end_of(self._log[-1]) if self._log else 0

    def _published_offset(self) -> int:
        return _end_of(self._log[self._published - 1]) if self._published else 0


def _has_queue_entry(sys_flag: int) -> bool:
    """False for prepared and rolled back messages (store/.../DefaultMessageStore.java, CommitLogDispatcher...)."""
    return sys_flag & TRANSACTION_MASK not in (TRANSACTION_PREPARED, TRANSACTION_ROLLBACK)


def _matches(match: MessageFilter, entry: DispatchEntry, record: bytes) -> bool:
    if not match.match_entry(entry.tags_code, None):
        return False
    return not match.needs_message or match.match_message(read_record(record))


def _end_of(entry: DispatchEntry) -> int:
    return entry.log_offset + entry.size
