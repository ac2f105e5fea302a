"""Headers of connected clients: heartbeats, unregistration, group members, requests from broker to client.

Source: apache/rocketmq remoting/.../protocol/header/UnregisterClientRequestHeader.java, GetConsumerListByGroup*.java,
NotifyConsumerIdsChangedRequestHeader.java, ResetOffsetRequestHeader.java, GetConsumerStatusRequestHeader.java,
GetConsumerRunningInfoRequestHeader.java, ConsumeMessageDirectlyResultRequestHeader.java,
Get{Consumer,Producer}ConnectionListRequestHeader.java.
"""

from __future__ import annotations

from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.headers.base import Int32, Int64, RequestHeader, header_of, named


@header_of(RequestCode.HEART_BEAT)
class HeartBeatRequest(RequestHeader):
    """Heartbeat of a client; its groups are in the body."""


@header_of(RequestCode.UNREGISTER_CLIENT)
class UnregisterClientRequest(RequestHeader):
    """Remove a client from its groups."""

    client_id: str = named("clientID")
    producer_group: str | None = None
    consumer_group: str | None = None


@header_of(RequestCode.GET_CONSUMER_LIST_BY_GROUP)
class GetConsumerListByGroupRequest(RequestHeader):
    """Get the client ids of the members of a group."""

    consumer_group: str


@header_of(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED)
class NotifyConsumerIdsChangedRequest(RequestHeader):
    """Notify a consumer that the members of its group changed (oneway, from the broker)."""

    consumer_group: str


@header_of(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET)
class ResetOffsetRequest(RequestHeader):
    """Reset the offsets of a group by time: 220 from broker to consumer, 222 from a tool to the broker."""

    topic: str
    group: str
    timestamp: Int64  # ms, -1 for the end
    is_force: bool = False
    queue_id: Int32 = -1
    offset: Int64 | None = None


@header_of(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS)
class GetConsumerStatusRequest(RequestHeader):
    """Get the offsets that a client has in memory."""

    topic: str
    group: str
    client_addr: str | None = None  # a client id


@header_of(RequestCode.GET_CONSUMER_RUNNING_INFO)
class GetConsumerRunningInfoRequest(RequestHeader):
    """Get the running state of a client."""

    consumer_group: str
    client_id: str
    jstack_enable: bool = False


@header_of(RequestCode.CONSUME_MESSAGE_DIRECTLY)
class ConsumeMessageDirectlyRequest(RequestHeader):
    """Have one client consume a message now."""

    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None  # offset id
    broker_name: str | None = None
    topic: str | None = None
    topic_sys_flag: Int32 | None = None
    group_sys_flag: Int32 | None = None


@header_of(RequestCode.GET_CONSUMER_CONNECTION_LIST)
class GetConsumerConnectionListRequest(RequestHeader):
    """Get the connections of a consumer group."""

    consumer_group: str


@header_of(RequestCode.GET_PRODUCER_CONNECTION_LIST)
class GetProducerConnectionListRequest(RequestHeader):
    """Get the connections of a producer group."""

    producer_group: str
