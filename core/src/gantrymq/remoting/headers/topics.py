"""Headers of topic administration at a broker.

Source: apache/rocketmq remoting/.../protocol/header/CreateTopicRequestHeader.java, DeleteTopicRequestHeader.java,
GetAllTopicConfigRequestHeader.java, GetTopicConfigRequestHeader.java, GetTopicStatsInfoRequestHeader.java.
"""

from __future__ import annotations

from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.headers.base import Int32, RequestHeader, header_of


@header_of(RequestCode.UPDATE_AND_CREATE_TOPIC, RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC)
class CreateTopicRequest(RequestHeader):
    """Create or change a topic."""

    topic: str
    default_topic: str
    read_queue_nums: Int32
    write_queue_nums: Int32
    perm: Int32
    topic_filter_type: str  # SINGLE_TAG, MULTI_TAG
    topic_sys_flag: Int32 | None = None
    order: bool = False
    attributes: str | None = None  # +name=value,-name
    force: bool | None = None


@header_of(RequestCode.DELETE_TOPIC_IN_BROKER)
class DeleteTopicInBrokerRequest(RequestHeader):
    """Delete a topic."""

    topic: str


@header_of(RequestCode.GET_ALL_TOPIC_CONFIG)
class GetAllTopicConfigRequest(RequestHeader):
    """Get all topics; in one response if the three fields are missing."""

    topic_seq: Int32 | None = None  # first entry of this part, from 0
    data_version: str | None = None  # JSON
    max_topic_num: Int32 | None = None


@header_of(RequestCode.GET_TOPIC_CONFIG)
class GetTopicConfigRequest(RequestHeader):
    """Get one topic; with ``lo`` also its queue mapping."""

    topic: str


@header_of(RequestCode.GET_TOPIC_STATS_INFO)
class GetTopicStatsInfoRequest(RequestHeader):
    """Get the offsets of the queues of a topic."""

    topic: str


@header_of(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO)
class QueryTopicConsumeByWhoRequest(RequestHeader):
    """Get the groups that consume a topic."""

    topic: str


@header_of(RequestCode.QUERY_TOPICS_BY_CONSUMER)
class QueryTopicsByConsumerRequest(RequestHeader):
    """Get the topics that a group consumes."""

    group: str
