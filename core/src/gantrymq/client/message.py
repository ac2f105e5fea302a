"""Messages as applications send and receive them.

`RESERVED` are the names of properties that clients and brokers set, not applications. Messages have fields for KEYS,
TAGS, WAIT and the delays; the other ones record the history of one message (origin, delay, retries) and would be wrong
on another one. A sharding key (__SHARDINGKEY) belongs to the application.

Sources: apache/rocketmq common/.../message/Message.java, MessageExt.java, MessageConst.java (STRING_HASH_SET, and
properties that brokers add). CONSUME_FAILURE is GantryMQ's own.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import attrs

from gantrymq.errors import ClientError
from gantrymq.formats.compression import SHORTENED
from gantrymq.model import properties as names
from gantrymq.model.names import DLQ_PREFIX, RETRY_PREFIX

_MOVED = (RETRY_PREFIX, DLQ_PREFIX)

_RESERVED_NAMES: Final = """
    TRACE_ON MSG_REGION KEYS TAGS WAIT DELAY RETRY_TOPIC REAL_TOPIC REAL_QID TRAN_MSG PGROUP MIN_OFFSET MAX_OFFSET
    BUYER_ID ORIGIN_MESSAGE_ID TRANSFER_FLAG CORRECTION_FLAG MQ2_FLAG RECONSUME_TIME UNIQ_KEY MAX_RECONSUME_TIMES
    CONSUME_START_TIME POP_CK POP_CK_OFFSET 1ST_POP_TIME TRAN_PREPARED_QUEUE_OFFSET DUP_INFO EXTEND_UNIQ_INFO
    INSTANCE_ID CORRELATION_ID REPLY_TO_CLIENT TTL ARRIVE_TIME PUSH_REPLY_TIME CLUSTER MSG_TYPE INNER_NUM INNER_BASE
    INNER_MULTI_DISPATCH INNER_MULTI_QUEUE_OFFSET TIMER_DELAY_MS TIMER_DELAY_SEC TIMER_DELIVER_MS TIMER_ENQUEUE_MS
    TIMER_DEQUEUE_MS TIMER_ROLL_TIMES TIMER_OUT_MS TIMER_DEL_UNIQKEY TIMER_DELAY_LEVEL __BORNHOST BORN_TIMESTAMP
    DLQ_ORIGIN_TOPIC DLQ_ORIGIN_MESSAGE_ID __CRC32# __transactionId__ CHECK_IMMUNITY_TIME_IN_SECONDS
    TRANSACTION_CHECK_TIMES PROPERTY_FORWARD_QUEUE_ID REDIRECT TRACE_CONTEXT CONSUME_FAILURE
"""
RESERVED: Final = frozenset(_RESERVED_NAMES.split())


@attrs.define
class Message:
    """A message to send."""

    topic: str
    body: bytes
    tags: str | None = None
    keys: str | tuple[str, ...] | None = None  # several keys are joined with a space
    flag: int = 0
    properties: dict[str, str] = attrs.field(factory=dict)  # the application's own
    wait_stored: bool = True  # False: the broker answers before a synchronous flush
    delay_level: int = 0  # of the broker's table: 1 for 1 s, 3 for 10 s, 18 for 2 h by default; 0 for none
    delay_ms: int | None = None  # delivered after this delay
    deliver_at_ms: int | None = None  # delivered at this time, ms since 1970
    system_properties: dict[str, str] = attrs.field(factory=dict)  # RocketMQ's properties that have no field here

    @classmethod
    def from_received(cls, received: ReceivedMessage, topic: str | None = None) -> Message:
        """Return a new message with the body, tags, keys, flag and user properties of a received one.

        Properties that RocketMQ added are left out: the new message gets its own id and default storage and delivery
        settings.

        Args:
            received: is not modified.
            topic: topic of the new message; None for the topic that *received* was sent to, which for a retry message
                or dead letter is the original one.

        Raises:
            ClientError: the body could not be decoded.
        """
        if received.body_problem:
            raise ClientError(f"a message cannot be forwarded because it was not decoded: {received.body_problem}")
        origin = received.properties.get(names.RETRY_TOPIC) if received.topic.startswith(_MOVED) else None
        return cls(
            topic=topic or origin or received.topic,
            body=received.body,
            tags=received.tags,
            keys=received.keys,
            flag=received.flag,
            properties=received.user_properties,
        )

    def all_properties(self) -> dict[str, str]:
        """Return user properties and RocketMQ's properties, in wire order."""
        found = {**self.properties, **self.system_properties}
        if self.delay_level:
            found[names.DELAY] = str(self.delay_level)
        if self.delay_ms is not None:
            found[names.TIMER_DELAY_MS] = str(self.delay_ms)
        if self.deliver_at_ms is not None:
            found[names.TIMER_DELIVER_MS] = str(self.deliver_at_ms)
        if self.keys:
            found[names.KEYS] = self.keys if isinstance(self.keys, str) else " ".join(self.keys)
        if self.tags:
            found[names.TAGS] = self.tags
        found.setdefault(names.WAIT, "true" if self.wait_stored else "false")
        return found


