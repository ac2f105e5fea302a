"""Handles requests that brokers send to a client.

    code   request                                handled by
    40     the members of a group changed         every consumer (oneway)
    39     is this transaction committed?         the producers of its group (oneway)
    326    a reply to a request                   the producer that waits for it
    220, 221, 307, 309                            the consumer of the group named

Source: apache/rocketmq client/.../impl/ClientRemotingProcessor.java.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from gantrymq.client.calls.decoding import decode_messages
from gantrymq.client.calls.namespaces import Namespace
from gantrymq.client.connection.request_reply import CORRELATION_ID, read_reply
from gantrymq.client.message import ReceivedMessage
from gantrymq.errors import GantryError
from gantrymq.model.hosts import format_address
from gantrymq.model.properties import PRODUCER_GROUP
from gantrymq.remoting.codes import RequestCode, ResponseCode, request_name
from gantrymq.remoting.command import Command, response_to
from gantrymq.remoting.connection import Connection

logger = logging.getLogger("gantrymq.client")

Check = Callable[[ReceivedMessage, Command, str], Awaitable[None]]  # arguments: half message, request, broker address


class ConsumerRequestHandler(Protocol):
    """Handles broker requests for a consumer of a group."""

    def members_changed(self) -> None:
        """Rebalance: the members of the group changed."""

    async def answer(self, asked: Command) -> Command:
        """Answer a request that names the group. A GantryError becomes an error response with its message."""


class BrokerRequests:
    """The request handler of a client's connections (a `gantrymq.remoting.connection.RequestHandler`)."""

    def __init__(self, namespace: Namespace | None = None) -> None:
        """*namespace* is removed from names in requests and added to names in responses."""
        self._namespace = namespace
        self.consumers: dict[str, ConsumerRequestHandler] = {}  # by group
        self.checks: dict[str, Check] = {}  # by producer group
        self.replies: dict[str, asyncio.Future[ReceivedMessage]] = {}  # by the correlation id of the request
        self._tasks: set[asyncio.Task[None]] = set()

    def requests(self, connection: Connection, commands: list[Command]) -> None:
        """Answer each request in its own task."""
        for asked in commands:
            if self._namespace is not None:
                self._namespace.unwrap_request(asked)
            if asked.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED:
                for consumer in self.consumers.values():
                    consumer.members_changed()
                continue
            task = asyncio.get_running_loop().create_task(self._serve(connection, asked))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Cancel pending requests."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, connection: Connection, asked: Command) -> None:
        try:
            answer = await self._answer(connection, asked)
        except GantryError as problem:
            answer = response_to(asked, ResponseCode.SYSTEM_ERROR, str(problem))
        except Exception as error:
            logger.exception("answering %s", request_name(asked.code))
            answer = response_to(asked, ResponseCode.SYSTEM_ERROR, f"{type(error).__name__}: {error}")
        if answer is not None and not asked.is_oneway and not connection.closed:
            if self._namespace is not None:
                self._namespace.wrap_response(answer)
            connection.reply(asked, answer)

    async def _answer(self, connection: Connection, asked: Command) -> Command | None:
        if asked.code == RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT:
            return self._replied(asked)
        if asked.code == RequestCode.CHECK_TRANSACTION_STATE:
            return await self._check(asked, format_address(*connection.peer))
        if asked.code not in _OF_A_CONSUMER:
            text = f"this client does not answer {request_name(asked.code)}"
            return response_to(asked, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, text)
        ext = asked.ext or {}
        group = ext.get("consumerGroup") or ext.get("group") or ""
        consumer = self.consumers.get(group)
        if consumer is None:
            return response_to(asked, ResponseCode.SYSTEM_ERROR, f"this client has no consumer of group {group}")
        return await consumer.answer(asked)

    def _replied(self, asked: Command) -> Command:
        reply = read_reply(asked)
        waiting = self.replies.get(reply.properties.get(CORRELATION_ID, ""))
        if waiting is not None and not waiting.done():
            waiting.set_result(reply)
        return response_to(asked)

    async def _check(self, asked: Command, address: str) -> Command | None:
        unwrap = None if self._namespace is None else self._namespace.unwrap
        message = next(decode_messages(asked.payload, (asked.ext or {}).get("bname", ""), unwrap=unwrap), None)
        group = "" if message is None else message.properties.get(PRODUCER_GROUP, "")
        if unwrap is not None:
            group = unwrap(group)
        check = self.checks.get(group)
        if message is None or check is None:
            text = f"this client has no producer of group {group} with transactions"
            return response_to(asked, ResponseCode.SYSTEM_ERROR, text)
        await check(message, asked, address)
        return None


_OF_A_CONSUMER = frozenset(
    {
        RequestCode.RESET_CONSUMER_CLIENT_OFFSET,
        RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT,
        RequestCode.GET_CONSUMER_RUNNING_INFO,
        RequestCode.CONSUME_MESSAGE_DIRECTLY,
    }
)
