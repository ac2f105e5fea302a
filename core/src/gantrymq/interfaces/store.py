"""The interface of a message store, the optional interfaces, and their argument and result types.

Only the event loop's thread calls a store. ``put`` appends; after the gates have passed, ``publish`` makes messages
visible. Nothing can be read by offset before it is published.

A store has all members of `MessageStore`. Each of the other protocols is optional: the broker detects once, when it
creates the store, which of them it has (`StoreCapabilities`), and refuses requests that need another one.
"""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence, Set
from typing import Any, NamedTuple, Protocol, TypeVar

import attrs

from gantrymq.errors import (
    BodyTooLarge,
    DiskFull,
    LightQueueQuotaExceeded,
    MessageIllegal,
    PropertiesTooLarge,
    RequestError,
    RequestNotSupported,
    ServiceNotAvailable,
)
from gantrymq.formats.dispatch_entry import DispatchEntry
from gantrymq.formats.record import RecordView
from gantrymq.interfaces.filtering import MessageFilter
from gantrymq.interfaces.log import RawLog
from gantrymq.model.queue import Queue

Capability = TypeVar("Capability")


class StoreFeature(enum.Enum):
    """Kinds of queues that a store may support. The broker refuses settings and topics that need another kind."""

    BATCH_QUEUES = "batch queues"  # topics with queue.type=BatchCQ: ``QueueTargets.batch``
    LIGHT_QUEUES = "light queues"  # ``QueueTargets.light``
    EXT_UNITS = "ext units"  # ``enableConsumeQueueExt``


class QueueTargets(NamedTuple):
    """Queue entries of a record other than a single entry in one ordinary queue.

    The store adds INNER_BASE (inner batch) or INNER_MULTI_QUEUE_OFFSET (light queues) to the record's properties,
    because only the store knows the queue offsets and the store time.
    """

    batch: int = 0  # messages in the record, for a topic with queue.type=BatchCQ; 0 for ordinary queues
    light: tuple[str, ...] = ()  # light queues that also list the record; a name may occur twice
    # The store time is the clock's, even if an earlier message has a later one, and the tags code is the store time
    # plus this value. No other field may be set.
    due_in_ms: int | None = None


class StoreMessage:
    """A message to store, with all values in the encoding of the record.

    Use keyword arguments after `properties`, except on the hot path: keywords cost as much as the message itself.
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
        self.sys_flag = sys_flag  # the store sets the two IPv6 bits from the lengths of the hosts
        self.born_timestamp = born_timestamp  # ms
        self.born_host = born_host  # 8 or 20 packed bytes, see model.hosts
        self.store_host = store_host
        self.reconsume_times = reconsume_times
        self.prepared_offset = prepared_offset
        self.wait_stored = wait_stored  # False (WAIT=false): the acknowledgement does not wait for gates
        # True: stored in the same log file as the previous message, or neither is stored (client batches)
        self.same_file_as_previous = same_file_as_previous
        self.queue_targets = queue_targets  # None: one entry in the queue given by topic and queue id


class MovedMessage(StoreMessage):
    """A replacement message of an interceptor, with extra fields for the response to the sender.

    Create it like a `StoreMessage` and set `answer_fields`.
    """

    __slots__ = ("answer_fields",)

    answer_fields: Mapping[str, str]  # extra fields for the response header


class PutStatus(enum.Enum):
    """Result status of storing one message."""

    OK = enum.auto()
    BODY_TOO_LARGE = enum.auto()
    PROPERTIES_TOO_LARGE = enum.auto()
    MESSAGE_ILLEGAL = enum.auto()  # topic too long, or another field that does not fit
    SERVICE_NOT_AVAILABLE = enum.auto()  # the store refuses writes, see StoreState.refusal
    DISK_FULL = enum.auto()  # it refuses them because its disk or quota is full
    CREATE_FILE_FAILED = enum.auto()
    LIGHT_QUEUE_QUOTA = enum.auto()  # the message needs a new light queue, and there may be no more

    @property
    def is_illegal(self) -> bool:
        """Whether the message can never be stored."""
        return self in _ILLEGAL


_ILLEGAL = frozenset({PutStatus.BODY_TOO_LARGE, PutStatus.PROPERTIES_TOO_LARGE, PutStatus.MESSAGE_ILLEGAL})
_ERRORS = {
    PutStatus.BODY_TOO_LARGE: BodyTooLarge,
    PutStatus.PROPERTIES_TOO_LARGE: PropertiesTooLarge,
    PutStatus.MESSAGE_ILLEGAL: MessageIllegal,
    PutStatus.SERVICE_NOT_AVAILABLE: ServiceNotAvailable,
    PutStatus.DISK_FULL: DiskFull,
    PutStatus.CREATE_FILE_FAILED: RequestError,
    PutStatus.LIGHT_QUEUE_QUOTA: LightQueueQuotaExceeded,
}


class PutResult(NamedTuple):
    """Location of a stored message. If the status is not OK, only ``status`` and ``problem`` are valid."""

    status: PutStatus
    queue_offset: int
    log_offset: int
    size: int
    store_timestamp: int
    problem: str = ""

    @property
    def end(self) -> int:
        """Log offset after the record."""
        return self.log_offset + self.size

    def error(self) -> RequestError:
        """Return the error of a message that is not stored."""
        return _ERRORS[self.status](self.problem or self.status.name)


class GetStatus(enum.Enum):
    """Outcome of ``get``. The names are RocketMQ's; they are sent as the remark of a pull response."""

    FOUND = enum.auto()
    NO_MATCHED_MESSAGE = enum.auto()
    MESSAGE_WAS_REMOVING = enum.auto()
    OFFSET_FOUND_NULL = enum.auto()
    OFFSET_OVERFLOW_BADLY = enum.auto()
    OFFSET_OVERFLOW_ONE = enum.auto()
    OFFSET_TOO_SMALL = enum.auto()
    NO_MESSAGE_IN_QUEUE = enum.auto()


