"""Storage: the interface of a message store, and the values that cross it.

One event loop thread calls a store. ``put`` appends, gates pass, ``publish`` makes visible: nothing can be read by
offset before it is published.
"""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

import attrs

from gantrymq.formats.record import RecordView
from gantrymq.interfaces.dispatch import DispatchEntry
from gantrymq.interfaces.filtering import MessageFilter
from gantrymq.model.queue import Queue


class QueueTargets(NamedTuple):
    """How the store queues a record that is more, or other, than one entry of one ordinary queue.

    The store writes INNER_BASE (of an inner batch) or INNER_MULTI_QUEUE_OFFSET (with light queues) into the record's
    properties, because only it knows the queue offsets; and only it knows the store time.
    """

    batch: int = 0  # messages in the record, for a topic with queue.type=BatchCQ; 0 for ordinary queues
    light: tuple[str, ...] = ()  # names of light queues that list the record as well, perhaps one of them twice
    due_in_ms: int | None = (
        None  # the tags code is the store time and this, in place of the message's; nothing else set
    )


class StoreMessage:
    """A message on its way into the store; everything is ready to be copied into a record.

    Name the fields behind `properties`, unless one is made for every send: names cost as much as the message.
    """

    __slots__ = (
        "body",
        "born_host",
        "born_timestamp",
        "flag",
        "prepared_offset",
        "properties",
        "queue_id",
        "queue_targets",
        "reconsume_times",
        "same_file_as_previous",
        "store_host",
        "sys_flag",
        "tags_code",
        "topic",
        "wait_stored",
    )

    def __init__(
        self,
        topic: str,
        queue_id: int,
        body: bytes | memoryview,
        properties: bytes,
        tags_code: int = 0,
        flag: int = 0,
        sys_flag: int = 0,
        born_timestamp: int = 0,
        born_host: bytes = b"\x7f\0\0\1\0\0\0\0",
        store_host: bytes = b"\x7f\0\0\1\0\0\0\0",
        reconsume_times: int = 0,
        prepared_offset: int = 0,
        wait_stored: bool = True,
        same_file_as_previous: bool = False,
        queue_targets: QueueTargets | None = None,
    ) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.body = body
        self.properties = properties  # stored text; see model.properties
        self.tags_code = tags_code  # signed 64 bits, for the queue entry
        self.flag = flag
        self.sys_flag = sys_flag  # the two IPv6 bits are set by the store from the hosts' lengths
        self.born_timestamp = born_timestamp  # ms
        self.born_host = born_host  # 8 or 20 packed bytes, see model.hosts
        self.store_host = store_host
        self.reconsume_times = reconsume_times
        self.prepared_offset = prepared_offset
        self.wait_stored = wait_stored  # WAIT=false: the acknowledgement does not wait for gates
        self.same_file_as_previous = (
            same_file_as_previous  # stored with the message before it, in one log file, or neither is (client batches)
        )
        self.queue_targets = queue_targets  # None: one entry in the queue that topic and queue id name


class MovedMessage(StoreMessage):
    """What an interceptor stores in place of a message whose sender is to be told more.

    Make it as a `StoreMessage` and set `answer_fields`.
    """

    __slots__ = ("answer_fields",)

    answer_fields: Mapping[str, str]  # of the answer's header, besides those that every answer has


class PutStatus(enum.Enum):
    """What became of one message."""

    OK = 0
    MESSAGE_ILLEGAL = 13  # body, properties or topic too long
    SERVICE_NOT_AVAILABLE = 14  # the store refuses writes; StoreState says why
    CREATE_FILE_FAILED = 1


class PutResult(NamedTuple):
    """Where one message went; only ``status`` and ``problem`` count when the status is not OK."""

    status: PutStatus
    queue_offset: int
    log_offset: int
    size: int
    store_timestamp: int
    problem: str = ""

    @property
    def end(self) -> int:
        """Log offset behind the record."""
        return self.log_offset + self.size


class GetStatus(enum.Enum):
    """Outcome of ``get``; names are RocketMQ's and travel as the remark of a pull response."""

    FOUND = enum.auto()
    NO_MATCHED_MESSAGE = enum.auto()
    MESSAGE_WAS_REMOVING = enum.auto()
    OFFSET_FOUND_NULL = enum.auto()
    OFFSET_OVERFLOW_BADLY = enum.auto()
    OFFSET_OVERFLOW_ONE = enum.auto()
    OFFSET_TOO_SMALL = enum.auto()
    NO_MESSAGE_IN_QUEUE = enum.auto()


class GetLimit(NamedTuple):
    """How much one ``get`` may return; the store's own limits for hot and cold data apply as well."""

    max_count: int = 32
    max_bytes: int = 128 * 1024 * 1024


class GetResult(NamedTuple):
    """Records as they lie in the log, ready to be written to a socket."""

    status: GetStatus
    next_offset: int  # where to go on, queue offset
    min_offset: int
    max_offset: int  # next offset to be written
    buffers: Sequence[bytes | memoryview] = ()  # records back to back; neighbours in the log share one buffer
    count: int = 0  # type: ignore[assignment]  # messages; hides tuple.count, which nobody needs here
    size: int = 0  # bytes in all buffers
    cold: bool = False  # read from behind the hot window


class Bounds(NamedTuple):
    """Queue offsets: the first one kept, and the next one to be written."""

    min_offset: int
    max_offset: int


