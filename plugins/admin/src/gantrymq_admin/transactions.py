"""Transactions of a broker: undecided and given-up ones, all messages of one, and resuming its checks.

Requests of GantryMQ's own (65011, 65012), served by brokers with gantrymq-transaction, and RocketMQ's
RESUME_CHECK_HALF_MESSAGE (323), which Java brokers serve too.

Source: apache/rocketmq broker/.../processor/AdminBrokerProcessor.java (resumeCheckHalfMessage).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

import attrs

from gantrymq.client import Admin
from gantrymq.plugin import loose_json
from gantrymq.plugin.headers import ResumeCheckHalfMessageRequest
from gantrymq.plugin.names import CHECK_MAX_TIME_TOPIC
from gantrymq.plugin.remoting import RequestCode
from gantrymq_admin.asking import read
from gantrymq_admin.messages import find_by_offset_id

__all__ = [
    "MAX_PAGE",
    "HalfMessage",
    "StoredMessage",
    "TransactionMessages",
    "TransactionPage",
    "list_transactions",
    "resume_check",
    "show_transaction",
]

LIST_TRANSACTIONS: Final = cast(RequestCode, 65011)
SHOW_TRANSACTION: Final = cast(RequestCode, 65012)
MAX_PAGE: Final = 1000


@attrs.frozen
class HalfMessage:
    """A half message, or the message of a given-up transaction; times are in ms since 1970."""

    unique_id: str
    offset_id: str
    half_queue_offset: int
    producer_group: str
    topic: str  # target of the message if it is committed
    queue: str
    tags: str
    keys: str
    checks: int
    next_check_ms: int | None  # None unless it is undecided
    born_ms: int
    stored_ms: int
    bytes: int
    undecided: bool = True  # False: decided, or stored again later


@attrs.frozen
class StoredMessage:
    """A committed message."""

    topic: str
    queue: int
    queue_offset: int
    offset_id: str
    stored_ms: int


@attrs.frozen
class TransactionPage:
    """A page of transactions, the oldest half message first. With a filter it may be empty without being the last."""

    transactions: tuple[HalfMessage, ...]
    undecided: int  # number of all undecided transactions of the broker
    next: int | None = None  # queue offset at which the next page starts; None after the last
    oldest_born_ms: int | None = None  # of the oldest undecided one


@attrs.frozen
class TransactionMessages:
    """All messages of the transactions with one unique id."""

    half_messages: tuple[HalfMessage, ...]
    committed: tuple[StoredMessage, ...]
    given_up: tuple[HalfMessage, ...]


async def list_transactions(
    admin: Admin,
    address: str,
    *,
    start: int = 0,
    count: int = 100,
    group: str | None = None,
    topic: str | None = None,
    given_up: bool = False,
) -> TransactionPage:
    """Return a page of undecided or given-up transactions of one broker.

    Args:
        admin: started.
        address: ip:port of the broker.
        start: half queue offset to start at, `TransactionPage.next` of the previous page.
        count: number of transactions, up to MAX_PAGE.
        group: only of this producer group.
        topic: only for this topic.
        given_up: whether to list the given-up ones instead.

    Raises:
        RequestNotServed: it is a broker of RocketMQ, or lacks gantrymq-transaction.
        BrokerRefused: *start* or *count* is out of range.
        AnswerUnreadable, ConnectFailed, ConnectionLost, CallTimeout: no usable response.
    """
    wanted = {"start": start, "count": count, "group": group, "topic": topic, "given_up": given_up}
    return await admin.request_parsed(
        address, LIST_TRANSACTIONS, _page, body=loose_json.dumps(wanted), what=f"transactions of {address}"
    )


async def show_transaction(admin: Admin, address: str, unique_id: str) -> TransactionMessages:
    """Return all messages of a transaction at one broker; empty if it has none. Raises as `list_transactions`."""
    body = loose_json.dumps({"unique_id": unique_id})
    what = f"the transaction of {address}"
    return await admin.request_parsed(address, SHOW_TRANSACTION, _messages, body=body, what=what)


async def resume_check(admin: Admin, offset_id: str) -> str:
    """Resume the checks of a given-up transaction. Return the address of its broker.

    Raises:
        BrokerRefused: the message is not a given-up half message (1).
        as `find_by_offset_id`: all other errors.
    """
    address, _ = await find_by_offset_id(admin, offset_id)
    header = ResumeCheckHalfMessageRequest(topic=CHECK_MAX_TIME_TOPIC, msg_id=offset_id)
    await admin.request(address, RequestCode.RESUME_CHECK_HALF_MESSAGE, header)
    return address


def _page(found: Mapping[str, Any]) -> TransactionPage:
    return read(TransactionPage, found, transactions=_halves(found["transactions"]))


def _messages(found: Mapping[str, Any]) -> TransactionMessages:
    return TransactionMessages(
        _halves(found["half_messages"]),
        tuple(read(StoredMessage, each) for each in found["committed"]),
        _halves(found["given_up"]),
    )


def _halves(found: list[Any]) -> tuple[HalfMessage, ...]:
    # loose JSON leaves out members that are null
    return tuple(read(HalfMessage, {"next_check_ms": None, **each}) for each in found)
