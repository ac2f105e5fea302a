"""Records of RocketMQ's message trace, as encoded in messages of the trace topic. No I/O.

    body of a message    | record | record | ...      UTF-8, each record ended by 0x02
    record               | kind 0x01 field 0x01 field ...      in the order of the classes below

    Pub               one message was sent
    SubBefore         one message was delivered to a consumer
    SubAfter          its consumption ended; has the request id of the SubBefore
    EndTransaction    the sender decided on a half message

A missing text is written as ``null``, as in Java, whose readers need the last field of a SubBefore. Fields that later
versions add at the end of a record are ignored, and so are records of unknown kinds.

Source: apache/rocketmq client/.../trace/TraceDataEncoder.java, TraceConstants.java, TraceType.java.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple, get_type_hints

from gantrymq.client.errors import AnswerUnreadable

_FIELD: Final = "\x01"
_RECORD: Final = "\x02"
_NULL: Final = "null"


class MessageType(enum.Enum):
    """Message types. Values are the ordinals of RocketMQ's MessageType."""

    NORMAL = 0
    TRANSACTION_HALF = 1
    TRANSACTION_COMMIT = 2
    DELAY = 3
    ORDER = 4


class Pub(NamedTuple):
    """A message was sent; fields in order."""

    time_ms: int  # start of the send
    region: str
    group: str
    topic: str
    message_id: str
    tags: str | None
    keys: str | None  # separated by spaces
    store_host: str  # ip:port of the broker
    body_length: int  # bytes; ours before compression, Java's after it
    cost_ms: int
    message_type: MessageType
    offset_id: str | None
    success: bool  # stored as safely as the broker promises


class SubBefore(NamedTuple):
    """A message was delivered to a consumer; fields in order."""

    time_ms: int
    region: str
    group: str
    request_id: str  # shared by messages delivered together and their SubAfter
    message_id: str
    retry_times: int
    keys: str | None


class SubAfter(NamedTuple):
    """The consumption of a message ended; fields in order."""

    request_id: str
    message_id: str
    cost_ms: int  # average over the messages delivered together
    success: bool
    keys: str | None
    context_code: int  # RocketMQ's ConsumeReturnType, see `gantrymq.client.tracing.hooks.ConsumeOutcome`
    time_ms: int = 0  # not written by brokers' cloud services, nor by clients before 4.7
    group: str = ""


class EndTransaction(NamedTuple):
    """A transaction was decided; fields in order."""

    time_ms: int
    region: str
    group: str
    topic: str
    message_id: str
    tags: str | None
    keys: str | None
    store_host: str
    message_type: MessageType
    transaction_id: str | None
    state: str  # COMMIT_MESSAGE, ROLLBACK_MESSAGE, UNKNOW
    from_check: bool  # whether it answered a broker's check


TraceRecord = Pub | SubBefore | SubAfter | EndTransaction

_KINDS: Final[dict[str, type[TraceRecord]]] = {
    each.__name__: each for each in (Pub, SubBefore, SubAfter, EndTransaction)
}


def encode_trace(records: Iterable[TraceRecord]) -> str:
    """Return the body of a message of the trace topic, as text."""
    return "".join([_FIELD.join([type(record).__name__, *map(_text, record)]) + _RECORD for record in records])


def trace_keys(record: TraceRecord) -> Iterator[str]:
    """Yield the index keys for *record*: the id and the keys of the traced message."""
    yield record.message_id
    if record.keys:
        yield from record.keys.split()


def decode_trace(body: bytes) -> tuple[TraceRecord, ...]:
    """Decode the records in the body of a message of the trace topic, in order.

    Raises:
        AnswerUnreadable: not UTF-8, or a record of a known kind has too few fields or a malformed one.
    """
    try:
        text = body.decode()
    except UnicodeDecodeError as problem:
        raise AnswerUnreadable(f"the trace is not UTF-8 text: {problem}") from problem
    found: list[TraceRecord] = []
    for line in text.split(_RECORD):
        name, *fields = line.split(_FIELD)
        kind = _KINDS.get(name)
        if kind is not None:
            found.append(_read(kind, fields))
    return tuple(found)


def _read(kind: type[TraceRecord], fields: list[str]) -> TraceRecord:
    readers = _READERS[kind]
    if kind is Pub and len(fields) == 12:  # clients before 4.6 write no offset id
        fields = [*fields[:11], _NULL, fields[11]]
    needed = len(kind._fields) - len(kind._field_defaults)
    if len(fields) < needed:
        raise AnswerUnreadable(
            f"a {kind.__name__} record of a trace has {len(fields)} fields, expected {needed} and more"
        )
    try:
        return kind(*(read(field) for read, field in zip(readers, fields, strict=False)))
    except ValueError as problem:
        raise AnswerUnreadable(f"a {kind.__name__} record of a trace cannot be read: {problem}") from problem


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return _NULL
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value.value if isinstance(value, MessageType) else value)


def _no_null(text: str) -> str | None:
    return None if text in ("", _NULL) else text


def _number(text: str) -> int:
    number = int(text or "0")
    if not -(2**63) <= number < 2**63:
        raise ValueError("a number has more than 64 bits")
    return number


_BY_TYPE: Final[dict[Any, Callable[[str], Any]]] = {
    int: _number,
    str: str,
    str | None: _no_null,
    bool: lambda text: text.lower() == "true",
    MessageType: lambda text: MessageType(int(text)),
}
_READERS: Final = {kind: [_BY_TYPE[each] for each in get_type_hints(kind).values()] for kind in _KINDS.values()}
