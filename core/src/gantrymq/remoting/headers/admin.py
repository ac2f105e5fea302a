"""Headers of a broker's counters and maintenance.

Source: apache/rocketmq remoting/.../protocol/header/ViewBrokerStatsDataRequestHeader.java,
ResetMasterFlushOffsetHeader.java.
"""

from __future__ import annotations

from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.headers.base import Int64, RequestHeader, header_of

__all__ = [
    "CleanRequest",
    "ResetMasterFlushOffsetRequest",
    "ViewBrokerStatsDataRequest",
]


@header_of()
class CleanRequest(RequestHeader):
    """Clean up: 306, 316, 329. RocketMQ's requests have no fields; this one is GantryMQ's own."""

    report: bool | None = None  # the answer's remark says what was done; without it there is none, as in RocketMQ


@header_of(RequestCode.VIEW_BROKER_STATS_DATA)
class ViewBrokerStatsDataRequest(RequestHeader):
    """One counter."""

    stats_name: str
    stats_key: str


@header_of(RequestCode.RESET_MASTER_FLUSH_OFFSET)
class ResetMasterFlushOffsetRequest(RequestHeader):
    """How far the master has flushed."""

    master_flush_offset: Int64
