"""Headers of requests about lite topics.

Source: apache/rocketmq remoting/.../protocol/header/PopLiteMessageRequestHeader.java, Get*InfoRequestHeader.java,
TriggerLiteDispatchRequestHeader.java.
"""

from __future__ import annotations

from gantrymq.plugin.headers import Int32, Int64, RequestHeader, header_of
from gantrymq.plugin.remoting import RequestCode


@header_of(RequestCode.POP_LITE_MESSAGE)
class PopLiteRequest(RequestHeader):
    """Request 200070: receive messages of the lite topics of a client."""

    client_id: str
    consumer_group: str
    topic: str  # the parent topic
    max_msg_num: Int32
    invisible_time: Int64  # ms
    poll_time: Int64  # ms
    born_time: Int64 = 0  # ms; 0: now
    attempt_id: str | None = None


@header_of(RequestCode.GET_PARENT_TOPIC_INFO)
class ParentTopicRequest(RequestHeader):
    """Request 200075: a parent topic, its lite topics and its groups in numbers."""

    topic: str


@header_of(RequestCode.GET_LITE_TOPIC_INFO)
class LiteTopicRequest(RequestHeader):
    """Request 200076: a lite topic and its subscribers."""

    parent_topic: str
    lite_topic: str


@header_of(RequestCode.GET_LITE_CLIENT_INFO)
class LiteClientRequest(RequestHeader):
    """Request 200077: the lite topics of a client."""

    parent_topic: str
    group: str
    client_id: str
    max_count: Int32 = 1000


@header_of(RequestCode.GET_LITE_GROUP_INFO)
class LiteGroupRequest(RequestHeader):
    """Request 200078: what a group has not consumed."""

    group: str
    lite_topic: str = ""  # empty: all
    top_k: Int32 = 20


@header_of(RequestCode.TRIGGER_LITE_DISPATCH)
class TriggerRequest(RequestHeader):
    """Request 200079: look for messages of all subscriptions."""

    group: str
    client_id: str = ""  # empty: all of the group
