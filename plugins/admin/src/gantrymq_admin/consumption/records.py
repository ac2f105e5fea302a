"""Records with one unique id in a topic, queried broker by broker: copies of a message keep its unique id.

A query of the index returns the newest records, 64 at most, so older ones are queried with an earlier end.

Source: apache/rocketmq broker/.../processor/QueryMessageProcessor.java, store/.../index/IndexService.java.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from gantrymq.client import Admin, ReceivedMessage
from gantrymq.client.admin import FOREVER_MS
from gantrymq.errors import BrokerRefused
from gantrymq.plugin.client import decode_messages
from gantrymq.plugin.headers import QueryMessageRequest
from gantrymq.plugin.remoting import RequestCode, ResponseCode

__all__ = ["Found", "records_at"]

PAGE: Final = 64
PAGES: Final = 8
SKEW_MS: Final = 13 * 3_600_000  # as `gantrymq.client.admin.messages.UNIQUE_MARGIN_MS`
INDEX_MS: Final = 1000  # the index has times in seconds
TRACE_BYTES: Final = 128 * 1024  # of a body; clients end a message with traces at 128,000 bytes


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
    begin_ms, end_ms = max(0, since_ms - SKEW_MS), FOREVER_MS
    found: dict[str, ReceivedMessage] = {}
    for _ in range(PAGES):
        header = QueryMessageRequest(
            topic=topic, key=key, max_num=PAGE, begin_timestamp=begin_ms, end_timestamp=end_ms, unique_key_query=False
        )
        try:
            reply = await admin.request(address, RequestCode.QUERY_MESSAGE, header)
        except BrokerRefused as refusal:
            if refusal.response_code == ResponseCode.QUERY_NOT_FOUND:
                return Found(_sorted(found), "")
            raise
        page = list(decode_messages(reply.payload, broker, max_body_bytes=1 if unique else TRACE_BYTES))
        before = len(found)
        found |= {each.offset_id: each for each in page if each.topic == topic and _matches(each, key, unique)}
        if reply.remark:
            return Found(_sorted(found), reply.remark)
        if len(page) < PAGE:
            return Found(_sorted(found), "")
        oldest_ms = min(each.store_timestamp for each in page)
        if oldest_ms + INDEX_MS >= end_ms and len(found) == before:  # more than a page in one second
            break
        end_ms = oldest_ms + (INDEX_MS if oldest_ms + INDEX_MS < end_ms else -1)
    return Found(_sorted(found), f"more than {len(found)} records with this id")


def _sorted(found: dict[str, ReceivedMessage]) -> tuple[ReceivedMessage, ...]:
    return tuple(sorted(found.values(), key=lambda each: each.store_timestamp))


def _matches(message: ReceivedMessage, key: str, unique: bool) -> bool:
    return message.message_id == key or (not unique and key in (message.keys or "").split(" "))
