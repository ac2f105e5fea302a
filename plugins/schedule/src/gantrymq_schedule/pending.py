"""Request 65001: what waits until when, a page at a time, and how much, without reading a message.

    ext   source   levels (default), or another source of delays
          place    where the page begins, as the page before told; empty: from the soonest on
          topic    only messages that go to this topic
          untilMs  only messages that are due at this time or sooner
          most     messages of the page, 1 to 256
    body  {"sources": {name: {"waiting", ...}}, "messages": [...], "place": null at the end}

A page reads a bounded number of messages: with a topic it may be empty, and not the last.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from gantrymq.errors import InvalidParameter, ServiceNotAvailable
from gantrymq.formats.record import RecordView
from gantrymq.interfaces import Connection
from gantrymq.model import properties as props
from gantrymq.model.members import whole_number
from gantrymq.remoting.command import Command, response_to

__all__ = ["PENDING", "Page", "PendingRequests", "PendingSource", "shown"]

PENDING: Final = 65001
MOST: Final = 256


class Page(NamedTuple):
    """Messages that wait, the soonest first."""

    messages: Sequence[Mapping[str, Any]]  # see `shown`
    place: str | None  # of the next page; None: nothing is left


class PendingSource(Protocol):
    """One kind of delay."""

    def waiting(self) -> Mapping[str, Any]:
        """How much waits (``waiting``), and more; from what is in memory."""

    async def page(self, place: str, topic: str | None, until_ms: int | None, most: int) -> Page:
        """What waits from *place* on. Raises InvalidParameter when *place* is none of its own."""


def shown(record: RecordView, due_ms: int, kind: str) -> dict[str, Any]:
    """One message that waits, for people and scripts."""
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
    """Serves operators."""

    def __init__(self, sources: Callable[[], Mapping[str, PendingSource]]) -> None:
        """*sources*: by name, those that run; none while the service does not."""
        self._sources = sources

    async def serve(self, asked: Command, connection: Connection) -> Command:
        """65001.

        Raises:
            InvalidParameter: a field is none that can be served; says which.
            ServiceNotAvailable: the service does not run.
        """
        ext, sources = asked.ext or {}, self._sources()
        if not sources:
            raise ServiceNotAvailable("the service schedule does not run")
        name = ext.get("source", "levels")
        if name not in sources:
            raise InvalidParameter(f"source={name} is no kind of delay here; there is {', '.join(sources)}")
        until = ext.get("untilMs")
        until_ms = None if until is None else _number("untilMs", until, 0, 2**63 - 1)
        most = _number("most", ext.get("most", "32"), 1, MOST)
        page = await sources[name].page(ext.get("place", ""), ext.get("topic") or None, until_ms, most)
        answer = {
            "sources": {each: dict(source.waiting()) for each, source in sources.items()},
            "messages": list(page.messages),
            "place": page.place,
        }
        return response_to(asked, 0, None, None, json.dumps(answer).encode())


def _number(name: str, text: str, least: int, most: int) -> int:
    number = whole_number(text)
    if number is None:
        raise InvalidParameter(f"{name}={text} is no whole number")
    if not least <= number <= most:
        raise InvalidParameter(f"{name}={text} is not between {least} and {most}")
    return number
