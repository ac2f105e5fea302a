"""Headers of connected clients: heartbeats, leaving, member lists, and what a broker asks of a client.

Source: apache/rocketmq remoting/.../protocol/header/UnregisterClientRequestHeader.java, GetConsumerListByGroup*.java,
NotifyConsumerIdsChangedRequestHeader.java, ResetOffsetRequestHeader.java, GetConsumerStatusRequestHeader.java,
GetConsumerRunningInfoRequestHeader.java, ConsumeMessageDirectlyResultRequestHeader.java,
Get{Consumer,Producer}ConnectionListRequestHeader.java.
"""

from __future__ import annotations

import attrs

from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.headers.base import Int32, Int64, RequestHeader, header_of, named

__all__ = [
    "ConsumeMessageDirectlyRequest",
    "GetConsumerConnectionListRequest",
    "GetConsumerListByGroupRequest",
    "GetConsumerRunningInfoRequest",
    "GetConsumerStatusRequest",
    "GetProducerConnectionListRequest",
    "HeartBeatRequest",
    "NotifyConsumerIdsChangedRequest",
    "ResetOffsetRequest",
    "UnregisterClientRequest",
]


@header_of(RequestCode.HEART_BEAT)
class HeartBeatRequest(RequestHeader):
    """Nothing but the common fields; the body says who is there."""


@header_of(RequestCode.UNREGISTER_CLIENT)
class UnregisterClientRequest(RequestHeader):
    """A client leaves its groups."""

    client_id: str = attrs.field(metadata=named("clientID"))
    producer_group: str | None = None
    consumer_group: str | None = None


@header_of(RequestCode.GET_CONSUMER_LIST_BY_GROUP)
class GetConsumerListByGroupRequest(RequestHeader):
    """Who is in the group?"""

    consumer_group: str


@header_of(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED)
class NotifyConsumerIdsChangedRequest(RequestHeader):
    """Broker to consumer, oneway: the members changed, rebalance."""

    consumer_group: str


@header_of(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET)
class ResetOffsetRequest(RequestHeader):
    """Set a group's offsets by time; 220 from broker to consumer, 222 from a tool to the broker."""

    topic: str
    group: str
    timestamp: Int64  # ms, -1 the end
    is_force: bool = False
    queue_id: Int32 = -1
    offset: Int64 | None = None


@header_of(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS)
class GetConsumerStatusRequest(RequestHeader):
    """The offsets a client has in memory."""

    topic: str
    group: str
    client_addr: str | None = None  # a client id


@header_of(RequestCode.GET_CONSUMER_RUNNING_INFO)
class GetConsumerRunningInfoRequest(RequestHeader):
    """What is that client doing?"""

    consumer_group: str
    client_id: str
    jstack_enable: bool = False


@header_of(RequestCode.CONSUME_MESSAGE_DIRECTLY)
class ConsumeMessageDirectlyRequest(RequestHeader):
    """Let that client consume this message now."""

    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None  # offset id
    broker_name: str | None = None
    topic: str | None = None
    topic_sys_flag: Int32 | None = None
    group_sys_flag: Int32 | None = None


@header_of(RequestCode.GET_CONSUMER_CONNECTION_LIST)
class GetConsumerConnectionListRequest(RequestHeader):
    """Connections of a consumer group."""

    consumer_group: str


@header_of(RequestCode.GET_PRODUCER_CONNECTION_LIST)
class GetProducerConnectionListRequest(RequestHeader):
    """Connections of a producer group."""

    producer_group: str
