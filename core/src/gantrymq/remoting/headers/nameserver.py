"""Headers of requests from brokers and clients to a name server, and of its responses.

Source: apache/rocketmq remoting/.../protocol/header/namesrv/*.java, GetTopicsByClusterRequestHeader.java.
"""

from __future__ import annotations

from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.headers.base import Header, Int32, Int64, RequestHeader, header_of, named


@header_of(RequestCode.REGISTER_BROKER)
class RegisterBrokerRequest(RequestHeader):
    """Register a broker and its topics (in the body)."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    ha_server_addr: str
    broker_id: Int64  # 0 is the master
    heartbeat_timeout_millis: Int64 | None = None
    enable_acting_master: bool | None = None  # 4.9.7 does not send it
    compressed: bool = False
    body_crc32: Int32 = 0  # 0 disables the check
    zone_name: str | None = named("__ZONE_NAME", default=None)
    listener_addrs: str | None = None  # NAME=HOST:PORT,...: GantryMQ's own, other name servers ignore it


@header_of(RequestCode.UNREGISTER_BROKER)
class UnregisterBrokerRequest(RequestHeader):
    """Unregister a broker."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Int64


@header_of(RequestCode.GET_ROUTEINFO_BY_TOPIC)
class GetRouteinfoByTopicRequest(RequestHeader):
    """Get the route of a topic."""

    topic: str
    accept_standard_json_only: bool | None = None
    with_details: bool | None = None  # listenerAddrs and attributes: GantryMQ's own, other name servers ignore it


@header_of(RequestCode.DELETE_TOPIC_IN_NAMESRV)
class DeleteTopicInNamesrvRequest(RequestHeader):
    """Delete a topic, or its queues in one cluster."""

    topic: str
    cluster_name: str | None = None


@header_of(RequestCode.REGISTER_TOPIC_IN_NAMESRV)
class RegisterTopicInNamesrvRequest(RequestHeader):
    """Register the queues of a topic. The client ali-ons sends this code with its old meaning and no topic."""

    topic: str


@header_of(RequestCode.PUT_KV_CONFIG)
class PutKvConfigRequest(RequestHeader):
    """Set a value of the key-value table."""

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


@header_of(RequestCode.WIPE_WRITE_PERM_OF_BROKER, RequestCode.ADD_WRITE_PERM_OF_BROKER)
class WritePermOfBrokerRequest(RequestHeader):
    """Remove or add the write permission of all queues of a broker."""

    broker_name: str


@header_of(RequestCode.WIPE_WRITE_PERM_OF_BROKER)
class WipeWritePermOfBrokerResponse(Header):
    """The number of changed topics."""

    wipe_topic_count: Int32


@header_of(RequestCode.ADD_WRITE_PERM_OF_BROKER)
class AddWritePermOfBrokerResponse(Header):
    """The number of changed topics."""

    add_topic_count: Int32


@header_of(RequestCode.GET_TOPICS_BY_CLUSTER)
class GetTopicsByClusterRequest(RequestHeader):
    """Topics of a cluster."""

    cluster: str
