"""Headers used by administration only: key-value table of name servers, write permission, topics of a cluster.

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
    """Remove or restore the write permission of all queues of a broker."""

    broker_name: str


@header_of(RequestCode.WIPE_WRITE_PERM_OF_BROKER)
class WipeWritePermResponse(Header):
    """The number of changed topics."""

    wipe_topic_count: Int32


@header_of(RequestCode.ADD_WRITE_PERM_OF_BROKER)
class AddWritePermResponse(Header):
    """The number of changed topics."""

    add_topic_count: Int32


@header_of(RequestCode.GET_TOPICS_BY_CLUSTER)
class TopicsOfClusterRequest(RequestHeader):
    """Topics of a cluster."""

    cluster: str


@header_of(RequestCode.GET_EARLIEST_MSG_STORETIME)
class EarliestStoreTimeResponse(Header):
    """Store time of the oldest message of a queue; -1 without one."""

    timestamp: Int64