class BoundaryType(enum.Enum):
    """Which of several messages a look-up by time means (RocketMQ's BoundaryType)."""

    LOWER = "LOWER"  # the first one at or after the time
    UPPER = "UPPER"  # the last one at or before the time


class QueryResult(NamedTuple):
    """Answer of a query by key."""

    records: Sequence[bytes | memoryview]
    index_timestamp: int  # ms of the newest indexed message
    index_log_offset: int
    problem: str = ""  # why nothing was found, or why messages may be missing
    complete: bool = True  # False: the index lags behind the log, or failed; what was not found may be stored


@attrs.frozen
class RecoveryReport:
    """What starting the store found and did."""

    clean: bool  # the last stop was a normal one
    records_checked: int = 0
    log_end: int = 0
    cut_bytes: int = 0  # not-zero bytes cut off the log and kept beside the store
    kept: tuple[str, ...] = ()  # where they were kept
    entries_rebuilt: int = 0
    notes: tuple[str, ...] = ()  # one sentence each; the store told each to ``StoreContext.log`` as it was made


class Cleaning(enum.Enum):
    """What can be cleaned on demand."""

    EXPIRED_LOG = "expired log files"  # older than fileReservedTime, at any hour
    EXPIRED_QUEUES = "expired queues"  # whose messages have all left the log
    RESERVE_TIMES = "reserve times"  # messages older than their topic's reserve.time are hidden


@attrs.frozen
class CleanReport:
    """What a cleaning found to do; 0 where it does not apply."""

    log_files: int = 0  # are being deleted, in the background
    log_bytes: int = 0
    queues: int = 0  # were removed, or begin later now


@attrs.frozen
class StoreState:
    """Watermarks, and whether writes are refused and why."""

    min_log_offset: int
    max_log_offset: int  # appended
    flushed_offset: int
    published_offset: int
    refusal: str | None = None  # a sentence, None while writes are taken
    refusal_cause: str = ""  # a short name for the cause; empty while writes are taken
    details: dict[str, str] = attrs.field(factory=dict)  # runtime figures under RocketMQ's names
    syncs: int = 0  # how often the log was made durable since the start
    sync_s: float = 0.0  # seconds that took in all


class MessageStore(Protocol):
    """A log of messages with a queue view on it."""

    async def start(self) -> RecoveryReport:
        """Lock, load, recover. Raises StoreError with a sentence when the store must not be used."""

    async def stop(self) -> None:
        """Flush everything and leave a clean store. Idempotent."""

    def put(self, messages: Sequence[StoreMessage]) -> list[PutResult]:
        """Append in order; not yet visible. One result per message.

        A message and the following ones with `same_file_as_previous` are stored together or refused together. Other
        messages are not affected.
        """

    def flushed(self, log_offset: int) -> Awaitable[None]:
        """Done when everything before *log_offset* is durable. Raises StoreError when the sync failed."""

    def publish(self, up_to: int) -> Sequence[DispatchEntry]:
        """Make the records that end at or before *up_to* visible: they can be read by queue offset from now on."""

    def get(
        self, queue: Queue, queue_offset: int, limit: GetLimit, match: MessageFilter | None
    ) -> GetResult | Awaitable[GetResult]:
        """Read from *queue_offset*; an awaitable when the data is cold."""

    def read(self, log_offset: int) -> RecordView | None:
        """The record at *log_offset*, or None where no record starts."""

    def scan(self, start: int, end: int) -> Iterator[DispatchEntry]:
        """Every published record of [start, end), to replay dispatchers. For a thread: steps may wait for the disk."""

    def bounds(self, queue: Queue) -> Bounds:
        """Offsets of a queue; (0, 0) for one that never got a message."""

    def queues(self) -> Sequence[Queue]:
        """Every queue that has or had a message."""

    async def offset_at(self, queue: Queue, time_ms: int, edge: BoundaryType) -> int:
        """Queue offset by store time, clamped to the bounds. May wait for the disk, and others have their turn."""

    def view(self, log_offset: int) -> RecordView | Awaitable[RecordView | None] | None:
        """As `read`, for what may lie anywhere in the log: an awaitable when it is cold."""

    def query(
        self, topic: str, key: str, begin_ms: int, end_ms: int, limit: int
    ) -> QueryResult | Awaitable[QueryResult]:
        """The newest *limit* records of *topic* whose unique key or one of whose KEYS is *key*, oldest first.

        What is published can be found at once. The window is that of store times, both ends included; a store may know
        them to the second only. A store may have a lower limit of its own.
        """

    def drop(self, topic: str) -> Awaitable[None]:
        """Forget the queues of a deleted topic at once; done when a crash cannot bring them back.

        Drops that run at the same time share the work. The awaitable raises StoreError when the disk failed; who does
        not care throws it away.
        """

    def dropped_at(self, topic: str) -> int:
        """End of the log when *topic* was last dropped, also before a restart of a store that outlives one.

        0 if it never was, or if every record before that drop has left the log: a record of the log, or one that waits
        for *topic*, is older than the drop if its log offset is less than this.
        """

    async def clean(self, what: Cleaning) -> CleanReport:
        """Clean now, as far as the store has such a thing. Raises StoreError."""

    def state(self) -> StoreState:
        """Watermarks and refusals."""
