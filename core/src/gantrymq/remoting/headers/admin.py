"""Headers of broker statistics, maintenance and transactions.

Source: apache/rocketmq remoting/.../protocol/header/ViewBrokerStatsDataRequestHeader.java,
ResetMasterFlushOffsetHeader.java, ResumeCheckHalfMessageRequestHeader.java.
"""

from __future__ import annotations

from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.headers.base import Int64, RequestHeader, header_of


@header_of()
class CleanRequest(RequestHeader):
    """Clean up (306, 316, 329). The field is an extension; RocketMQ's requests have none."""

    report: bool | None = None  # return a summary as remark; without it there is none, as in RocketMQ


@header_of(RequestCode.VIEW_BROKER_STATS_DATA)
class ViewBrokerStatsDataRequest(RequestHeader):
    """Get one statistics counter."""

    stats_name: str
    stats_key: str


@header_of(RequestCode.RESET_MASTER_FLUSH_OFFSET)
class ResetMasterFlushOffsetRequest(RequestHeader):
    """Set the flush offset of the master."""

    master_flush_offset: Int64


@header_of(RequestCode.RESUME_CHECK_HALF_MESSAGE)
class ResumeCheckHalfMessageRequest(RequestHeader):
    """Resume the checks of a given-up transaction."""

    topic: str | None = None
    msg_id: str  # offset id in TRANS_CHECK_MAX_TIME_TOPIC
