"""Asking servers: one request, its answer, and what can go wrong. All parts of the facade stand on this."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar, Unpack

from gantrymq.client.admin.errors import AnswerUnreadable, NotABroker, NotANameServer, RequestNotServed, parsing
from gantrymq.client.base import BaseClient
from gantrymq.client.connection_config import ConnectOptions
from gantrymq.client.rpc import refused
from gantrymq.errors import BrokerRefused, ClientError, NoRoute
from gantrymq.loose_json import loads
from gantrymq.remoting.codes import RequestCode, ResponseCode
from gantrymq.remoting.command import Command
from gantrymq.remoting.headers.base import Header
from gantrymq.remoting.headers.nameserver import GetRouteinfoByTopicRequest
from gantrymq.remoting.wrong_port import OF_NAME_SERVERS

__all__ = ["AdminRequests", "each"]

ADMIN_TIMEOUT_S: Final = 5.0
LONG_BYTES: Final = 256 * 1024  # an answer from here on is read off the event loop
AT_ONCE: Final = 64  # requests under way to one broker

Given = TypeVar("Given")
Got = TypeVar("Got")


class AdminRequests(BaseClient):
    """Asks name servers and brokers; used as ``async with``. Registers with no broker."""

    def __init__(
        self, namesrv: str | None = None, *, timeout_s: float = ADMIN_TIMEOUT_S, **connect: Unpack[ConnectOptions]
    ) -> None:
        """Nothing is opened before `start`.

        Args:
            namesrv: ``host:port;host:port``; None for $NAMESRV_ADDR, then 127.0.0.1:9876.
            timeout_s: of every call.
            **connect: see `ConnectOptions`.

        Raises:
            InvalidParameter: there is no option of a name given.
        """
        super().__init__(namesrv, **connect)
        self._timeout_s = timeout_s

    async def request(
        self, address: str, code: RequestCode, header: Header | None = None, body: bytes | None = None
    ) -> Command:
        """Ask one server anything; the answer says SUCCESS.

        Raises:
            RequestNotServed: the server does not know the request.
            NotABroker, NotANameServer: the address is that of a name server, or of a broker.
            BrokerRefused: the answer has another code.
            ConnectFailed, ConnectionLost, CallTimeout: there is no answer.
        """
        try:
            return await self._started().rpc.call(address, code, header, body, timeout_s=self._timeout_s)
        except BrokerRefused as refusal:
            raise await self._clearer(refusal, code) from None

    async def request_json(
        self,
        address: str,
        code: RequestCode,
        header: Header | None = None,
        body: bytes | None = None,
        *,
        what: str,
    ) -> dict[Any, Any]:
        """As `request`, for a request whose answer is a JSON object: the object. *what* names it in errors.

        Raises:
            AnswerUnreadable: it is none.
            as `request`: otherwise.
        """
        reply, what = await self.request(address, code, header, body), f"{what} of {address}"
        if len(reply.payload) < LONG_BYTES:
            return members_of(reply, what)
        return await self._started().world.workers.run(members_of, reply, what)  # a second for 10 MB

    async def _request_name_server(
        self, code: RequestCode, header: Header | None, server: str | None = None
    ) -> Command:
        """The answer of *server*, or of the first name server that gives one."""
        if server is not None:
            return await self.request(server, code, header)
        reply, server = await self._started().routes.request_any(code, header, self._timeout_s)
        if reply.code == ResponseCode.TOPIC_NOT_EXIST and isinstance(header, GetRouteinfoByTopicRequest):
            raise NoRoute(f"no name server knows topic {header.topic}")
        if reply.code != ResponseCode.SUCCESS:
            raise await self._clearer(refused(reply, server), code)
        return reply

    async def _clearer(self, refusal: BrokerRefused, code: RequestCode) -> BrokerRefused:
        """What to raise in place of *refusal*: a server that does not know the request may be of the other kind."""
        if refusal.response_code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            return refusal
        for_name_servers, address = code in OF_NAME_SERVERS, refusal.address
        kind: type[NotABroker | NotANameServer | RequestNotServed] = RequestNotServed
        try:
            reply = await self._started().rpc.exchange(
                address, RequestCode.GET_BROKER_CLUSTER_INFO, timeout_s=self._timeout_s
            )
        except ClientError:
            return kind(code, address, refusal.remark)
        if for_name_servers != (reply.code == ResponseCode.SUCCESS):  # every name server serves that
            kind = NotANameServer if for_name_servers else NotABroker
        return kind(code, address, refusal.remark)


def members_of(reply: Command, what: str) -> dict[Any, Any]:
    """The JSON object in an answer. Raises AnswerUnreadable: there is none."""
    with parsing(what):
        data = loads(reply.payload or b"{}")
    if not isinstance(data, dict):
        raise AnswerUnreadable(f"{what} are no JSON object: {bytes(reply.payload[:40])!r}")
    return data


async def each(given: Sequence[Given], request: Callable[[Given], Awaitable[Got]]) -> list[Got]:
    """Ask for each, AT_ONCE at a time; the results in order.

    Raises:
        what the first that failed raised, when all that were under way have ended.
    """
    results: list[Got] = []
    for begin in range(0, len(given), AT_ONCE):
        done = await asyncio.gather(*(request(one) for one in given[begin : begin + AT_ONCE]), return_exceptions=True)
        for result in done:
            if isinstance(result, BaseException):
                raise result
            results.append(result)
    return results
