"""Finds the copies of dead letters that were sent again.

A letter was sent again if a copy has the same unique id, and a mark with the letter's place. Copies are searched with
the indexes of brokers (`messageIndexEnable`), in each topic that a letter may be sent to: the retry topics of its group
and its original topic.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol

import attrs

from gantrymq.client import Admin, ReceivedMessage
from gantrymq.errors import ClientError, InvalidParameter, NoMessageFound, NoRoute
from gantrymq.plugin import names
from gantrymq_admin.dead_letters import is_from, origin_of, place_of, pop_retry_topic

_CLOCKS_MS: Final = 3_600_000  # by which the clock of a broker with a copy may be behind that of the letter's


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
        self._absent: set[str] = set()  # topics that no name server knows

    async def times(self, letters: Sequence[Letter]) -> dict[str, int]:
        """Return when the last copy of each letter was stored, by place; without letters that were not sent again.

        Raises:
            BrokerRefused, ConnectFailed, ConnectionLost, CallTimeout: a broker cannot search now: it is not known.
        """
        return {place: found[-1].store_timestamp for place, found in (await self.copies(letters)).items()}

    async def copies(self, letters: Sequence[Letter]) -> dict[str, tuple[ReceivedMessage, ...]]:
        """Return the copies of each letter, the last one last, by place; without letters that were not sent again.

        Raises:
            as `times`.
        """
        found = await asyncio.gather(*map(self._copies, letters))
        return {letter.place: each for letter, each in zip(letters, found, strict=True) if each}

    async def _copies(self, letter: Letter) -> tuple[ReceivedMessage, ...]:
        topics = [names.retry_topic(self._group)]
        if letter.origin_topic:
            topics += [pop_retry_topic(self._group, letter.origin_topic), letter.origin_topic]
        found = [each for topic in topics for each in await self._in(topic, letter)]
        # A copy that failed again has retries with its properties, which nobody sent from the letter.
        sent = [each for each in found if not each.reconsume_times] or found
        return tuple(sorted(sent, key=lambda each: each.store_timestamp))

    async def _in(self, topic: str, letter: Letter) -> Sequence[ReceivedMessage]:
        """Return the copies in a topic. Each broker must answer: others may find other messages with the id."""
        if topic in self._absent:
            return ()
        try:
            brokers = (await self._admin.route(topic)).brokers
        except (InvalidParameter, NoRoute):
            self._absent.add(topic)
            return ()
        found = await asyncio.gather(*(self._at(each.name, each.readable(), topic, letter) for each in brokers))
        copies = (message for of_broker in found for message in of_broker)
        return [each for each in copies if is_from(each, self._group, letter.place)]

    async def _at(self, broker: str, address: str | None, topic: str, letter: Letter) -> Sequence[ReceivedMessage]:
        if address is None:
            raise ClientError(f"broker {broker} has no address that can be asked")
        begin_ms = max(0, letter.since_ms - _CLOCKS_MS)
        try:
            return await self._admin.query_unique(
                topic, letter.id, begin_ms, broker=broker, address=address, max_body_bytes=0
            )
        except NoMessageFound:
            return ()


@attrs.frozen
class SoughtLetter:
    """A dead letter whose copies are searched."""

    place: str
    id: str
    origin_topic: str
    since_ms: int

    @staticmethod
    def of(letter: ReceivedMessage, group: str) -> SoughtLetter:
        """Return it for a stored dead letter of *group*."""
        origin = origin_of(letter, group) or ""
        return SoughtLetter(place_of(letter), letter.message_id, origin, letter.store_timestamp)