class _LeftUnread:
    """Slots for the undecoded part of a message: the head and the properties of its record."""

    __slots__ = ("_read_rest", "_rest")

    _rest: bytes
    _read_rest: Callable[[bytes, str], Any]


@attrs.define
class ReceivedMessage(_LeftUnread):
    """A received message, with its queue, offsets and timestamps."""

    topic: str
    body: bytes  # decompressed; the stored bytes if `body_problem` is set, but see `is_shortened`
    properties: dict[str, str]
    flag: int
    queue_id: int
    queue_offset: int
    log_offset: int
    store_size: int  # bytes of the record
    sys_flag: int
    born_timestamp: int  # ms
    born_host: str  # ip:port
    store_timestamp: int  # ms
    store_host: str  # ip:port
    reconsume_times: int
    body_crc: int
    prepared_offset: int
    offset_id: str
    broker_name: str = ""
    body_problem: str = ""  # why the body differs from what was sent, and how to fix it; else empty

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Decode a field from the record on first use, see `gantrymq.client.calls.decoding`."""
            if name not in _FIELDS:
                raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
            value = self._read_rest(self._rest, name)
            setattr(self, name, value)
            return value

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy with every field decoded."""
        return type(self), tuple(getattr(self, name) for name in _FIELDS)

    @property
    def tags(self) -> str | None:
        """The tag, if any."""
        return self.properties.get(names.TAGS)

    @property
    def is_shortened(self) -> bool:
        """Whether `body` is only the beginning, because it is larger than the reader's ``max_body_bytes``."""
        return self.body_problem.startswith(SHORTENED)

    @property
    def keys(self) -> str | None:
        """Index keys separated by spaces, if any."""
        return self.properties.get(names.KEYS)

    @property
    def user_properties(self) -> dict[str, str]:
        """Properties set by the application, without tags and keys."""
        return split_properties(self.properties)[0]

    @property
    def system_properties(self) -> dict[str, str]:
        """Properties set by clients and brokers, including tags and keys."""
        return split_properties(self.properties)[1]

    @property
    def message_id(self) -> str:
        """The client's unique id, or the offset id if the message has none."""
        return self.properties.get(names.UNIQ_KEY) or self.offset_id


_FIELDS = {field.name: None for field in attrs.fields(ReceivedMessage)}  # in field order


class TransactionState(enum.Enum):
    """Decision of a producer. Values are RocketMQ's."""

    UNKNOWN = 0  # not decided yet: the broker checks again later
    COMMIT = 8
    ROLLBACK = 12


def split_properties(properties: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Split *properties* into the application's and RocketMQ's."""
    own = {name: value for name, value in properties.items() if name not in RESERVED}
    return own, {name: value for name, value in properties.items() if name in RESERVED}
