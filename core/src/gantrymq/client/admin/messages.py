"""Message queries by key, by unique key and by offset id.

A query is sent to every broker of the topic, to its master if it has one. Brokers may return messages that only share
the hash of the key; those are dropped here.

Sources: apache/rocketmq client/.../impl/MQAdminImpl.java (queryMessage, viewMessage),
common/.../message/MessageClientIDSetter.java (getNearlyTimeFromID).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence

import attrs

from gantrymq.client.admin.errors import AnswerUnreadable
from gantrymq.client.admin.topics import TopicCalls
from gantrymq.client.argument_types import check_number
from gantrymq.client.calls.client_ids import parse_unique_id
from gantrymq.client.calls.decoding import decode_messages
from gantrymq.client.message import ReceivedMessage
from gantrymq.errors import BrokerRefused, ClientError, NoMessageFound, NoRoute
from gantrymq.formats.compression import MAX_BODY_BYTES
from gantrymq.model.hosts import format_address
from gantrymq.model.ids import parse_offset_id
from gantrymq.remoting.codes import RequestCode, ResponseCode
from gantrymq.remoting.headers.pull import QueryMessageRequest, ViewMessageByIdRequest

log = logging.getLogger(__name__)

FOREVER_MS = 2**63 - 1
_UNIQUE_MARGIN_MS = 13 * 3_600_000  # maximum difference between a client's local time and ours
_MAX_BY_KEY = 64  # maxMsgsNumBatch of brokers
_LEAST_LIMIT = 32  # a broker may have a lower limit than the one asked for; then the next page may be empty
_LONG_BYTES = 4 * 1024 * 1024  # answers of our brokers end before 8 MiB; the next message may have half of that
_MOST_BY_UNIQUE_KEY = 32  # MQAdminImpl.queryMessageByUniqKey asks for as many


@attrs.frozen
class KeyPage:
    """A page of the messages with a key, see `Admin.query_message_page`."""

    messages: tuple[ReceivedMessage, ...]  # newest first, by store time
    next_end_ms: int | None  # highest store time of the next page; None if there are no earlier messages
    hidden: bool
    """Whether a broker has more messages with the key within one second than it returns: some may be missing."""
    problems: Mapping[str, str]  # why messages of a broker may be missing: no answer, or its index lags behind

    @property
    def more(self) -> bool:
        """Whether there may be earlier messages."""
        return self.next_end_ms is not None


@attrs.frozen
class _KeyAnswer:
    """The answer of one broker."""

    broker: str
    right: tuple[ReceivedMessage, ...] = ()
    count: int = 0  # messages in the answer, some of them perhaps with another key
    size: int = 0  # bytes
    oldest_ms: int = 0  # store time of the oldest message in the answer
    nothing: str = ""  # why no message was found
    problem: str = ""
    error: ClientError | None = None
    more: bool = False
    hidden: bool = False

    def full(self, limit: int) -> bool:
        """Return whether the broker may have earlier messages: the answer has reached its limit."""
        return self.count >= min(limit, _LEAST_LIMIT) or self.size >= _LONG_BYTES


class MessageCalls(TopicCalls):
    """Part of `Admin`."""

    async def query_message(
        self,
        topic: str,
        key: str,
        begin_ms: int = 0,
        end_ms: int = FOREVER_MS,
        limit: int = 64,
        *,
        max_body_bytes: int = MAX_BODY_BYTES,
    ) -> tuple[ReceivedMessage, ...]:
        """Return the messages of *topic* with *key* among their keys, sorted by store time.

        Args:
            topic: topic of the messages.
            key: one of their keys, or their unique key.
            begin_ms: lowest store time; brokers index it in seconds.
            end_ms: highest store time.
            limit: maximum messages per broker, the newest first; brokers allow 64 by default. `query_message_page`
                tells whether there are more.
            max_body_bytes: how much of a compressed body to decompress, see `ReceivedMessage.is_shortened`.

        Raises:
            NoMessageFound: no broker has such a message; includes the answer of each.
            NoRoute: no name server knows the topic.
            BrokerRefused, ConnectFailed, ConnectionLost, CallTimeout: no message was found and a broker failed; code 2:
                its index is not up to date with its log, retry later.
        """
        request = _request(topic, key, begin_ms, end_ms, limit)
        return await self._query(request, _has_key, max_body_bytes, await self._brokers_of(topic))

    async def query_unique(
        self,
        topic: str,
        unique_key: str,
        begin_ms: int | None = None,
        *,
        broker: str | None = None,
        address: str | None = None,
        max_body_bytes: int = MAX_BODY_BYTES,
    ) -> tuple[ReceivedMessage, ...]:
        """Return the messages of *topic* with a client's unique id; several if it was sent twice or in a batch.

        Args:
            topic: topic of the messages.
            unique_key: a client's unique id.
            begin_ms: lowest store time; None for shortly before the time in the id.
            broker: name of the only broker to ask; None for all of the topic.
            address: ip:port of *broker*; None to request the route of the topic.
            max_body_bytes: as for `query_message`.

        Raises:
            as `query_message`.
        """
        if begin_ms is None:
            begin_ms = self._earliest_store_time(unique_key)
        request = _request(topic, unique_key, begin_ms, FOREVER_MS, _MOST_BY_UNIQUE_KEY)
        request.unique_key_query = True
        known = [(broker, address)] if broker is not None and address is not None else None
        return await self._query(request, _is_unique, max_body_bytes, known or await self._brokers_of(topic, broker))

    async def view_message(
        self, offset_id: str, *, address: str | None = None, max_body_bytes: int = MAX_BODY_BYTES
    ) -> ReceivedMessage:
        """Return the message with an offset id from the broker named in the id; the first message of an inner batch.

        Args:
            offset_id: id from the broker.
            address: of a broker to ask instead of the one in the id, for what it has at the log offset. That is the
                message with the id only if its own offset id is the same.
            max_body_bytes: as for `query_message`.

        Raises:
            ClientError: *offset_id* is malformed.
            BrokerRefused: code 1, the broker has no message there.
            ConnectFailed, ConnectionLost, CallTimeout: it does not answer.
        """
        named, log_offset = _parse_id(offset_id)
        address = address or named
        reply = await self.request(
            address, RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageByIdRequest(topic="", offset=log_offset)
        )
        found = list(decode_messages(reply.payload, "", unwrap=self._started().unwrap, max_body_bytes=max_body_bytes))
        if not found:
            raise AnswerUnreadable(f"{address} returned no message for the id")
        return found[0]

    def _earliest_store_time(self, unique_key: str) -> int:
        """Return a lower bound of the store time of a message with that id; 0 if the id contains no time."""
        try:
            parts = parse_unique_id(unique_key)
        except ValueError:
            return 0
        clock = self._started().world.clock
        now = clock.now_ms()
        return max(parts.time_ms(now, clock.utc_offset_ms(now)) - _UNIQUE_MARGIN_MS, 0)

    async def query_message_page(
        self,
        topic: str,
        key: str,
        begin_ms: int = 0,
        end_ms: int = FOREVER_MS,
        limit: int = _MAX_BY_KEY,
        *,
        broker: str | None = None,
        max_body_bytes: int = MAX_BODY_BYTES,
    ) -> KeyPage:
        """Return the newest messages of *topic* with *key* among their keys, and whether there may be earlier ones.

        Brokers return up to 64 messages of the newest; earlier pages follow by passing `KeyPage.next_end_ms` as
        *end_ms*. A page has the messages of all brokers after one time, so the pages together are in order and have
        each message once.

        Args:
            topic: topic of the messages.
            key: one of their keys, or their unique key.
            begin_ms: lowest store time; brokers index it in seconds.
            end_ms: highest store time.
            limit: messages to ask each broker for; brokers allow 64 by default.
            broker: name of the only broker to ask; None for all of the topic.
            max_body_bytes: as for `query_message`.

        Raises:
            InvalidParameter: *limit* is less than 1.
            NoRoute: no name server knows the topic, or *broker* does not have it.
            BrokerRefused, ConnectFailed, ConnectionLost, CallTimeout: no broker answered.
        """
        check_number("limit", limit, 1)
        brokers, hidden = await self._brokers_of(topic, broker), False
        while True:
            asked = [self._newest(each, topic, key, begin_ms, end_ms, limit, max_body_bytes) for each in brokers]
            found = await asyncio.gather(*asked)
            failed = [each.error for each in found if each.error is not None]
            if len(failed) == len(found):
                raise failed[0]
            problems = {each.broker: each.problem for each in found if each.problem}
            hidden = hidden or any(each.hidden for each in found)
            # earlier messages of one broker may be missing, so those of the others have to wait for the next page
            cut_ms = max((each.oldest_ms for each in found if each.more), default=None)
            messages = [
                message
                for each in found
                for message in each.right
                if message.store_timestamp <= end_ms and (cut_ms is None or message.store_timestamp > cut_ms)
            ]
            if messages or cut_ms is None:
                messages.sort(key=lambda message: (message.store_timestamp, message.log_offset), reverse=True)
                return KeyPage(tuple(messages), cut_ms, hidden, problems)
            end_ms = cut_ms

    async def _newest(
        self, broker: tuple[str, str], topic: str, key: str, begin_ms: int, end_ms: int, limit: int, most: int
    ) -> _KeyAnswer:
        """Return the newest messages of one broker, at least one stored before *end_ms* if there is any."""
        request = _request(topic, key, begin_ms, end_ms, limit)
        (found,) = await self._answers([broker], request, _has_key, most)
        if not found.full(limit) or found.oldest_ms < end_ms:
            return attrs.evolve(found, more=found.full(limit))
        # all were stored in the last second: the index has a resolution of a second, and this one has too many
        request = _request(topic, key, begin_ms, end_ms - 1000, limit)
        (earlier,) = await self._answers([broker], request, _has_key, most)
        return attrs.evolve(
            earlier,
            right=(*(each for each in found.right if each.store_timestamp >= end_ms), *earlier.right),
            more=earlier.full(limit),
            hidden=True,
        )

    async def _query(
        self,
        request: QueryMessageRequest,
        matches: Callable[[ReceivedMessage, str], bool],
        max_body_bytes: int,
        brokers: Sequence[tuple[str, str]],
    ) -> tuple[ReceivedMessage, ...]:
        topic, key = request.topic, request.key
        answers = await self._answers(brokers, request, matches, max_body_bytes)
        found = [message for each in answers for message in each.right]
        if not found and (failed := [each.error for each in answers if each.error]):
            raise failed[0]
        if not found:
            reasons = "; ".join(f"{each.broker}: {each.nothing}" for each in answers)
            raise NoMessageFound(f"topic {topic} has no message with key {key}; {reasons}")
        return tuple(sorted(found, key=lambda each: each.store_timestamp))

    async def _brokers_of(self, topic: str, only: str | None = None) -> list[tuple[str, str]]:
        """Return names and addresses of the brokers of a topic, or of the one named *only*."""
        route = await self.route(topic)
        brokers = [
            (each.name, address)
            for each in route.brokers
            if (address := each.readable()) is not None and only in (None, each.name)
        ]
        if not brokers:
            raise NoRoute(f"topic {topic} has no broker that can be asked")
        return brokers

    async def _answers(
        self,
        brokers: Sequence[tuple[str, str]],
        request: QueryMessageRequest,
        matches: Callable[[ReceivedMessage, str], bool],
        max_body_bytes: int,
    ) -> list[_KeyAnswer]:
        """Send *request* to all *brokers*."""
        topic, key = request.topic, request.key
        answers = await asyncio.gather(
            *(self.request(address, RequestCode.QUERY_MESSAGE, request) for _, address in brokers),
            return_exceptions=True,
        )
        found: list[_KeyAnswer] = []
        for (name, _), answer in zip(brokers, answers, strict=True):
            if isinstance(answer, BrokerRefused) and answer.response_code == ResponseCode.QUERY_NOT_FOUND:
                found.append(_KeyAnswer(name, nothing=answer.remark))
            elif isinstance(answer, ClientError):
                found.append(_KeyAnswer(name, problem=str(answer), error=answer))
            elif isinstance(answer, BaseException):
                raise answer
            else:
                if answer.remark:
                    log.warning("%s: %s", name, answer.remark)
                unwrap = self._started().unwrap
                every = list(decode_messages(answer.payload, name, unwrap=unwrap, max_body_bytes=max_body_bytes))
                found.append(
                    _KeyAnswer(
                        name,
                        tuple(each for each in every if each.topic == topic and matches(each, key)),
                        len(every),
                        len(answer.payload),
                        min((each.store_timestamp for each in every), default=0),
                        nothing=f"{len(every)} messages have the same hash and another key",
                        problem=answer.remark or "",
                    )
                )
        return found


def _parse_id(offset_id: str) -> tuple[str, int]:
    """Return the broker address and the log offset in an offset id. Raises ClientError if it is malformed."""
    try:
        host, port, log_offset = parse_offset_id(offset_id)
    except ValueError as problem:
        raise ClientError(str(problem)) from None
    return format_address(host, port), log_offset


def _request(topic: str, key: str, begin_ms: int, end_ms: int, limit: int) -> QueryMessageRequest:
    return QueryMessageRequest(
        topic=topic, key=key, max_num=limit, begin_timestamp=begin_ms, end_timestamp=end_ms, unique_key_query=False
    )


def _has_key(message: ReceivedMessage, key: str) -> bool:
    return key in (message.keys or "").split(" ") or _is_unique(message, key)


def _is_unique(message: ReceivedMessage, key: str) -> bool:
    return message.properties.get("UNIQ_KEY") == key
