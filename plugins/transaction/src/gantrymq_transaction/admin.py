"""Queries about the transactions of brokers, through an `Admin`."""

from __future__ import annotations

from typing import Any, cast

from gantrymq import loose_json
from gantrymq.client import Admin
from gantrymq.model.hosts import format_address
from gantrymq.model.ids import parse_offset_id
from gantrymq.model.names import CHECK_MAX_TIME_TOPIC
from gantrymq.remoting.codes import RequestCode
from gantrymq_transaction.requests import LIST_TRANSACTIONS, SHOW_TRANSACTION, ResumeCheckHalfMessageRequest


async def list_transactions(admin: Admin, address: str, **wanted: Any) -> dict[str, Any]:
    """Return a page of undecided or given-up transactions of one broker; see `listing` for its members.

    Args:
        admin: started.
        address: ip:port.
        wanted: ``start``, ``count``, ``group``, ``topic``, ``given_up``.

    Raises:
        BrokerRefused, ConnectFailed, ConnectionLost, CallTimeout: the request failed.
    """
    return {"next": None, "oldest_born_ms": None, **await _query(admin, address, LIST_TRANSACTIONS, wanted)}


async def show_transaction(admin: Admin, address: str, unique_id: str) -> dict[str, Any]:
    """Return all messages of a transaction on one broker. Raises as `list_transactions`."""
    return await _query(admin, address, SHOW_TRANSACTION, {"unique_id": unique_id})


async def resume_check(admin: Admin, offset_id: str) -> str:
    """Resume the checks of a given-up transaction. Return the broker's address.

    Raises:
        BrokerRefused: the message is not a given-up half message (1).
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
