"""Requests with one deadline for all; what could not be asked is collected.

Copies of a message keep its unique id, so records with one unique id are queried broker by broker. A query of the index
returns the newest records, 64 at most, so older ones are queried with an earlier end.

Source: apache/rocketmq broker/.../processor/QueryMessageProcessor.java, store/.../index/IndexService.java.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import attrs

from gantrymq.client import Admin, ReceivedMessage
from gantrymq.client.admin import FOREVER_MS
from gantrymq.errors import BrokerRefused, CallTimeout, ClientError, ConnectFailed, ConnectionLost, NoRoute
from gantrymq.plugin.client import BrokerAddresses, decode_messages, within
from gantrymq.plugin.headers import QueryMessageRequest
from gantrymq.plugin.remoting import RequestCode, ResponseCode
from gantrymq.plugin.world import Clock
from gantrymq_admin.asking import Deadline
from gantrymq_admin.consumption.facts import Fact, MissingFact

AT_ONCE: Final = 16  # concurrent requests
_MOST_COMPARED: Final = 32  # entries that a new one is compared with; each is of one broker and one fact
_UNREACHABLE: Final = (ConnectFailed, ConnectionLost, CallTimeout)

T = TypeVar("T")
_PAGE: Final = 64
_SKEW_MS: Final = 13 * 3_600_000  # like the admin client's search by a unique key
_INDEX_MS: Final = 1000  # the index has times in seconds
_TRACE_BYTES: Final = 128 * 1024  # of a body; clients end a message with traces at 128,000 bytes


class FactAsking(Deadline[MissingFact]):
    """Asks for facts until the deadline.

    A broker that does not answer within a third of the time is not asked again, so that it does not use up the time for
    the others.
    """

    def __init__(self, clock: Clock, seconds: float) -> None:
        super().__init__(clock, seconds)
        self._patience_s = seconds / 3
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._away: dict[str, MissingFact] = {}  # by broker

    async def ask(
        self, fact: Fact, broker: str, request: Coroutine[Any, Any, T], group: str | None = None
    ) -> tuple[T] | None:
        """Return the answer in a tuple, or None with an entry in `missing`.

        Args:
            fact: what is asked.
            broker: name of the broker that is asked; empty for name servers.
            request: is closed if it is not run.
            group: the group that it concerns; None for all.
        """
        try:
            async with self._turns:
                away = self._away.get(broker)
                if away is not None:
                    self._note(attrs.evolve(away, fact=fact, group=None))
                    return None
                answer = await within(self._clock, min(self.left_s, self._patience_s), _held(request))
        except _UNREACHABLE as problem:
            self._note_away(MissingFact(fact, broker, "unreachable", str(problem), group=group))
            return None
        except ClientError as problem:
            code = problem.response_code if isinstance(problem, BrokerRefused) else None
            why = "failed" if code is None else "refused"
            self._note(MissingFact(fact, broker, why, str(problem), code, group))
            return None
        finally:
            request.close()
        if answer is None:
            waited_s = self._patience_s if self.left_s else self._seconds
            sentence = f"no answer within {waited_s:.1f} s"
            self._note_away(MissingFact(fact, broker, "deadline", sentence, group=group))
        return answer

    def _note_away(self, missing: MissingFact) -> None:
        if missing.fact is not Fact.POSITIONS:  # the broker waits for the member
            missing = attrs.evolve(missing, group=None)
            self._away[missing.broker] = missing
        self._note(missing)

    def _note(self, missing: MissingFact) -> None:
        if missing not in self.missing[-_MOST_COMPARED:]:
            self.missing.append(missing)

    def incomplete(self, fact: Fact, broker: str, detail: str, group: str | None = None) -> None:
        """Note that an answer has only a part of what was asked."""
        self.missing.append(MissingFact(fact, broker, "incomplete", detail, None, group))


async def _held(request: Coroutine[Any, Any, T]) -> tuple[T]:
    return (await request,)


class Routes:
    """The brokers of topics; each route is requested once, and none if there is only one broker."""

    def __init__(self, admin: Admin, brokers: Sequence[BrokerAddresses] | None, topics: Collection[str] | None) -> None:
        """Create it.

        Args:
            admin: requests routes.
            brokers: all brokers that name servers know; None: not known.
            topics: all topics that name servers know; None: not known.
        """
        self._admin = admin
        self._only = brokers[0] if brokers is not None and len(brokers) == 1 else None
        self.topics = topics
        self._known: dict[str, dict[str, BrokerAddresses]] = {}

    def may_exist(self, topic: str) -> bool:
        """Return whether name servers may know *topic*."""
        return self.topics is None or topic in self.topics

    async def brokers_of(self, topic: str) -> Mapping[str, BrokerAddresses]:
        """Return the brokers that may have *topic*, by name; empty if name servers do not know it.

        Raises ClientError: no name server answers.
        """
        if not self.may_exist(topic):
            return {}
        if self._only is not None:
            return {self._only.name: self._only} if self._only.addresses else {}
        if topic not in self._known:
            try:
                route = await self._admin.route(topic)
            except NoRoute:
                self._known[topic] = {}
            else:
                self._known[topic] = {each.name: each for each in route.brokers if each.addresses}
        return self._known[topic]


def addresses_of(brokers: Mapping[str, BrokerAddresses]) -> dict[str, str]:
    """Return where each broker is queried: its master if it has one."""
    return {name: address for name, each in brokers.items() if (address := each.readable()) is not None}


PAGES: Final = 8


class Found(NamedTuple):
    """Records of one broker, the oldest first."""

    messages: tuple[ReceivedMessage, ...]
    problem: str  # why there may be more; empty if there are none


async def records_at(
    admin: Admin, broker: str, address: str, topic: str, key: str, since_ms: int, *, unique: bool = True
) -> Found:
    """Return the records of *topic* at one broker with *key* as their unique id, or else as one of their keys.

    Of compressed bodies, only the beginning is decompressed; with *unique* next to nothing.

    Args:
        admin: sends the requests.
        broker: name of the broker.
        address: where it is queried.
        topic: topic of the records.
        key: unique id or key.
        since_ms: store time of the message; the clocks of brokers may differ by some hours.
        unique: whether only the unique id counts.

    Raises:
        BrokerRefused, ConnectFailed, ConnectionLost, CallTimeout: the broker did not answer; code 2: its index is
            incomplete, and it has found nothing.
    """
    begin_ms, end_ms = max(0, since_ms - _SKEW_MS), FOREVER_MS
    found: dict[str, ReceivedMessage] = {}
    for _ in range(PAGES):
        header = QueryMessageRequest(
            topic=topic, key=key, max_num=_PAGE, begin_timestamp=begin_ms, end_timestamp=end_ms, unique_key_query=False
        )
        try:
            reply = await admin.request(address, RequestCode.QUERY_MESSAGE, header)
        except BrokerRefused as refusal:
            if refusal.response_code == ResponseCode.QUERY_NOT_FOUND:
                return Found(_sorted(found), "")
            raise
        page = list(decode_messages(reply.payload, broker, max_body_bytes=1 if unique else _TRACE_BYTES))
        before = len(found)
        found |= {each.offset_id: each for each in page if each.topic == topic and _matches(each, key, unique)}
        if reply.remark:
            return Found(_sorted(found), reply.remark)
        if len(page) < _PAGE:
            return Found(_sorted(found), "")
        oldest_ms = min(each.store_timestamp for each in page)
        if oldest_ms + _INDEX_MS >= end_ms and len(found) == before:  # more than a page in one second
            break
        end_ms = oldest_ms + (_INDEX_MS if oldest_ms + _INDEX_MS < end_ms else -1)
    return Found(_sorted(found), f"more than {len(found)} records with this id")


def _sorted(found: dict[str, ReceivedMessage]) -> tuple[ReceivedMessage, ...]:
    return tuple(sorted(found.values(), key=lambda each: each.store_timestamp))


def _matches(message: ReceivedMessage, key: str, unique: bool) -> bool:
    return message.message_id == key or (not unique and key in (message.keys or "").split(" "))
