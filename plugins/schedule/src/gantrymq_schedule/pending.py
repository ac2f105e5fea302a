"""Request 65001: list pending delayed messages page by page; the counts are answered without reading a message.

    ext   source   levels (default), or another source of delays
          place    position of the page, as returned with the previous one; empty: start at the earliest message
          topic    only messages for this topic
          untilMs  only messages that are due at this time or earlier
          most     page size, 1 to 256
    body  {"sources": {name: {"waiting", ...}}, "messages": [...], "place": null on the last page}

A page reads a bounded number of messages: with a topic filter it may be empty without being the last.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from gantrymq.errors import InvalidParameter, ServiceNotAvailable
from gantrymq.plugin import properties as props
from gantrymq.plugin.formats import RecordView
from gantrymq.plugin.loose_json import whole_number
from gantrymq.plugin.model import Action
from gantrymq.plugin.remoting import Command, Connection, response_to, serves

PENDING: Final = 65001
_MOST: Final = 256


class PendingPage(NamedTuple):
    """One page of waiting messages, earliest first."""

    messages: Sequence[Mapping[str, Any]]  # see `describe_pending`
    place: str | None  # position of the next page; None after the last


class PendingSource(Protocol):
    """A source of waiting messages: one kind of delay."""

    def waiting(self) -> Mapping[str, Any]:
        """Return the number of waiting messages (``waiting``) and details, from memory."""

    async def page(self, place: str, topic: str | None, until_ms: int | None, most: int) -> PendingPage:
        """Return the page that starts at *place*. Raises InvalidParameter if *place* is not valid for this source."""


def describe_pending(record: RecordView, due_ms: int, kind: str) -> dict[str, Any]:
    """Describe a waiting message as JSON members."""
    own = record.properties
    return {
        "due_ms": due_ms,
        "kind": kind,
        "topic": own.get(props.REAL_TOPIC),
        "queue": own.get(props.REAL_QUEUE_ID),
        "unique_id": own.get(props.UNIQ_KEY),
        "tags": own.get(props.TAGS),
        "keys": own.get(props.KEYS),
        "born_ms": record.born_timestamp,
        "stored_ms": record.store_timestamp,
        "size": record.total_size,
        "log_offset": record.log_offset,
    }


class PendingRequests:
    """Handler of request 65001."""

    def __init__(self, sources: Callable[[], Mapping[str, PendingSource]]) -> None:
        """*sources* returns the running sources by name; it is empty while the service is not running."""
        self._sources = sources

    @serves(PENDING, action=Action.GET)
    async def serve(self, request: Command, connection: Connection) -> Command:
        """Answer request 65001.

        Raises:
            InvalidParameter: a field is invalid; the message names it.
            ServiceNotAvailable: the service is not running.
        """
        ext, sources = request.ext or {}, self._sources()
        if not sources:
            raise ServiceNotAvailable("the service schedule does not run")
        name = ext.get("source", "levels")
        if name not in sources:
            raise InvalidParameter(f"source={name} is not a source of delays; there is {', '.join(sources)}")
        until = ext.get("untilMs")
        until_ms = None if until is None else _number("untilMs", until, 0, 2**63 - 1)
        most = _number("most", ext.get("most", "32"), 1, _MOST)
        page = await sources[name].page(ext.get("place", ""), ext.get("topic") or None, until_ms, most)
        answer = {
            "sources": {each: dict(source.waiting()) for each, source in sources.items()},
            "messages": list(page.messages),
            "place": page.place,
        }
        return response_to(request, 0, None, None, json.dumps(answer).encode())


def _number(name: str, text: str, least: int, most: int) -> int:
    number = whole_number(text)
    if number is None:
        raise InvalidParameter(f"{name}={text} is not a whole number")
    if not least <= number <= most:
        raise InvalidParameter(f"{name}={text} is not between {least} and {most}")
    return number
