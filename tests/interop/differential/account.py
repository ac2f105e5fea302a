"""The results of a run as lines: records by queue, received messages, created topics, offsets of groups."""

from collections import defaultdict
from typing import Any

from harness.process import Event

from differential.normal import TRACE, WHILE_PULLING, Normal
from differential.side import Side
from differential.stored import Stored, read_log, with_entries
from gantrymq.model.properties import decode_text

COST_AT = {"Pub": 10, "SubAfter": 3}  # of the words of a trace, what took how long
REQUEST_AT = {"SubBefore": 4, "SubAfter": 1}  # an id that the client makes for a batch
NOT_COMPARED = {"msgId", "offsetMsgId", "handle", "id", "bodySha256", "index", "event", "message"}  # and sentences
EVENTS = ("received", "asked", "answer", "answered", "error", "sent")


def account(side: Side) -> list[str]:
    """Return the lines of a run that has just ended."""
    log = read_log(side.store)
    normal = Normal(log, side.start)
    records = with_entries(side.store, [record for record in log if record.log_offset >= side.start])
    by_place: dict[tuple[str, int], list[str]] = defaultdict(list)
    for stored in records:
        if stored.record.topic == TRACE:
            by_place[TRACE, 0] = sorted(by_place[TRACE, 0] + _traces(normal, stored))
        else:
            by_place[stored.place].append(_record(normal, stored))
    lines = [line for place in sorted(by_place) for line in by_place[place]]
    told = [_event(normal, event) for event in side.events if event["event"] in EVENTS]
    topics = [f"topic {name}: {_settings(row)}" for name, row in sorted(side.topics().items())]
    offsets = [
        f"offset {group} {topic}/{queue_id}: {normal.queue_offset(topic, queue_id, offset)}"
        for (topic, group, queue_id), offset in sorted(side.moved().items())
    ]
    return lines + sorted(told) + topics + offsets


def _settings(row: dict[str, Any]) -> str:
    return " ".join(f"{key}={value}" for key, value in sorted(row.items()) if key != "topicName")


def _record(normal: Normal, stored: Stored) -> str:
    record = stored.record
    properties = decode_text(bytes(record.properties_bytes).decode())
    words = [
        f"{record.topic}/{record.queue_id}/{normal.queue_offset(*stored.place, record.queue_offset)}",
        normal.body(record),
        f"flag={record.flag} sysFlag={record.sys_flag} magic={record.magic & 0xFF:x} tries={record.reconsume_times}",
        f"prepared={normal.place(record.prepared_offset)}",
        f"tagsCode={normal.tags_code(stored)}",
        *(f"{name}={normal.property(name, value)}" for name, value in properties.items()),
    ]
    return " | ".join(words)


def _traces(normal: Normal, stored: Stored) -> list[str]:
    """Return a line for each traced event: the client combines pending events, and chooses any queue."""
    found = []
    for told in bytes(stored.record.body).decode().split("\x02"):
        words = told.split("\x01")
        if words[0] in COST_AT:
            words[COST_AT[words[0]]] = "COST"
        if words[0].startswith("Sub"):
            words[REQUEST_AT[words[0]]] = "REQUEST"
        found.append(f"{TRACE} | {normal.text(' '.join(words))} | sysFlag={stored.record.sys_flag}")
    return [line for line in found if not line.startswith(f"{TRACE} |  |")]


def _event(normal: Normal, event: Event) -> str:
    place = event.get("topic"), event.get("queueId")
    words = [str(event["event"])]
    for name, value in event.items():
        if name == "queueOffset" and place[1] is not None:
            value = normal.queue_offset(str(place[0]), int(place[1]), int(value))
        elif name in NOT_COMPARED:
            continue
        elif name == "properties":
            value = {key: normal.property(key, value[key]) for key in sorted(value) if key not in WHILE_PULLING}
        elif isinstance(value, str):
            value = normal.text(value)
        words.append(f"{name}={value}")
    return " ".join(words)
