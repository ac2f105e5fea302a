"""Message queries by key, by unique key and by offset id.

A query is sent to every broker of the topic, to its master if it has one. Brokers may return messages that only share
the hash of the key; those are dropped here.

Sources: apache/rocketmq client/.../impl/MQAdminImpl.java (queryMessage, viewMessage),
common/.../message/MessageClientIDSetter.java (getNearlyTimeFromID).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from gantrymq.client.admin.errors import AnswerUnreadable
from gantrymq.client.admin.topics import TopicCalls
from gantrymq.client.calls.decoding import decode_messages
from gantrymq.client.calls.identity import parse_unique_id
from gantrymq.client.message import ReceivedMessage
from gantrymq.errors import BrokerRefused, ClientError, NoMessageFound, NoRoute
from gantrymq.model.hosts import format_address
from gantrymq.model.ids import parse_offset_id
from gantrymq.remoting.codes import RequestCode, ResponseCode
from gantrymq.remoting.headers.pull import QueryMessageRequest, ViewMessageByIdRequest

__all__ = ["FOREVER_MS", "MessageCalls"]

log = logging.getLogger(__name__)

FOREVER_MS = 2**63 - 1
UNIQUE_MARGIN_MS = 13 * 3_600_000  # maximum difference between a client's local time and ours
MOST_BY_UNIQUE_KEY = 32  # MQAdminImpl.queryMessageByUniqKey asks for as many


class MessageCalls(TopicCalls):
    """Part of `Admin`."""

    async def query_message(
        self, topic: str, key: str, begin_ms: int = 0, end_ms: int = FOREVER_MS, limit: int = 64
    ) -> tuple[ReceivedMessage, ...]:
        """Return the messages of *topic* with *key* among their keys, sorted by store time.

        Args:
            topic: topic of the messages.
            key: one of their keys, or their unique key.
            begin_ms: lowest store time; brokers index it in seconds.
            end_ms: highest store time.
            limit: maximum messages per broker, the newest first; brokers allow 64 by default.

        Raises:
            NoMessageFound: no broker has such a message; includes the answer of each.
            NoRoute: no name server knows the topic.
            BrokerRefused, ConnectFailed, ConnectionLost, CallTimeout: no message was found and a broker failed; code 2:
                its index is not up to date with its log, retry later.
        """
        return await self._query(_request(topic, key, begin_ms, end_ms, limit), _has_key)

    async def query_unique(
        self, topic: str, unique_key: str, begin_ms: int | None = None
    ) -> tuple[ReceivedMessage, ...]:
        """Return the messages of *topic* with a client's unique id; several if it was sent twice or in a batch.

        Args:
            topic: topic of the messages.
            unique_key: a client's unique id.
            begin_ms: lowest store time; None for shortly before the time in the id.

        Raises:
            as `query_message`.
        """
        if begin_ms is None:
            begin_ms = self._earliest_store_time(unique_key)
        request = _request(topic, unique_key, begin_ms, FOREVER_MS, MOST_BY_UNIQUE_KEY)
        request.unique_key_query = True
        return await self._query(request, _is_unique)

    async def view_message(self, offset_id: str) -> ReceivedMessage:
        """Return the message with an offset id from the broker named in the id; the first message of an inner batch.

        Raises:
            ClientError: *offset_id* is malformed.
            BrokerRefused: code 1, the broker has no message there.
            ConnectFailed, ConnectionLost, CallTimeout: it does not answer.
        """
        address, log_offset = _parse_id(offset_id)
        reply = await self.request(
            address, RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageByIdRequest(topic="", offset=log_offset)
        )
        found = list(decode_messages(reply.payload, "", unwrap=self._started().unwrap))
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
        return max(parts.time_ms(now, clock.utc_offset_ms(now)) - UNIQUE_MARGIN_MS, 0)

    async def _query(
        self, request: QueryMessageRequest, matches: Callable[[ReceivedMessage, str], bool]
    ) -> tuple[ReceivedMessage, ...]:
        topic, key = request.topic, request.key
        route = await self.route(topic)
        brokers = [(broker.name, address) for broker in route.brokers if (address := broker.readable()) is not None]
        if not brokers:
            raise NoRoute(f"topic {topic} has no broker that can be asked")
        answers = await asyncio.gather(
            *(self.request(address, RequestCode.QUERY_MESSAGE, request) for _, address in brokers),
            return_exceptions=True,
        )
        found: list[ReceivedMessage] = []
        reasons: list[str] = []
        unknown: list[ClientError] = []
        for (name, _), answer in zip(brokers, answers, strict=True):
            if isinstance(answer, BrokerRefused) and answer.response_code == ResponseCode.QUERY_NOT_FOUND:
                reasons.append(f"{name}: {answer.remark}")
            elif isinstance(answer, ClientError):
                unknown.append(answer)
            elif isinstance(answer, BaseException):
                raise answer
            else:
                if answer.remark:
                    log.warning("%s: %s", name, answer.remark)
                all_found = list(decode_messages(answer.payload, name, unwrap=self._started().unwrap))
                right = [each for each in all_found if each.topic == topic and matches(each, key)]
                found += right
                if not right:
                    reasons.append(f"{name}: {len(all_found)} messages have the same hash and another key")
        if not found and unknown:
            raise unknown[0]
        if not found:
            raise NoMessageFound(f"topic {topic} has no message with key {key}; " + "; ".join(reasons))
        return tuple(sorted(found, key=lambda each: each.store_timestamp))


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