class GetLimit(NamedTuple):
    """Limits of one ``get``; the store's limits for hot and cold data also apply."""

    max_count: int = 32
    max_bytes: int = 128 * 1024 * 1024


class GetResult(NamedTuple):
    """Raw log records, ready to be written to a socket."""

    status: GetStatus
    next_offset: int  # queue offset to continue at
    min_offset: int
    max_offset: int  # next offset to be written
    buffers: Sequence[bytes | memoryview] = ()  # consecutive records; neighbours in the log share one buffer
    count: int = 0  # type: ignore[assignment]  # messages; shadows tuple.count, which is not needed here
    size: int = 0  # total bytes
    cold: bool = False  # read from before the hot window
    distant: bool = False  # the last message is further from the end of the log than memory reaches


class Bounds(NamedTuple):
    """The offset range of a queue: the first kept offset and the next one to be written."""

    min_offset: int
    max_offset: int


class BoundaryType(enum.Enum):
    """Which message a search by time returns (RocketMQ's BoundaryType)."""

    LOWER = "LOWER"  # the first one at or after the time
    UPPER = "UPPER"  # the last one at or before the time


class QueryResult(NamedTuple):
    """Result of a query by key."""

    records: Sequence[bytes | memoryview]
    index_timestamp: int  # ms of the newest indexed message
    index_log_offset: int
    problem: str = ""  # reason why no message was found or messages may be missing
    complete: bool = True  # False: the index lags behind the log or failed, so stored messages may be missing


@attrs.frozen
class RecoveryReport:
    """Result of recovery at the start of a store."""

    clean: bool  # the store was shut down normally
    records_checked: int = 0
    log_end: int = 0
    cut_bytes: int = 0  # non-zero bytes truncated from the log and moved to quarantine beside the store
    kept: tuple[str, ...] = ()  # quarantine files
    entries_rebuilt: int = 0
    notes: tuple[str, ...] = ()  # one sentence each, already passed to ``StoreContext.log``


class Cleaning(enum.Enum):
    """Kinds of cleanup on demand."""

    EXPIRED_LOG = "expired log files"  # older than fileReservedTime, at any hour
    EXPIRED_QUEUES = "expired queues"  # queues without any message left in the log
    RESERVE_TIMES = "reserve times"  # hide messages older than their topic's reserve.time


