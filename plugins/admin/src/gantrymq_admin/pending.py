"""Delayed messages that wait, page by page.

A request of GantryMQ's own (65001), served by brokers with gantrymq-schedule.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Any, Final, cast

import attrs

from gantrymq.client import Admin
from gantrymq.errors import InvalidParameter
from gantrymq.plugin.headers import Int32, Int64, RequestHeader, header_of
from gantrymq.plugin.remoting import RequestCode
from gantrymq_admin.asking import read

__all__ = ["MAX_PAGE", "PendingMessage", "PendingPage", "pending_messages", "pending_page"]

PENDING: Final = cast(RequestCode, 65001)
MAX_PAGE: Final = 256
LEVELS: Final = "levels"  # the source that every broker with delays has


@header_of(PENDING)
class PendingRequest(RequestHeader):
    """One page of pending messages."""

    source: str
    most: Int32
    place: str | None = None
    topic: str | None = None
    until_ms: Int64 | None = None


@attrs.frozen
class PendingMessage:
    """A message that waits for its delivery time; times are in ms since 1970."""

    due_ms: int
    kind: str  # of the delay: level, timer, ...
    topic: str | None  # that it will go to
    queue: str | None
    unique_id: str | None
    tags: str | None
    keys: str | None
    born_ms: int
    stored_ms: int
    size: int
    log_offset: int


@attrs.frozen
class PendingPage:
    """A page of the messages of one source. With a filter it may be empty without being the last."""

    sources: Mapping[str, Mapping[str, Any]]  # every source of the broker; ``waiting`` is its number of messages
    messages: tuple[PendingMessage, ...]  # the soonest first
    place: str | None  # of the next page; None after the last


async def pending_page(
    admin: Admin,
    address: str,
    source: str = LEVELS,
    *,
    place: str | None = None,
    most: int = 32,
    topic: str | None = None,
    until_ms: int | None = None,
) -> PendingPage:
    """Return a page of the messages that wait at one broker.

    Args:
        admin: started.
        address: ip:port of the broker.
        source: one of the broker's sources of delays, such as ``levels`` or ``timers``.
        place: of the previous page; None for the soonest messages.
        most: number of messages, up to MAX_PAGE.
        topic: only messages that will go to this topic.
        until_ms: only messages that are due at this time or earlier.

    Raises:
        InvalidParameter: *most* is out of range.
        RequestNotServed: it is a broker of RocketMQ, or lacks gantrymq-schedule.
        BrokerRefused: it has no such source or place (29).
        AnswerUnreadable, ConnectFailed, ConnectionLost, CallTimeout: no usable response.
    """
    if not 1 <= most <= MAX_PAGE:
        raise InvalidParameter(f"most={most}: a page has 1 to {MAX_PAGE} messages")
    header = PendingRequest(source=source, most=most, place=place or None, topic=topic, until_ms=until_ms)
    return await admin.request_parsed(address, PENDING, _page, header, what=f"pending messages of {address}")


async def pending_messages(
    admin: Admin, address: str, *, most: int, topic: str | None = None, until_ms: int | None = None
) -> AsyncGenerator[PendingPage, None]:
    """Yield pages with the soonest *most* messages of each source of one broker, one source after the other.

    Errors as `pending_page`.
    """
    sources: Mapping[str, object] = {LEVELS: None}
    asked: set[str] = set()
    while left := [name for name in sources if name not in asked]:
        asked.add(left[0])
        place, missing = None, most
        while missing > 0:
            page = await pending_page(
                admin, address, left[0], place=place, most=min(missing, MAX_PAGE), topic=topic, until_ms=until_ms
            )
            yield page
            sources, place = page.sources, page.place
            missing -= len(page.messages)
            if place is None:
                break


def _page(found: Mapping[str, Any]) -> PendingPage:
    messages = tuple(read(PendingMessage, each) for each in found["messages"])
    sources = {str(name): dict(source) for name, source in found["sources"].items()}
    return read(PendingPage, found, sources=sources, messages=messages)
