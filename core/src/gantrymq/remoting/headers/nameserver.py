"""Headers of requests from brokers and clients to a name server.

Source: apache/rocketmq remoting/.../protocol/header/namesrv/*.java.
"""

from __future__ import annotations

import attrs

from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.headers.base import Int32, Int64, RequestHeader, header_of, named

__all__ = [
    "DeleteTopicInNamesrvRequest",
    "GetRouteinfoByTopicRequest",
    "RegisterBrokerRequest",
    "RegisterTopicInNamesrvRequest",
    "UnregisterBrokerRequest",
]


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
    zone_name: str | None = attrs.field(default=None, metadata=named("__ZONE_NAME"))
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


@header_of(RequestCode.DELETE_TOPIC_IN_NAMESRV)
class DeleteTopicInNamesrvRequest(RequestHeader):
    """Delete a topic, or its queues in one cluster."""

    topic: str
    cluster_name: str | None = None


@header_of(RequestCode.REGISTER_TOPIC_IN_NAMESRV)
class RegisterTopicInNamesrvRequest(RequestHeader):
    """Register the queues of a topic. The client ali-ons sends this code with its old meaning and no topic."""

    topic: str