@attrs.frozen
class CleanReport:
    """Result of a cleanup; 0 where not applicable."""

    log_files: int = 0  # being deleted in the background
    log_bytes: int = 0
    queues: int = 0  # removed, or now with a higher minimum offset


@attrs.frozen
class StoreState:
    """Watermarks, and the reason if writes are refused."""

    min_log_offset: int
    max_log_offset: int  # appended
    flushed_offset: int
    published_offset: int
    refusal: str | None = None  # a sentence; None while writes are accepted
    refusal_cause: str = ""  # a short name for the cause; empty while writes are accepted
    details: dict[str, str] = attrs.field(factory=dict)  # runtime values under RocketMQ's names
    syncs: int = 0  # syncs of the log since the start
    sync_s: float = 0.0  # total seconds spent in these syncs


class MessageStore(Protocol):
    """A message log with queues as views: what every store must have."""

    async def start(self) -> RecoveryReport:
        """Lock, load and recover. Raises StoreError if the store must not be used."""

    async def stop(self) -> None:
        """Flush everything and shut down cleanly. Idempotent."""

    def put(self, messages: Sequence[StoreMessage]) -> list[PutResult]:
        """Append messages in order, not yet visible. Return one result per message.

        A message and the following ones with `same_file_as_previous` are stored together or refused together. Other
        messages are not affected. A `MessageBatch` is a sequence like any other, and a store may use its encoded form.
        """

    def flushed(self, log_offset: int) -> Awaitable[None]:
        """Wait until everything before *log_offset* is durable. Raises StoreError if the sync failed."""

    def publish(self, up_to: int) -> Sequence[DispatchEntry]:
        """Make the records that end at or before *up_to* visible to reads by queue offset."""

    def get(
        self, queue: Queue, queue_offset: int, limit: GetLimit, match: MessageFilter | None
    ) -> GetResult | Awaitable[GetResult]:
        """Read from *queue_offset*. Return an awaitable if the data is cold."""

    def read(self, log_offset: int) -> RecordView | None:
        """Return the record at *log_offset*, or None if no record starts there."""

    def scan(self, start: int, end: int) -> Iterator[DispatchEntry]:
        """Iterate over the published records of [start, end), to replay dispatchers. Blocks on disk: use a thread."""

    def bounds(self, queue: Queue) -> Bounds:
        """Return the offset range of a queue; (0, 0) if it never had a message."""

    def queues(self) -> Sequence[Queue]:
        """Return every queue that has or had a message."""

    def drop(self, topic: str) -> Awaitable[None]:
        """Remove the queues of a deleted topic immediately. The awaitable is done when the removal is durable.

        Concurrent drops share the work. The awaitable raises StoreError on a disk error; callers may ignore it.
        """

    def state(self) -> StoreState:
        """Return watermarks and the reason for refusing writes."""


class QueueFeatures(Protocol):
    """Optional: a store with more than ordinary queues."""

    @property
    def supports(self) -> Set[StoreFeature]:
        """The kinds of queues that the store supports."""


class RawLogProvider(Protocol):
    """Optional: a store that offers its log as bytes, for replication, tiers and backups."""

    @property
    def raw_log(self) -> RawLog | None:
        """The log as bytes; None like a store without this property."""


class StateStore(Protocol):
    """Documents by name, such as ``topics.json``, ``subscriptionGroup.json`` and ``consumerOffset.json``.

    By default they are RocketMQ's files below ``config/``. A message store may keep them elsewhere
    (`StateStoreProvider`). The methods may block: they are called in a thread, one call at a time.
    """

    def load(self, name: str) -> Mapping[Any, Any] | None:
        """Return a document, None if there is none.

        Raises:
            FormatError: it is not a JSON object.
            OSError: it cannot be read.
        """

    def save(self, name: str, text: str) -> None:
        """Replace a document durably. Raises OSError; the old document is kept then.

        *text*: JSON in the form of RocketMQ's file, whose keys may be numbers: `gantrymq.loose_json` reads it.
        """

    def has(self, name: str) -> bool:
        """Return whether there is such a document. Raises OSError."""

    def place(self, name: str) -> str:
        """Return where a document is, for error sentences, such as a path."""


