"""Comparison of two answers to one request, member by member, ignoring times, ids and addresses.

The place of a difference is a path such as ``code``, ``ext.queueOffset``, ``json.topicConfigTable.T.perm`` or
``records.2.properties.TAGS``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from replay_run import Exchange

from gantrymq.formats.record import RecordView, iter_records
from gantrymq.loose_json import ObjectKey, loads
from gantrymq.remoting.codes import RequestCode, request_name
from gantrymq.remoting.command import Command
from gantrymq.remoting.headers.send import read_send_header

ABSENT = "(absent)"
STATUS_CODES = {
    0,
    19,
    20,
    21,
}  # the remark of these is a name that tools print; the remark of a refusal is compared by meaning only

# Members that hold a time, a counter of changes or a host; only their type is compared.
VARYING = {
    "TIMER_DEQUEUE_MS",
    "TIMER_ENQUEUE_MS",
    "clientAddr",
    "consumeTps",
    "counter",
    "indexLastUpdateTimestamp",
    "lastTimestamp",
    "lastUpdateTimestamp",
    "popTime",
    "remoteIP",
    "timestamp",
    "topicPutTps",
    "tps",
}
# The same among the runtime figures (28), where every value is a string.
VARYING_FIGURES = {
    "bootTimestamp",
    "brokerVersionDesc",
    "commitLogDirCapacity",
    "commitLogDiskRatio",
    "consumeQueueDiskRatio",
    "earliestMessageTimeStamp",
    "getFoundTps",
    "getMessageEntireTimeMax",
    "getMissTps",
    "getTotalTps",
    "getTransferredTps",
    "putLatency99",
    "putLatency999",
    "putMessageAverageSize",
    "putMessageDistributeTime",
    "putMessageEntireTimeMax",
    "putTps",
    "remainHowManyDataToFlush",
    "runtime",
}
RECORDS = {
    RequestCode.PULL_MESSAGE,
    RequestCode.LITE_PULL_MESSAGE,
    RequestCode.QUERY_MESSAGE,
    RequestCode.VIEW_MESSAGE_BY_ID,
    RequestCode.POP_MESSAGE,
}


class Difference(NamedTuple):
    """One difference between our answer and Java's."""

    scenario: str
    code: int  # of the request
    about: str  # topic or group that the request names
    path: str
    java: Any
    ours: Any

    def __str__(self) -> str:
        where = f"{self.scenario}: {request_name(self.code)} {self.about}: {self.path}"
        return f"{where}: Java {str(self.java)[:160]!r}, ours {str(self.ours)[:160]!r}"


def differences(scenario: str, exchange: Exchange) -> Iterator[Difference]:
    """Everything that differs in one exchange."""
    asked, java, ours = exchange.asked.command, exchange.java, exchange.ours
    found: Iterator[tuple[str, Any, Any]]
    if java is None or ours is None:
        found = iter(() if java is ours else [("answer", _shown(java), _shown(ours))])
    else:
        found = _of_answers(asked, java, ours)
    for path, theirs, own in found:
        yield Difference(scenario, asked.code, about(asked), path, theirs, own)


def about(asked: Command) -> str:
    """The topic or group of a request."""
    ext = asked.ext or {}
    if "b" in ext and "topic" not in ext:
        return read_send_header(asked).topic
    for name in ("topic", "consumerGroup", "group", "groupName", "producerGroup"):
        if name in ext:
            return ext[name]
    return ""


def _shown(answer: Command | None) -> str:
    return ABSENT if answer is None else f"{answer.code} {answer.remark or ''}".strip()


