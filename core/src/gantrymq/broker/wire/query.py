"""Message queries: 12 by key, 33 by log offset. Records are sent without being copied or decoded.

Source: apache/rocketmq broker/.../processor/QueryMessageProcessor.java.
"""

from __future__ import annotations

from collections.abc import Awaitable

from gantrymq.broker.parts import Parts
from gantrymq.broker.wire.responses import refusal
from gantrymq.errors import RequestRefused
from gantrymq.interfaces import QueryResult
from gantrymq.model.access import Action
from gantrymq.remoting.codes import RequestCode, ResponseCode
from gantrymq.remoting.command import Command, encode_head, response_to
from gantrymq.remoting.connection import Connection
from gantrymq.remoting.headers.pull import QueryMessageRequest, QueryMessageResponse, ViewMessageByIdRequest
from gantrymq.remoting.responses import encode_query_head
from gantrymq.remoting.serving import in_operation, serves


class QueryRequests:
    """Handlers for message queries."""

    def __init__(self, parts: Parts) -> None:
        self._messages = parts.messages

    @serves(RequestCode.QUERY_MESSAGE, action=(Action.SUB, Action.GET), topic="topic")
    def query(self, asked: Command, connection: Connection) -> Command | Awaitable[Command | None] | None:
        """12: query by key; for a unique key, which is marked in the request, the broker sets the limit."""
        header = QueryMessageRequest.from_ext(asked.ext)
        limit = None if header.unique_key_query else header.max_num
        window = header.begin_timestamp, header.end_timestamp
        found = self._messages.query(header.topic, header.key, *window, limit)
        if isinstance(found, QueryResult):
            return _answer(asked, connection, found)
        return _answer_later(asked, connection, found)

    @serves(RequestCode.VIEW_MESSAGE_BY_ID, access=in_operation)
    async def view(self, asked: Command, connection: Connection) -> None:
        """33: return the record at a log offset, of any topic."""
        header = ViewMessageByIdRequest.from_ext(asked.ext)
        record = await self._messages.view(header.offset, connection.principal)
        if not asked.is_oneway and not connection.closed:
            connection.reply_parts([encode_head(response_to(asked), len(record.raw)), record.raw])


async def _answer_later(asked: Command, connection: Connection, found: Awaitable[QueryResult]) -> Command | None:
    return _answer(asked, connection, await found)


def _answer(asked: Command, connection: Connection, found: QueryResult) -> Command | None:
    """Send the result, or return an error response; SYSTEM_BUSY (2) if the index is incomplete."""

    def ends_at(timestamp: int, log_offset: int) -> dict[str, str]:
        return QueryMessageResponse(
            index_last_update_timestamp=timestamp, index_last_update_phyoffset=log_offset
        ).to_ext()

    if not found.records:
        code = ResponseCode.QUERY_NOT_FOUND if found.complete else ResponseCode.SYSTEM_BUSY
        return refusal(asked, RequestRefused(code, found.problem), ends_at(0, 0))
    if not asked.is_oneway and not connection.closed:
        size = sum(map(len, found.records))
        place = found.index_timestamp, found.index_log_offset
        if found.complete:
            head = encode_query_head(asked.serialize, asked.opaque, *place, size)
        else:
            head = encode_head(response_to(asked, 0, found.problem, ends_at(*place)), size)
        connection.reply_parts([head, *found.records])
    return None
