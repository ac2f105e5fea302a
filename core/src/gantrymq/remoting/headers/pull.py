"""Headers of pulls and message queries.

Source: apache/rocketmq remoting/.../protocol/header/PullMessageRequestHeader.java, PullMessageResponseHeader.java,
QueryMessageRequestHeader.java, QueryMessageResponseHeader.java, ViewMessageRequestHeader.java.
"""

from __future__ import annotations

from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.headers.base import Header, Int32, Int64, RequestHeader, header_of, named


@header_of(RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE)
class PullMessageRequest(Header):
    """Pull messages of one queue from an offset."""

    consumer_group: str
    topic: str
    queue_id: Int32
    queue_offset: Int64
    max_msg_nums: Int32
    sys_flag: Int32  # bits of `model.sys_flag`
    commit_offset: Int64
    suspend_timeout_millis: Int64
    subscription: str | None = None
    sub_version: Int64
    expression_type: str | None = None  # None means TAG
    max_msg_bytes: Int32 | None = None
    request_source: Int32 | None = None  # -1 SDK, 0..2 proxy
    proxy_forward_client_id: str | None = named("proxyFrowardClientId", default=None)
    bname: str | None = None
    ns: str | None = None
    nsd: bool | None = None
    lo: bool | None = None


@header_of(RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE)
class PullMessageResponse(Header):
    """Offsets in a pull response. `responses.encode_pull_head` encodes it faster."""

    suggest_which_broker_id: Int64 = 0
    next_begin_offset: Int64
    min_offset: Int64
    max_offset: Int64
    offset_delta: Int64 | None = None
    topic_sys_flag: Int32 | None = None
    group_sys_flag: Int32 | None = None
    forbidden_type: Int32 | None = None  # 1 broker, 2 group, 3 topic, 4 broadcast, 5 subscription


@header_of(RequestCode.QUERY_MESSAGE)
class QueryMessageRequest(RequestHeader):
    """Query messages of a topic by key and store time."""

    topic: str
    key: str
    max_num: Int32
    begin_timestamp: Int64
    end_timestamp: Int64
    unique_key_query: bool | None = named("_UNIQUE_KEY_QUERY", default=None)


@header_of(RequestCode.QUERY_MESSAGE)
class QueryMessageResponse(Header):
    """Newest message in the index."""

    index_last_update_timestamp: Int64
    index_last_update_phyoffset: Int64


@header_of(RequestCode.VIEW_MESSAGE_BY_ID)
class ViewMessageByIdRequest(RequestHeader):
    """Get one record by its log offset."""

    topic: str | None = None
    offset: Int64
