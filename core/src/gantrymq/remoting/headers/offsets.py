"""Headers of queue offsets and consumer offsets.

Source: apache/rocketmq remoting/.../protocol/header/{Query,Update}ConsumerOffset*.java, Get{Max,Min}Offset*.java,
SearchOffset*.java, GetEarliestMsgStoretime*.java.
"""

from __future__ import annotations

from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.headers.base import Header, Int32, Int64, RequestHeader, header_of


@header_of(RequestCode.QUERY_CONSUMER_OFFSET)
class QueryConsumerOffsetRequest(RequestHeader):
    """Get the consumer offset of a group in a queue."""

    consumer_group: str
    topic: str
    queue_id: Int32
    set_zero_if_not_found: bool | None = None


@header_of(RequestCode.UPDATE_CONSUMER_OFFSET)
class UpdateConsumerOffsetRequest(RequestHeader):
    """Set the consumer offset of a group in a queue."""

    consumer_group: str
    topic: str
    queue_id: Int32
    commit_offset: Int64


@header_of(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP)
class SearchOffsetByTimestampRequest(RequestHeader):
    """Find the queue offset for a store time."""

    topic: str
    queue_id: Int32
    timestamp: Int64  # ms
    boundary_type: str | None = None  # LOWER (also when None) or UPPER, in any case


@header_of(RequestCode.GET_MAX_OFFSET)
class GetMaxOffsetRequest(RequestHeader):
    """Get the offset of the next message of a queue."""

    topic: str
    queue_id: Int32
    committed: bool = True


@header_of(RequestCode.GET_MIN_OFFSET)
class GetMinOffsetRequest(RequestHeader):
    """Get the first offset of a queue."""

    topic: str
    queue_id: Int32


@header_of(
    RequestCode.QUERY_CONSUMER_OFFSET,
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP,
    RequestCode.GET_MAX_OFFSET,
    RequestCode.GET_MIN_OFFSET,
)
class OffsetResponse(Header):
    """A queue offset."""

    offset: Int64


@header_of(RequestCode.GET_EARLIEST_MSG_STORETIME)
class GetEarliestMsgStoretimeRequest(RequestHeader):
    """Get the store time of the oldest message of a queue."""

    topic: str
    queue_id: Int32


@header_of(RequestCode.GET_EARLIEST_MSG_STORETIME)
class GetEarliestMsgStoretimeResponse(Header):
    """Store time of the oldest message of a queue; -1 without one."""

    timestamp: Int64
