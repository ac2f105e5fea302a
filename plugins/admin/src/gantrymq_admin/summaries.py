"""Lists of groups, topics and connections by page, sorted and filtered at the broker.

Requests of GantryMQ's own (65023 to 65025), served by brokers with gantrymq-diagnosis. A broker computes a list at most
every few seconds; `computed_ms` of a page is the time of the list, `age_ms` how old it was when it was sent.

Who needs an order over several brokers asks each for one column of all rows, and then for the rows that are shown: sums
over brokers are in another order than the numbers of each.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import NoneType
from typing import Any, ClassVar, Final, Literal, Self, TypeAlias, TypeVar, cast

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
    "Summaries",
    "TopicColumn",
    "TopicOrder",
    "TopicSummaries",
    "TopicSummary",
    "summary_column",
    "summary_page",
    "version_name",
]

GROUP_SUMMARIES: Final = cast(RequestCode, 65023)
CONNECTION_SUMMARIES: Final = cast(RequestCode, 65024)
TOPIC_SUMMARIES: Final = cast(RequestCode, 65025)
MAX_ROWS: Final = 200
MAX_VALUES: Final = 5000  # of a column in one response
_FIRST_VERSION: Final = 212  # 4.0.0-SNAPSHOT
_LAST_VERSION: Final = 611  # 5.9.9

GroupOrder = Literal["behind", "late", "name"]
ConnectionOrder = Literal["name", "since", "heard"]
TopicOrder = Literal["name", "kept", "put", "got"]
GroupColumn = Literal["late", "behind", "members", "retries", "dead_letters", "rate"]
TopicColumn = Literal["type", "kept", "newest", "put", "got", "groups", "queues"]


def version_name(number: int) -> str:
    """Return the name of a version, such as ``5.3.3`` for 479; the number itself if it is none of RocketMQ 4 and 5.

    Source: apache/rocketmq common/.../MQVersion.java: from 4.0.0 on, ten patches of ten minor versions of each major
    version, each with a snapshot before it.
    """
    if not _FIRST_VERSION <= number <= _LAST_VERSION:
        return str(number)
    place, released = divmod(number - _FIRST_VERSION, 2)
    major, rest = divmod(place, 100)
    return f"{major + 4}.{rest // 10}.{rest % 10}" + ("" if released else "-SNAPSHOT")


@attrs.frozen
class Summary:
    """A row of a list at one broker."""

    @classmethod
    def parse(cls, found: Mapping[str, Any]) -> Self:
        """Return the row that a broker sent. Raises as `read`."""
        return read(cls, found)


@attrs.frozen
class Summaries:
    """A page of a list, without its rows."""

    code: ClassVar[RequestCode]
    member: ClassVar[str]  # name of the rows, here and in the response
    row: ClassVar[type[Summary]]

    broker: str  # its name
    computed_ms: int  # wall time of the broker
    age_ms: int  # of the list
    total: int  # rows that fit, on all pages


@attrs.frozen
class GroupSummary(Summary):
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
    read_by_others: bool = False  # whether it is behind, has no member, and clients that are none read within a minute

    @classmethod
    def parse(cls, found: Mapping[str, Any]) -> Self:
        """Return the row that a broker sent. Of older brokers, a lag of 0 with an unknown age is not known."""
        group = read(cls, found)
        known = found.get("behind_known", bool(group.behind) or group.late_ms is not None)
        return group if known else attrs.evolve(group, behind=None)

    @property
    def name(self) -> str:
        """The group."""
        return self.group

    @property
    def retries(self) -> int:
        """Messages that wait for another try or to be consumed again."""
        return self.retry_behind + self.retry_waiting


@attrs.frozen
class GroupSummaries(Summaries):
    """A page of groups."""

    code = GROUP_SUMMARIES
    member = "groups"
    row = GroupSummary

    retry_waiting_more: bool  # whether more messages may wait for another try than were counted
    groups: tuple[GroupSummary, ...]


@attrs.frozen
class ConnectionSummary(Summary):
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
    refused: str = ""  # why its last heartbeat was refused; empty if it was not, and from brokers before 0.4
    refused_groups: tuple[str, ...] = ()  # consumer groups of the refused heartbeat, at most 20

    @classmethod
    def parse(cls, found: Mapping[str, Any]) -> Self:
        """Return the row that a broker sent."""
        lists = {key: texts(found[key]) for key in ("producers", "consumers")}
        return read(cls, found, **lists, refused_groups=texts(found.get("refused_groups", [])))


@attrs.frozen
class ConnectionSummaries(Summaries):
    """A page of connections."""

    code = CONNECTION_SUMMARIES
    member = "connections"
    row = ConnectionSummary

    connections: tuple[ConnectionSummary, ...]


@attrs.frozen
class TopicSummary(Summary):
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

    @property
    def name(self) -> str:
        """The topic."""
        return self.topic


@attrs.frozen
class TopicSummaries(Summaries):
    """A page of topics."""

    code = TOPIC_SUMMARIES
    member = "topics"
    row = TopicSummary

    topics: tuple[TopicSummary, ...]


@attrs.frozen
class Column:
    """One value of each row at one broker, by name."""

    values: Mapping[str, Any]
    age_ms: int  # when the first one was sent


Order: TypeAlias = "GroupOrder | ConnectionOrder | TopicOrder"
Kind = TypeVar("Kind", bound=Summaries)


async def summary_page(
    admin: Admin,
    address: str,
    kind: type[Kind],
    *,
    order: Order | None = None,
    contains: str = "",
    start: int = 0,
    most: int = 50,
    system: bool = False,
    names: Collection[str] = (),
) -> Kind:
    """Return a page of the groups, connections or topics of one broker.

    Args:
        admin: started.
        address: ip:port of the broker.
        kind: the list.
        order: of groups by messages not consumed ("behind", the default), by the age of the oldest one ("late"), or by
            name; of connections by client id ("name", the default), newest connection first ("since"), or last
            heartbeat first ("heard"); of topics by name (the default), by messages kept, or by messages stored ("put")
            or delivered ("got") per second.
        contains: only rows with this text in their name, in any case; of connections in client id, address or a group.
        start: number of the first row, from 0.
        most: number of rows, up to MAX_ROWS.
        system: whether to include groups that belong to the broker; connections without a heartbeat, such as those of
            tools; retry topics, dead letter topics, and topics that belong to the broker.
        names: only these groups or topics; all if empty.

    Raises:
        RequestNotServed: it is a broker of RocketMQ, or lacks gantrymq-diagnosis.
        BrokerRefused: an argument is out of range (29), or the broker is stopping (14).
        AnswerUnreadable, ConnectFailed, ConnectionLost, CallTimeout: no usable response.
    """

    def page(found: Mapping[str, Any]) -> Kind:
        return read(kind, found, **{kind.member: tuple(map(kind.row.parse, found[kind.member]))})

    wanted: dict[str, Any] = {"contains": contains, "start": start, "most": most, "system": system}
    if order is not None:
        wanted["sort"] = order
    if names:
        wanted["names"] = list(names)
    what = f"{kind.member} of {address}"
    return await admin.request_parsed(address, kind.code, page, body=loose_json.dumps(wanted), what=what)


async def summary_column(
    admin: Admin, address: str, kind: type[Summaries], column: GroupColumn | TopicColumn
) -> Column:
    """Return one value of each group or topic at one broker, also of those that belong to the broker.

    Of groups "late" is `GroupSummary.late_ms`, "retries" the messages that wait for another try or to be consumed
    again, "rate" `consumed_per_s`; of topics "type" is `TopicSummary.message_type`, "queues" `read_queues`.

    Raises:
        as `summary_page`.
    """
    values: dict[str, Any] = {}
    age_ms, start, total, what = 0, 0, 1, f"{column} of {address}"
    while start < total:
        body = loose_json.dumps({"column": column, "start": start, "most": MAX_VALUES, "system": True})
        part, age, total = await admin.request_parsed(address, kind.code, _values, body=body, what=what)
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
