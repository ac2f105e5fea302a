"""Tables from the answers of a master to a snapshot that a slave installs. No I/O.

    21    {"dataVersion", "topicConfigTable", ...}            topics.json                21 and 201 in pages, if the
    201   {"dataVersion", "subscriptionGroupTable", ...}      subscriptionGroup.json     master makes pages
    43    {"dataVersion", "offsetTable", ...}                 consumerOffset.json
    45    delayOffset.json                                    delayOffset.json
    402   messageRequestMode.json                             messageRequestMode.json
    65035 users and permissions, if access is controlled      files of the authorizer   see `access_state`

Offsets are not ahead of the copied log: one beyond the end of its queue becomes that end. RocketMQ's slaves copy such
offsets as they are, and as masters skip the messages in between (apache/rocketmq issue 4771). The next round copies the
offset again.

A slave rebuilds its timers from the log when it becomes a master, so the master's checkpoint (60) and counts (61) are
not needed, and an own checkpoint is removed.

Source: apache/rocketmq broker/.../slave/SlaveSynchronize.java.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from gantrymq.errors import FormatError
from gantrymq.plugin.interfaces import TableSnapshot
from gantrymq.plugin.loose_json import dumps, loads
from gantrymq.plugin.model import Queue
from gantrymq.plugin.names import SCHEDULE_TOPIC
from gantrymq.plugin.world import TimeSlices

_NO_TIMER_CHECKPOINT: Final = "{}"

Members = dict[Any, Any]
_EndOf = Callable[[Queue], int]


@attrs.frozen
class PagedTable:
    """Names in the requests and answers of a table that is sent in pages."""

    table: str
    start: str
    most: str
    total: str


TOPICS: Final = PagedTable("topicConfigTable", "topicSeq", "maxTopicNum", "totalTopicNum")
GROUPS: Final = PagedTable("subscriptionGroupTable", "groupSeq", "maxGroupNum", "totalGroupNum")


@attrs.define
class MasterTables:
    """The answers of a master. Bodies that it refused, because it has no such table, are None."""

    topics: Members
    groups: Members
    offsets: Members
    delays: Members | None
    modes: Members | None
    access: Mapping[str, str] | None = None  # None: unknown, or unchanged


def members_of(body: bytes, what: str, owner: str = "master") -> Members:
    """Return the members of an answer's body, *what* of *owner*. Raises FormatError."""
    try:
        found = loads(body)
    except (FormatError, ValueError) as error:
        raise FormatError(f"the {owner}'s {what} are not JSON: {error}") from error
    if not isinstance(found, dict):
        raise FormatError(f"the {owner}'s {what} are not a JSON object")
    return found


def snapshot_of(tables: MasterTables) -> TableSnapshot:
    """Return the snapshot to install; may take long with thousands of topics."""
    texts = {
        "topics.json": tables.topics,
        "subscriptionGroup.json": tables.groups,
        "consumerOffset.json": {key: value for key, value in tables.offsets.items() if key != "groupTopicMap"},
        "delayOffset.json": tables.delays,
        "messageRequestMode.json": tables.modes,
    }
    found = {name: dumps(members).decode() for name, members in texts.items() if members is not None}
    return TableSnapshot({**found, "timercheck": _NO_TIMER_CHECKPOINT}, tables.access)


def snapshot_of_configs(topics: Members, groups: Members, access: Mapping[str, str] | None = None) -> TableSnapshot:
    """Return a snapshot of topics, groups and users only, quickly: a sender may wait. All keys are texts."""
    return TableSnapshot({"topics.json": json.dumps(topics), "subscriptionGroup.json": json.dumps(groups)}, access)


def is_newer(tables: MasterTables, group: str, queue: Queue, offset: int) -> bool:
    """Return whether *offset* is beyond the offset that the master has for *group* in *queue*.

    Raises:
        FormatError: an offset table is none.
    """
    try:
        of_topic = offset_table(tables.offsets, "consumer offsets").get(f"{queue.topic}@{group}") or {}
        return offset > int(of_topic.get(queue.queue_id, of_topic.get(str(queue.queue_id), -1)))
    except (AttributeError, TypeError, ValueError) as error:
        raise FormatError(f"the master's offsets of {group} are no table of numbers: {error}") from error


def add_offset(tables: MasterTables, group: str, queue: Queue, offset: int) -> None:
    """Note that the master has this offset now."""
    table = tables.offsets.setdefault("offsetTable", {})
    of_topic = table.setdefault(f"{queue.topic}@{group}", {})
    of_topic.pop(str(queue.queue_id), None)
    of_topic[queue.queue_id] = offset


async def limit_offsets(tables: MasterTables, end_of: _EndOf, slices: TimeSlices) -> int:
    """Replace offsets beyond ``end_of(queue)``, the next offset of the queue here, by that end. Return their number.

    Raises:
        FormatError: an offset table is none.
    """
    count = 0
    for key, offsets in offset_table(tables.offsets, "consumer offsets").items():
        count += _limit(offsets, end_of, str(key).partition("@")[0], f"offsets of {key}")
        await slices.item_done()
    if tables.delays is not None:
        levels = offset_table(tables.delays, "delay offsets")
        count += _limit(levels, end_of, SCHEDULE_TOPIC, "delay offsets", first=1)
    return count


def offset_table(members: Members, what: str, owner: str = "master") -> Members:
    """Return the table of offsets in an answer, *what* of *owner*. Raises FormatError."""
    found = members.get("offsetTable") or {}
    if not isinstance(found, dict):
        raise FormatError(f"the {owner}'s {what} are not a table")
    return found


def _limit(offsets: Any, end_of: _EndOf, topic: str, what: str, first: int = 0) -> int:
    """Limit the *offsets* of a topic by queue id; *first* is the number of queue 0."""
    count = 0
    try:
        for number, offset in offsets.items():
            end = end_of(Queue(topic, int(number) - first))
            if int(offset) > end:
                offsets[number] = end
                count += 1
    except (AttributeError, TypeError, ValueError) as error:
        raise FormatError(f"the master's {what} are no table of numbers: {error}") from error
    return count
