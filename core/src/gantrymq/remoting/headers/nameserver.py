"""Headers of the name server's requests.

Source: apache/rocketmq remoting/.../protocol/header/namesrv/*.java, GetTopicsByClusterRequestHeader.java,
BrokerHeartbeatRequestHeader.java.
"""

from __future__ import annotations

import attrs

from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.headers.base import Header, Int32, Int64, RequestHeader, header_of, named

__all__ = [
    "AddWritePermOfBrokerResponse",
    "BrokerHeartbeatRequest",
    "DeleteTopicInNamesrvRequest",
    "GetBrokerMemberGroupRequest",
    "GetKvConfigResponse",
    "GetKvlistByNamespaceRequest",
    "GetRouteinfoByTopicRequest",
    "GetTopicsByClusterRequest",
    "KvConfigRequest",
    "NotifyMinBrokerIdChangeRequest",
    "PutKvConfigRequest",
    "QueryDataVersionRequest",
    "QueryDataVersionResponse",
    "RegisterBrokerRequest",
    "RegisterBrokerResponse",
    "RegisterTopicInNamesrvRequest",
    "UnregisterBrokerRequest",
    "WipeWritePermOfBrokerResponse",
    "WritePermOfBrokerRequest",
]


@header_of(RequestCode.PUT_KV_CONFIG)
class PutKvConfigRequest(RequestHeader):
    """Set a value."""

    namespace: str
    key: str
    value: str


@header_of(RequestCode.GET_KV_CONFIG, RequestCode.DELETE_KV_CONFIG)
class KvConfigRequest(RequestHeader):
    """Get or delete a value."""

    namespace: str
    key: str


@header_of(RequestCode.GET_KV_CONFIG)
class GetKvConfigResponse(Header):
    """The value."""

    value: str | None = None


@header_of(RequestCode.GET_KVLIST_BY_NAMESPACE)
class GetKvlistByNamespaceRequest(RequestHeader):
    """All values of a namespace."""

    namespace: str


@header_of(RequestCode.REGISTER_BROKER)
class RegisterBrokerRequest(RequestHeader):
    """A broker and its topics (in the body)."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    ha_server_addr: str
    broker_id: Int64  # 0 is the master
    heartbeat_timeout_millis: Int64 | None = None
    enable_acting_master: bool | None = None  # 4.9.7 does not send it
    compressed: bool = False
    body_crc32: Int32 = 0  # 0 switches the check off
    zone_name: str | None = attrs.field(default=None, metadata=named("__ZONE_NAME"))


@header_of(RequestCode.REGISTER_BROKER)
class RegisterBrokerResponse(Header):
    """Where a slave finds its master."""

    ha_server_addr: str | None = None
    master_addr: str | None = None


@header_of(RequestCode.UNREGISTER_BROKER)
class UnregisterBrokerRequest(RequestHeader):
    """A broker leaves."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Int64


@header_of(RequestCode.GET_ROUTEINFO_BY_TOPIC)
class GetRouteinfoByTopicRequest(RequestHeader):
    """Where is this topic?"""

    topic: str
    accept_standard_json_only: bool | None = None


@header_of(RequestCode.WIPE_WRITE_PERM_OF_BROKER, RequestCode.ADD_WRITE_PERM_OF_BROKER)
class WritePermOfBrokerRequest(RequestHeader):
    """Take the write permission from, or give it to, all queues of a broker."""

    broker_name: str


@header_of(RequestCode.WIPE_WRITE_PERM_OF_BROKER)
class WipeWritePermOfBrokerResponse(Header):
    """How many topics changed."""

    wipe_topic_count: Int32


@header_of(RequestCode.ADD_WRITE_PERM_OF_BROKER)
class AddWritePermOfBrokerResponse(Header):
    """How many topics changed."""

    add_topic_count: Int32


@header_of(RequestCode.DELETE_TOPIC_IN_NAMESRV)
class DeleteTopicInNamesrvRequest(RequestHeader):
    """Forget a topic, or its queues in one cluster."""

    topic: str
    cluster_name: str | None = None


@header_of(RequestCode.REGISTER_TOPIC_IN_NAMESRV)
class RegisterTopicInNamesrvRequest(RequestHeader):
    """Make a topic's queues known. ali-ons sends this code with its old meaning and no topic."""

    topic: str


@header_of(RequestCode.GET_TOPICS_BY_CLUSTER)
class GetTopicsByClusterRequest(RequestHeader):
    """Topics of a cluster."""

    cluster: str


@header_of(RequestCode.QUERY_DATA_VERSION)
class QueryDataVersionRequest(RequestHeader):
    """Do you have this version of my topics?"""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Int64


@header_of(RequestCode.QUERY_DATA_VERSION)
class QueryDataVersionResponse(Header):
    """Whether a registration is due."""

    changed: bool


@header_of(RequestCode.GET_BROKER_MEMBER_GROUP)
class GetBrokerMemberGroupRequest(RequestHeader):
    """Addresses behind one broker name."""

    cluster_name: str
    broker_name: str


@header_of(RequestCode.BROKER_HEARTBEAT)
class BrokerHeartbeatRequest(RequestHeader):
    """I am alive. The spelling of the time-out is the protocol's."""

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
    """Name server to broker, oneway."""

    min_broker_id: Int64 | None = None
    broker_name: str | None = None
    min_broker_addr: str | None = None
    offline_broker_addr: str | None = None
    ha_broker_addr: str | None = None