class StateStoreProvider(Protocol):
    """Optional: a store that keeps topics, groups and offsets, instead of RocketMQ's files below ``config/``."""

    @property
    def state_store(self) -> StateStore | None:
        """Where the broker keeps its tables; None like a store without this property."""


class KeyQueries(Protocol):
    """Optional: queries by key. Half messages of transactions are found by them too."""

    def query(
        self, topic: str, key: str, begin_ms: int, end_ms: int, limit: int
    ) -> QueryResult | Awaitable[QueryResult]:
        """Return the newest *limit* records of *topic* with the unique key or KEYS entry *key*, oldest first.

        Published messages can be found immediately. The window is in store time, inclusive at both ends; a store may
        have a resolution of seconds and a lower limit of its own.
        """


class TimeSearch(Protocol):
    """Optional: offsets by time."""

    async def offset_at(self, queue: Queue, time_ms: int, edge: BoundaryType) -> int:
        """Return the queue offset for a store time, clamped to the bounds. May wait for the disk."""


class ColdReads(Protocol):
    """Optional: reads of records that are not in memory without blocking the event loop."""

    def view(self, log_offset: int) -> RecordView | Awaitable[RecordView | None] | None:
        """Return the record at any *log_offset* like `MessageStore.read`; an awaitable if the data is cold."""


class DropHistory(Protocol):
    """Optional: a store that remembers when topics were deleted."""

    def dropped_at(self, topic: str) -> int:
        """Return the end of the log at the time *topic* was last dropped; persistent stores keep it across restarts.

        Return 0 if it never was dropped, or if all records before the drop have left the log. A record of *topic*, or
        one that is delayed for it, is older than the drop if its log offset is less than this value.
        """


class LoopSync(Protocol):
    """Optional: a store that can sync on the event loop, for single messages."""

    def sync_now(self, log_offset: int, *, alone: bool) -> bool:
        """Make everything before *log_offset* durable before returning, if that is expected to take well under 1 ms.

        Return whether it is durable; if not, the caller waits with `MessageStore.flushed`. Raises nothing: `flushed`
        raises the error of a sync that failed here.

        *alone*: the loop has nothing else to do; otherwise such syncs should take a small share of its time.
        """


class CleaningOnDemand(Protocol):
    """Optional: cleanup at the request of an operator, and by topic attributes at the start of a broker."""

    async def clean(self, what: Cleaning) -> CleanReport:
        """Run a cleanup now; does nothing if there is no such work. Raises StoreError."""


@attrs.frozen
class StoreCapabilities:
    """The optional interfaces of a store, detected once; None for one that it lacks."""

    features: Set[StoreFeature]  # empty without `QueueFeatures`
    raw_log: RawLog | None
    state_store: StateStore | None
    key_queries: KeyQueries | None
    time_search: TimeSearch | None
    cleaning: CleaningOnDemand | None
    loop_sync: LoopSync | None
    view: Callable[[int], RecordView | Awaitable[RecordView | None] | None]  # `MessageStore.read` without `ColdReads`
    dropped_at: Callable[[str], int]  # always 0 without `DropHistory`

    @classmethod
    def of(cls, store: MessageStore) -> StoreCapabilities:
        """Detect the members of *store*. A member that is None counts as absent, so that a wrapper can remove it."""
        found: Any = store
        return cls(
            features=getattr(store, "supports", None) or frozenset(),
            raw_log=getattr(store, "raw_log", None),
            state_store=getattr(store, "state_store", None),
            key_queries=found if getattr(store, "query", None) is not None else None,
            time_search=found if getattr(store, "offset_at", None) is not None else None,
            cleaning=found if getattr(store, "clean", None) is not None else None,
            loop_sync=found if getattr(store, "sync_now", None) is not None else None,
            view=getattr(store, "view", None) or store.read,
            dropped_at=getattr(store, "dropped_at", None) or _never_dropped,
        )


def require_capability(capability: Capability | None, what: str) -> Capability:
    """Return *capability* of the store, which *what* needs. Raises RequestNotSupported if the store lacks it."""
    if capability is None:
        raise RequestNotSupported(f"the broker's store does not support {what}; a broker with store=mmap does")
    return capability


def _never_dropped(topic: str) -> int:
    return 0
