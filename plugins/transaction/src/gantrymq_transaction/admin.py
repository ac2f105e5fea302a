"""Asking brokers about their transactions, with an `Admin`."""

from __future__ import annotations

from typing import Any, cast

from gantrymq import loose_json
from gantrymq.client import Admin
from gantrymq.model.hosts import format_address
from gantrymq.model.ids import parse_offset_id
from gantrymq.model.names import CHECK_MAX_TIME_TOPIC
from gantrymq.remoting.codes import RequestCode
from gantrymq_transaction.requests import LIST_TRANSACTIONS, SHOW_TRANSACTION, ResumeCheckHalfMessageRequest

__all__ = ["list_transactions", "resume_check", "show_transaction"]


async def list_transactions(admin: Admin, address: str, **wanted: Any) -> dict[str, Any]:
    """A page of what is undecided or given up at one broker; `listing` names the members.

    Args:
        admin: a started one.
        address: ip:port.
        wanted: ``start``, ``count``, ``group``, ``topic``, ``given_up``.

    Raises:
        BrokerRefused, ConnectFailed, ConnectionLost, CallTimeout: the broker does not answer.
    """
    return {"next": None, "oldest_born_ms": None, **await _query(admin, address, LIST_TRANSACTIONS, wanted)}


async def show_transaction(admin: Admin, address: str, unique_id: str) -> dict[str, Any]:
    """All that one broker has of a transaction. Errors as `list_transactions`."""
    return await _query(admin, address, SHOW_TRANSACTION, {"unique_id": unique_id})


async def resume_check(admin: Admin, offset_id: str) -> str:
    """Let the producer of a given-up transaction be asked again; returns the broker's address.

    Raises:
        BrokerRefused: the message is no given-up one (1).
        as `list_transactions`: otherwise.
    """
    host, port, _ = parse_offset_id(offset_id)
    address = format_address(host, port)
    header = ResumeCheckHalfMessageRequest(topic=CHECK_MAX_TIME_TOPIC, msg_id=offset_id)
    await admin.request(address, RequestCode.RESUME_CHECK_HALF_MESSAGE, header)
    return address


async def _query(admin: Admin, address: str, code: int, wanted: dict[str, Any]) -> dict[str, Any]:
    return await admin.request_json(
        address, cast(RequestCode, code), None, loose_json.dumps(wanted), what="transactions"
    )
