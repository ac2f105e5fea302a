"""Headers that only administration sends: of name servers' key-value table, write permission and topics of a cluster.

Source: apache/rocketmq remoting/.../protocol/header/namesrv/*.java.
"""

from __future__ import annotations

from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.headers.base import Header, Int32, Int64, RequestHeader, header_of

__all__ = [
    "AddWritePermResponse",
    "EarliestStoreTimeResponse",
    "KvListRequest",
    "KvRequest",
    "KvResponse",
    "PutKvRequest",
    "TopicsOfClusterRequest",
    "WipeWritePermResponse",
    "WritePermRequest",
]


@header_of(RequestCode.PUT_KV_CONFIG)
class PutKvRequest(RequestHeader):
    """Set a value."""

    namespace: str
    key: str
    value: str


@header_of(RequestCode.GET_KV_CONFIG, RequestCode.DELETE_KV_CONFIG)
class KvRequest(RequestHeader):
    """Get or delete a value."""

    namespace: str
    key: str


@header_of(RequestCode.GET_KV_CONFIG)
class KvResponse(Header):
    """The value."""

    value: str | None = None


@header_of(RequestCode.GET_KVLIST_BY_NAMESPACE)
class KvListRequest(RequestHeader):
    """All values of a namespace."""

    namespace: str


@header_of(RequestCode.WIPE_WRITE_PERM_OF_BROKER, RequestCode.ADD_WRITE_PERM_OF_BROKER)
class WritePermRequest(RequestHeader):
    """Take the write permission from, or give it to, all queues of a broker."""

    broker_name: str


@header_of(RequestCode.WIPE_WRITE_PERM_OF_BROKER)
class WipeWritePermResponse(Header):
    """How many topics changed."""

    wipe_topic_count: Int32


@header_of(RequestCode.ADD_WRITE_PERM_OF_BROKER)
class AddWritePermResponse(Header):
    """How many topics changed."""

    add_topic_count: Int32


@header_of(RequestCode.GET_TOPICS_BY_CLUSTER)
class TopicsOfClusterRequest(RequestHeader):
    """Topics of a cluster."""

    cluster: str


@header_of(RequestCode.GET_EARLIEST_MSG_STORETIME)
class EarliestStoreTimeResponse(Header):
    """When the oldest message of a queue was stored; -1 without one."""

    timestamp: Int64
