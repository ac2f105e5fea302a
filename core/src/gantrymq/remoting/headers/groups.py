"""Headers of subscription groups and consumption statistics.

Source: apache/rocketmq remoting/.../protocol/header/GetAllSubscriptionGroupRequestHeader.java,
GetSubscriptionGroupConfigRequestHeader.java, DeleteSubscriptionGroupRequestHeader.java,
UpdateGroupForbiddenRequestHeader.java, GetConsumeStatsRequestHeader.java, QueryConsumeTimeSpanRequestHeader.java,
QueryCorrectionOffsetHeader.java, CloneGroupOffsetRequestHeader.java, QueryConsumeQueueRequestHeader.java.
"""

from __future__ import annotations

from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.headers.base import Int32, Int64, RequestHeader, header_of


@header_of(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
class GetAllSubscriptionGroupConfigRequest(RequestHeader):
    """Get all groups; in one response if the three fields are missing."""

    group_seq: Int32 | None = None
    data_version: str | None = None  # JSON
    max_group_num: Int32 | None = None


@header_of(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG)
class GetSubscriptionGroupConfigRequest(RequestHeader):
    """Get one group."""

    group: str


@header_of(RequestCode.DELETE_SUBSCRIPTIONGROUP)
class DeleteSubscriptionGroupRequest(RequestHeader):
    """Delete a group, optionally with its offsets."""

    group_name: str
    clean_offset: bool = False


@header_of(RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN)
class UpdateGroupForbiddenRequest(RequestHeader):
    """Allow or forbid a group to read a topic."""

    group: str
    topic: str
    readable: bool | None = None


@header_of(RequestCode.GET_CONSUME_STATS)
class GetConsumeStatsRequest(RequestHeader):
    """Get the consumption status of a group."""

    consumer_group: str
    topic: str | None = None
    topic_list: str | None = None  # separated by ;


@header_of(RequestCode.GET_BROKER_CONSUME_STATS)
class GetBrokerConsumeStatsRequest(RequestHeader):
    """Get the consumption status of all groups."""

    is_order: bool = False


@header_of(RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER)
class QuerySubscriptionByConsumerRequest(RequestHeader):
    """Get the subscription of a group to a topic."""

    group: str
    topic: str | None = None


@header_of(RequestCode.QUERY_CONSUME_TIME_SPAN)
class QueryConsumeTimeSpanRequest(RequestHeader):
    """Get the store times at the offsets of a group."""

    topic: str
    group: str


@header_of(RequestCode.QUERY_CORRECTION_OFFSET)
class QueryCorrectionOffsetRequest(RequestHeader):
    """Get offsets of groups that differ from those of one group."""

    filter_groups: str | None = None
    compare_group: str
    topic: str


@header_of(RequestCode.CLONE_GROUP_OFFSET)
class CloneGroupOffsetRequest(RequestHeader):
    """Copy the offsets of one group to another."""

    src_group: str
    dest_group: str
    topic: str | None = None
    offline: bool = False


@header_of(RequestCode.QUERY_CONSUME_QUEUE)
class QueryConsumeQueueRequest(RequestHeader):
    """Get raw entries of a queue."""

    topic: str | None = None
    queue_id: Int32 = 0
    index: Int64 = 0  # queue offset
    count: Int32 = 0
    consumer_group: str | None = None
