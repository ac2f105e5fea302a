"""Header of request 906 and of its answer.

Source: apache/rocketmq remoting/.../protocol/header/ExchangeHAInfo{Request,Response}Header.java.
"""

from __future__ import annotations

from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.headers.base import Header, Int64, RequestHeader, header_of

__all__ = ["ExchangeHaInfo", "MinBrokerIdChange"]


@header_of(RequestCode.EXCHANGE_BROKER_HA_INFO)
class ExchangeHaInfo(RequestHeader):
    """A returning master tells its addresses to a slave; without fields, a slave asks for them."""

    master_ha_address: str | None = None
    master_flush_offset: Int64 | None = None
    master_address: str | None = None


@header_of(RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE)
class MinBrokerIdChange(Header):
    """A name server tells that another broker of the group has the smallest id now."""

    min_broker_id: Int64 | None = None
    broker_name: str | None = None
    min_broker_addr: str | None = None
    offline_broker_addr: str | None = None
    ha_broker_addr: str | None = None
