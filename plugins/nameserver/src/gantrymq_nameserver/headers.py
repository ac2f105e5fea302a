"""Headers used by name servers only.

Source: apache/rocketmq remoting/.../protocol/header/namesrv/*.java, BrokerHeartbeatRequestHeader.java.
"""

from __future__ import annotations

from gantrymq.plugin.headers import Header, Int32, Int64, RequestHeader, header_of
from gantrymq.plugin.remoting import RequestCode


@header_of(RequestCode.REGISTER_BROKER)
class RegisterBrokerResponse(Header):
    """Where a slave finds its master."""

    ha_server_addr: str | None = None
    master_addr: str | None = None


@header_of(RequestCode.QUERY_DATA_VERSION)
class QueryDataVersionRequest(RequestHeader):
    """Query whether the name server has the broker's current topic version."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Int64


@header_of(RequestCode.QUERY_DATA_VERSION)
class QueryDataVersionResponse(Header):
    """Whether the broker has to register again."""

    changed: bool


@header_of(RequestCode.GET_BROKER_MEMBER_GROUP)
class GetBrokerMemberGroupRequest(RequestHeader):
    """Addresses of one broker name."""

    cluster_name: str
    broker_name: str


@header_of(RequestCode.BROKER_HEARTBEAT)
class BrokerHeartbeatRequest(RequestHeader):
    """Heartbeat of a broker. The misspelt name of the timeout is the protocol's."""

    cluster_name: str
    broker_addr: str
    broker_name: str
    broker_id: Int64 | None = None
    epoch: Int32 | None = None
    max_offset: Int64 | None = None
    confirm_offset: Int64 | None = None
    heartbeat_timeout_mills: Int64 | None = None
    election_priority: Int32 | None = None


@header_of(RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE)
class NotifyMinBrokerIdChangeRequest(RequestHeader):
    """Oneway request from name server to broker: the smallest broker id changed."""

    min_broker_id: Int64 | None = None
    broker_name: str | None = None
    min_broker_addr: str | None = None
    offline_broker_addr: str | None = None
    ha_broker_addr: str | None = None
