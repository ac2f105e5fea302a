"""What a broker asks or tells its clients, independent of the protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import attrs

from gantrymq.model.queue import MessageQueue


@attrs.define
class OffsetReset:
    """New offsets for the members of a group, which use and commit them."""

    topic: str
    group: str
    timestamp: int  # ms, -1 for the end
    force: bool  # False: offsets are only lowered
    offsets: Mapping[MessageQueue, int]
    as_list: bool = False  # the form of C++ clients
    encoded: bytes | None = None  # set by the first channel, for the others of its kind


class TransactionCheck(NamedTuple):
    """A question for the state of an undecided transaction; the answer names the producer group and both offsets."""

    topic: str  # of the message, where it goes if it is committed
    producer_group: str  # the only one that may decide
    half_topic: str  # the broker's own topic that stores the message until then
    half_queue_offset: int  # in the half topic
    half_log_offset: int
    transaction_id: str
    offset_id: str
    broker_name: str
    record: bytes  # the message as it would be stored if it is committed


class PushedReply(NamedTuple):
    """The reply to a request of a producer."""

    group: str
    topic: str
    default_topic: str
    default_topic_queues: int
    queue_id: int
    sys_flag: int
    flag: int
    born_timestamp: int
    properties: str
    reconsume_times: int
    unit_mode: bool
    body: bytes | memoryview
    born_host: bytes  # packed, see model.hosts
    store_host: bytes
    store_timestamp: int


class DirectConsumption(NamedTuple):
    """A message that one member shall consume now."""

    group: str
    client_id: str
    record: bytes | memoryview | None
    broker_name: str
    topic_sys_flag: int | None = None
    group_sys_flag: int | None = None


class LiteUnsubscription(NamedTuple):
    """News for a consumer of lite topics that it is unsubscribed from one: another consumer has it now."""

    group: str
    client_id: str
    topic: str  # the parent topic
    lite_topic: str


class ClientAnswer(NamedTuple):
    """The answer of a client."""

    code: int  # 0: success
    remark: str | None
    fields: Mapping[str, str] | None
    body: bytes | memoryview | None  # JSON
