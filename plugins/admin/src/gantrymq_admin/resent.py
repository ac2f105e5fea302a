"""Which dead letters were sent again: their copies have the same unique id, and a mark with the letter's place.

Copies are searched with the indexes of brokers (`messageIndexEnable`), in each topic that a letter may be sent to: the
retry topics of its group and its original topic.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from gantrymq.client import Admin
from gantrymq.errors import InvalidParameter, NoMessageFound, NoRoute
from gantrymq.plugin import names
from gantrymq_admin.dead_letters import RESENT_FROM, pop_retry_topic

__all__ = ["Letter", "Resent"]


class Letter(Protocol):
    """Facts about a dead letter."""

    @property
    def place(self) -> str:
        """``broker:offset``."""

    @property
    def id(self) -> str:
        """Its unique id."""

    @property
    def origin_topic(self) -> str:
        """Its original topic; empty if unknown."""

    @property
    def since_ms(self) -> int:
        """Its store time."""


class Resent:
    """Finds the copies of dead letters of one group."""

    def __init__(self, admin: Admin, group: str) -> None:
        """Prepare it without a request."""
        self._admin, self._group = admin, group
        self._topics: dict[str, bool] = {}  # whether there is a topic

    async def times(self, letters: Sequence[Letter]) -> dict[str, int]:
        """Return when the last copy of each letter was stored, by place; without letters that were not sent again.

        Raises:
            BrokerRefused, ConnectFailed, ConnectionLost, CallTimeout: a broker cannot search now: it is not known.
        """
        found = await asyncio.gather(*map(self._time, letters))
        return {letter.place: time for letter, time in zip(letters, found, strict=True) if time is not None}

    async def _time(self, letter: Letter) -> int | None:
        topics = [names.retry_topic(self._group)]
        if letter.origin_topic:
            topics += [pop_retry_topic(self._group, letter.origin_topic), letter.origin_topic]
        times = [await self._in(topic, letter) for topic in topics]
        return max((each for each in times if each is not None), default=None)

    async def _in(self, topic: str, letter: Letter) -> int | None:
        if topic not in self._topics:
            self._topics[topic] = await self._exists(topic)
        if not self._topics[topic]:
            return None
        begin_ms = letter.since_ms - 1000  # indexes have a resolution of a second
        try:
            copies = await self._admin.query_unique(topic, letter.id, begin_ms, max_body_bytes=0)
        except (NoMessageFound, NoRoute):
            return None
        marked = [each for each in copies if letter.place in each.properties.get(RESENT_FROM, "").split()]
        return max((each.store_timestamp for each in marked), default=None)

    async def _exists(self, topic: str) -> bool:
        try:
            await self._admin.route(topic)
        except (InvalidParameter, NoRoute):
            return False
        return True
