"""Lists of groups, topics and connections by page, sorted and filtered at the broker.

Requests of GantryMQ's own (65023 to 65025), served by brokers with gantrymq-diagnosis. A broker computes a list at most
every few seconds; `computed_ms` of a page is the time of the list, `age_ms` how old it was when it was sent.

Who needs an order over several brokers asks each for one column of all rows, and then for the rows that are shown: sums
over brokers are in another order than the numbers of each.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from types import NoneType
from typing import Any, Final, Literal, cast

import attrs

from gantrymq.client import Admin
from gantrymq.plugin import loose_json
from gantrymq.plugin.remoting import RequestCode
from gantrymq_admin.asking import read, texts

__all__ = [
    "MAX_ROWS",
    "Column",
    "ConnectionOrder",
    "ConnectionSummaries",
    "ConnectionSummary",
    "GroupColumn",
    "GroupOrder",
    "GroupSummaries",
    "GroupSummary",
    "TopicColumn",
    "TopicOrder",
    "TopicSummaries",
    "TopicSummary",
    "connection_summaries",
    "group_column",
    "group_summaries",
    "topic_column",
    "topic_summaries",
]

GROUP_SUMMARIES: Final = cast(RequestCode, 65023)
CONNECTION_SUMMARIES: Final = cast(RequestCode, 65024)
TOPIC_SUMMARIES: Final = cast(RequestCode, 65025)
MAX_ROWS: Final = 200
MAX_VALUES: Final = 5000  # of a column in one response

GroupOrder = Literal["behind", "late", "name"]
ConnectionOrder = Literal["name", "since", "heard"]
TopicOrder = Literal["name", "kept", "put", "got"]
GroupColumn = Literal["late", "behind", "members", "retries", "dead_letters", "rate"]
TopicColumn = Literal["type", "kept", "newest", "put", "got", "groups", "queues"]


@attrs.frozen
class Page:
    """A page of a list, without its rows."""

    broker: str  # its name
    computed_ms: int  # wall time of the broker
    age_ms: int  # of the list
    total: int  # rows that fit, on all pages


@attrs.frozen
class GroupSummary:
    """A consumer group at one broker."""

    group: str
    system: bool  # whether it belongs to the broker
    consume_enable: bool
    members: int
    model: str | None  # CLUSTERING, BROADCASTING or POP; None: no member is online
    behind: int | None  # messages not consumed yet, without retry topics
    # None: not known, because members broadcast, or the group is offline, without offsets, and may broadcast.
    late_ms: int | None  # age of the oldest one, 0 without one; None: not known
    retry_behind: int  # messages on retry topics, not consumed yet
    retry_waiting: int  # messages that wait for another try
    dead_letters: int
    consumed_per_s: float  # messages delivered, over the last minute
    deleted: int = 0  # messages that were deleted before the group consumed them

    @property
    def retries(self) -> int:
        """Messages that wait for another try or to be consumed again."""
        return self.retry_behind + self.retry_waiting


@attrs.frozen
class GroupSummaries(Page):
    """A page of groups."""

    retry_waiting_more: bool  # whether more messages may wait for another try than were counted
    groups: tuple[GroupSummary, ...]


@attrs.frozen
class ConnectionSummary:
    """A connection of a client to one broker; without a heartbeat, the fields from heartbeats are empty or 0."""

    client_id: str
    address: str  # of the client, host:port
    language: str  # RocketMQ's name for it
    version: int  # protocol version of the client
    listener: str  # name of the broker's listener that accepted it
    encrypted: bool  # whether it uses TLS
    certificate: str  # subject of its verified certificate; empty without one
    user: str  # empty without access control
    since_ms: int  # wall time of its first request
    heard_ms: int  # wall time of its last heartbeat
    producers: tuple[str, ...]  # groups, at most 20
    consumers: tuple[str, ...]
    more_groups: int  # that are left out


@attrs.frozen
class ConnectionSummaries(Page):
    """A page of connections."""

    connections: tuple[ConnectionSummary, ...]


@attrs.frozen
class TopicSummary:
    """A topic at one broker; sums are over its queues."""

    topic: str
    kind: str  # normal, retry, dead_letter or system
    message_type: str  # attribute message.type; empty without it
    perm: int  # 4 to read, 2 to write, 6 for both
    read_queues: int
    write_queues: int
    min_sum: int  # of minimum queue offsets
    max_sum: int  # of maximum queue offsets
    kept: int  # messages: the difference
    put_per_s: float  # messages stored, over the last minute
    got_per_s: float  # messages delivered to all groups, over the last minute
    groups: int  # with committed offsets
    newest_ms: int | None  # store time of the newest message; None: there is none, or it cannot be read


@attrs.frozen
class TopicSummaries(Page):
    """A page of topics."""

    topics: tuple[TopicSummary, ...]


@attrs.frozen
class Column:
    """One value of each row at one broker, by name."""

    values: Mapping[str, Any]
    age_ms: int  # when the first one was sent


async def group_summaries(
    admin: Admin,
    address: str,
    *,
    order: GroupOrder = "behind",
    contains: str = "",
    start: int = 0,
    most: int = 50,
    system: bool = False,
    names: Collection[str] = (),
) -> GroupSummaries:
    """Return a page of the groups of one broker.

    Args:
        admin: started.
        address: ip:port of the broker.
        order: by messages not consumed, by the age of the oldest one, or by name.
        contains: only groups with this text in their name, in any case.
        start: number of the first group, from 0.
        most: number of groups, up to MAX_ROWS.
        system: whether to include groups that belong to the broker.
        names: only these groups; all if empty.

    Raises:
        RequestNotServed: it is a broker of RocketMQ, or lacks gantrymq-diagnosis.
        BrokerRefused: an argument is out of range (29), or the broker is stopping (14).
        AnswerUnreadable, ConnectFailed, ConnectionLost, CallTimeout: no usable response.
    """
    body = _body(order, contains, start, most, system, names)
    return await admin.request_parsed(address, GROUP_SUMMARIES, _groups, body=body, what=f"groups of {address}")


async def connection_summaries(
    admin: Admin,
    address: str,
    *,
    order: ConnectionOrder = "name",
    contains: str = "",
    start: int = 0,
    most: int = 50,
    system: bool = False,
) -> ConnectionSummaries:
    """Return a page of the connections of one broker.

    Args:
        admin: started.
        address: ip:port of the broker.
        order: by client id, newest connection first, or last heartbeat first.
        contains: only connections with this text in client id, address or a group, in any case.
        start: number of the first connection, from 0.
        most: number of connections, up to MAX_ROWS.
        system: whether to include connections without a heartbeat, such as those of tools.

    Raises:
        as `group_summaries`.
    """
    body, what = _body(order, contains, start, most, system), f"connections of {address}"
    return await admin.request_parsed(address, CONNECTION_SUMMARIES, _connections, body=body, what=what)


async def topic_summaries(
    admin: Admin,
    address: str,
    *,
    order: TopicOrder = "name",
    contains: str = "",
    start: int = 0,
    most: int = 50,
    system: bool = False,
    names: Collection[str] = (),
) -> TopicSummaries:
    """Return a page of the topics of one broker.

    Args:
        admin: started.
        address: ip:port of the broker.
        order: by name, by messages kept, or by messages stored or delivered per second.
        contains: only topics with this text in their name, in any case.
        start: number of the first topic, from 0.
        most: number of topics, up to MAX_ROWS.
        system: whether to include retry topics, dead letter topics, and topics that belong to the broker.
        names: only these topics; all if empty.

    Raises:
        as `group_summaries`.
    """
    body = _body(order, contains, start, most, system, names)
    return await admin.request_parsed(address, TOPIC_SUMMARIES, _topics, body=body, what=f"topics of {address}")


async def group_column(admin: Admin, address: str, column: GroupColumn) -> Column:
    """Return one value of each group at one broker, also of those that belong to the broker.

    "late" is `GroupSummary.late_ms`, "retries" the messages that wait for another try or to be consumed again, "rate"
    `consumed_per_s`. Raises as `group_summaries`.
    """
    return await _column(admin, address, GROUP_SUMMARIES, column)


async def topic_column(admin: Admin, address: str, column: TopicColumn) -> Column:
    """Return one value of each topic at one broker, of all kinds.

    "type" is `TopicSummary.message_type`, "queues" `read_queues`. Raises as `group_summaries`.
    """
    return await _column(admin, address, TOPIC_SUMMARIES, column)


async def _column(admin: Admin, address: str, code: RequestCode, column: str) -> Column:
    values: dict[str, Any] = {}
    age_ms, start, total = 0, 0, 1
    while start < total:
        body = loose_json.dumps({"column": column, "start": start, "most": MAX_VALUES, "system": True})
        part, age, total = await admin.request_parsed(address, code, _values, body=body, what=f"{column} of {address}")
        values |= part
        age_ms, start = max(age_ms, age), start + MAX_VALUES
    return Column(values, age_ms)


def _values(found: Mapping[str, Any]) -> tuple[dict[str, Any], int, int]:
    names, values = found["names"], found["values"]
    if not all(isinstance(each, str) for each in names):
        raise TypeError("a name is not a string")
    if not all(isinstance(each, int | float | str | NoneType) for each in values):
        raise TypeError("a value is neither a number nor a text")
    return dict(zip(names, values, strict=True)), int(found["age_ms"]), int(found["total"])


def _body(order: str, contains: str, start: int, most: int, system: bool, names: Collection[str] = ()) -> bytes:
    wanted = {"sort": order, "contains": contains, "start": start, "most": most, "system": system}
    return loose_json.dumps({**wanted, "names": list(names)} if names else wanted)


def _groups(found: Mapping[str, Any]) -> GroupSummaries:
    return read(GroupSummaries, found, groups=tuple(map(_group, found["groups"])))


def _group(found: Mapping[str, Any]) -> GroupSummary:
    """Return a group. Of older brokers, a lag of 0 with an unknown age is not known."""
    group = read(GroupSummary, found)
    known = found.get("behind_known", bool(group.behind) or group.late_ms is not None)
    return group if known else attrs.evolve(group, behind=None)


def _connections(found: Mapping[str, Any]) -> ConnectionSummaries:
    rows = (
        read(ConnectionSummary, each, producers=texts(each["producers"]), consumers=texts(each["consumers"]))
        for each in found["connections"]
    )
    return read(ConnectionSummaries, found, connections=tuple(rows))


def _topics(found: Mapping[str, Any]) -> TopicSummaries:
    return read(TopicSummaries, found, topics=tuple(map(partial(read, TopicSummary), found["topics"])))
