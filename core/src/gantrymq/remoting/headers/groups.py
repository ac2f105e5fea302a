"""Headers of subscription groups and of what tools ask about consumption.

Source: apache/rocketmq remoting/.../protocol/header/GetAllSubscriptionGroupRequestHeader.java,
GetSubscriptionGroupConfigRequestHeader.java, DeleteSubscriptionGroupRequestHeader.java,
UpdateGroupForbiddenRequestHeader.java, GetConsumeStatsRequestHeader.java, QueryConsumeTimeSpanRequestHeader.java,
QueryCorrectionOffsetHeader.java, CloneGroupOffsetRequestHeader.java, QueryConsumeQueueRequestHeader.java.
"""

from __future__ import annotations

from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.headers.base import Int32, Int64, RequestHeader, header_of

__all__ = [
    "CloneGroupOffsetRequest",
    "DeleteSubscriptionGroupRequest",
    "GetAllSubscriptionGroupConfigRequest",
    "GetBrokerConsumeStatsRequest",
    "GetConsumeStatsRequest",
    "GetSubscriptionGroupConfigRequest",
    "QueryConsumeQueueRequest",
    "QueryConsumeTimeSpanRequest",
    "QueryCorrectionOffsetRequest",
    "QuerySubscriptionByConsumerRequest",
    "UpdateGroupForbiddenRequest",
]


@header_of(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
class GetAllSubscriptionGroupConfigRequest(RequestHeader):
    """All groups; with none of the three fields, everything at once."""

    group_seq: Int32 | None = None
    data_version: str | None = None  # JSON
    max_group_num: Int32 | None = None


@header_of(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG)
class GetSubscriptionGroupConfigRequest(RequestHeader):
    """One group."""

    group: str


@header_of(RequestCode.DELETE_SUBSCRIPTIONGROUP)
class DeleteSubscriptionGroupRequest(RequestHeader):
    """Delete a group, with its offsets when asked."""

    group_name: str
    clean_offset: bool = False


@header_of(RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN)
class UpdateGroupForbiddenRequest(RequestHeader):
    """May the group read the topic?"""

    group: str
    topic: str
    readable: bool | None = None


@header_of(RequestCode.GET_CONSUME_STATS)
class GetConsumeStatsRequest(RequestHeader):
    """A group's progress."""

    consumer_group: str
    topic: str | None = None
    topic_list: str | None = None  # separated by ;


@header_of(RequestCode.GET_BROKER_CONSUME_STATS)
class GetBrokerConsumeStatsRequest(RequestHeader):
    """The progress of every group."""

    is_order: bool = False


@header_of(RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER)
class QuerySubscriptionByConsumerRequest(RequestHeader):
    """A group's subscription to a topic."""

    group: str
    topic: str | None = None


@header_of(RequestCode.QUERY_CONSUME_TIME_SPAN)
class QueryConsumeTimeSpanRequest(RequestHeader):
    """Store times that a group's offsets stand at."""

    topic: str
    group: str


@header_of(RequestCode.QUERY_CORRECTION_OFFSET)
class QueryCorrectionOffsetRequest(RequestHeader):
    """Offsets by which groups differ from one."""

    filter_groups: str | None = None
    compare_group: str
    topic: str


@header_of(RequestCode.CLONE_GROUP_OFFSET)
class CloneGroupOffsetRequest(RequestHeader):
    """Copy one group's offsets to another."""

    src_group: str
    dest_group: str
    topic: str | None = None
    offline: bool = False


@header_of(RequestCode.QUERY_CONSUME_QUEUE)
class QueryConsumeQueueRequest(RequestHeader):
    """Entries of a queue, raw."""

    topic: str | None = None
    queue_id: Int32 = 0
    index: Int64 = 0  # queue offset
    count: Int32 = 0
    consumer_group: str | None = None