def _of_answers(asked: Command, java: Command, ours: Command) -> Iterator[tuple[str, Any, Any]]:
    if java.code != ours.code:
        yield "code", _shown(java), _shown(ours)
        return
    for name in ("flag", "serialize"):
        if getattr(java, name) != getattr(ours, name):
            yield name, getattr(java, name), getattr(ours, name)
    if java.code in STATUS_CODES and (java.remark or "") != (ours.remark or ""):
        yield "remark", java.remark, ours.remark
    if java.code not in STATUS_CODES and not ours.remark:
        yield "remark", java.remark, ours.remark
    yield from _of_values("ext", java.ext or {}, ours.ext or {})
    if asked.code in RECORDS:
        yield from _of_records(java.payload, ours.payload)
    elif java.payload.startswith(b"{") or ours.payload.startswith(b"{"):
        yield from _of_json(java.payload, ours.payload)
    elif java.payload != ours.payload:
        yield "body", java.payload[:80], ours.payload[:80]


def _of_json(java: bytes, ours: bytes) -> Iterator[tuple[str, Any, Any]]:
    if not java or not ours:
        yield "json", java[:80], ours[:80]
        return
    yield from _of_values("json", loads(java), loads(ours))


def _of_values(path: str, java: Any, ours: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(java, Mapping) and isinstance(ours, Mapping):
        for name in [*java, *(name for name in ours if name not in java)]:
            below = f"{path}.{_key(name)}"
            if name not in java or name not in ours:
                yield below, java.get(name, ABSENT), ours.get(name, ABSENT)
            elif (name in VARYING or name in VARYING_FIGURES) and type(java[name]) is type(ours[name]):
                continue
            else:
                yield from _of_values(below, java[name], ours[name])
    elif isinstance(java, list) and isinstance(ours, list) and len(java) == len(ours):
        for index, (theirs, own) in enumerate(zip(_sorted(java), _sorted(ours), strict=True)):
            yield from _of_values(f"{path}.{index}", theirs, own)
    elif type(java) is not type(ours) or java != ours:
        yield path, java, ours


def _key(name: Any) -> str:
    return ",".join(str(value) for value in name.values()) if isinstance(name, ObjectKey) else str(name)


def _sorted(values: list[Any]) -> list[Any]:
    """The lists in answers are sets in Java, written in hash order."""
    return sorted(
        values, key=lambda value: str(value.get("clientId", value)) if isinstance(value, dict) else str(value)
    )


def _of_records(java: bytes, ours: bytes) -> Iterator[tuple[str, Any, Any]]:
    theirs, own = list(iter_records(java)), list(iter_records(ours))
    if len(theirs) != len(own):
        yield "records", f"{len(theirs)} messages", f"{len(own)} messages"
        return
    for index, (one, other) in enumerate(zip(theirs, own, strict=True)):
        yield from _of_values(f"records.{index}", _members(one), _members(other))
        yield from _of_properties(f"records.{index}.properties", one, other)


def _of_properties(path: str, java: RecordView, ours: RecordView) -> Iterator[tuple[str, Any, Any]]:
    """Values; if the names are the same, also their order and number."""
    yield from _of_values(path, java.properties, ours.properties)
    theirs, own = (bytes(record.properties_bytes) for record in (java, ours))
    if java.properties.keys() == ours.properties.keys() and _names(theirs) != _names(own):
        yield path, theirs, own


def _names(text: bytes) -> list[bytes]:
    """The bytes before values, also for properties without a value, and whether the last one is terminated."""
    return [piece.partition(b"\x01")[0] for piece in text.split(b"\x02")]


def _members(record: RecordView) -> dict[str, Any]:
    """All fields of a record except its times and the born port, which is the recorder's."""
    return {
        "version": record.version,
        "topic": record.topic,
        "queue_id": record.queue_id,
        "queue_offset": record.queue_offset,
        "log_offset": record.log_offset,
        "flag": record.flag,
        "sys_flag": record.sys_flag,
        "body_crc": record.body_crc,
        "body": bytes(record.body),
        "born_timestamp": record.born_timestamp,
        "born_host": bytes(record.born_host[:-4]),
        "store_host": bytes(record.store_host),
        "reconsume_times": record.reconsume_times,
        "prepared_offset": record.prepared_offset,
    }
