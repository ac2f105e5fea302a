"""Requests of administration: one request, its response, and its errors. All parts of the facade use this."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

from gantrymq.client.admin.errors import AnswerUnreadable, NotABroker, NotANameServer, RequestNotServed, parsing
from gantrymq.client.argument_types import check_seconds
from gantrymq.client.calls.rpc import refused
from gantrymq.client.connection.base import Part
from gantrymq.client.errors import RequestRefusedAsUnknown
from gantrymq.errors import BrokerRefused, ClientError, NoRoute
from gantrymq.loose_json import loads
from gantrymq.remoting.codes import NAME_SERVER_CODES, RequestCode, ResponseCode
from gantrymq.remoting.command import Command
from gantrymq.remoting.headers.base import Header
from gantrymq.remoting.headers.nameserver import GetRouteinfoByTopicRequest

_ADMIN_TIMEOUT_S: Final = 5.0  # as DefaultMQAdminExt
_LONG_BYTES: Final = 64 * 1024  # responses from this size are decoded in a thread; on the loop they take some 5 ms
AT_ONCE: Final = 64  # concurrent requests to one broker

Given = TypeVar("Given")
Got = TypeVar("Got")


class AdminRequests(Part):
    """Sends requests to name servers and brokers. Does not register with brokers.

    Attributes:
        timeout_s: of every call, in seconds.
    """

    def __init__(self) -> None:
        super().__init__()
        self.timeout_s = _ADMIN_TIMEOUT_S

    async def request(
        self,
        address: str,
        code: RequestCode,
        header: Header | None = None,
        body: bytes | None = None,
        *,
        timeout_s: float | None = None,
    ) -> Command:
        """Send a request to one server and return its response, whose code is SUCCESS.

        *timeout_s* is for this request only, instead of the attribute.

        Raises:
            InvalidParameter: *timeout_s* is not a number.
            RequestNotServed: the server does not know the request.
            NotABroker, NotANameServer: the server is a name server, or a broker.
            BrokerRefused: the response has another code.
            ConnectFailed, ConnectionLost, CallTimeout: no response.
        """
        if timeout_s is None:
            timeout_s = self.timeout_s
        else:
            check_seconds(timeout_s)
        try:
            return await self._started().rpc.call(address, code, header, body, timeout_s=timeout_s)
        except BrokerRefused as refusal:
            raise await self._explained(refusal, code) from None

    async def request_json(
        self,
        address: str,
        code: RequestCode,
        header: Header | None = None,
        body: bytes | None = None,
        *,
        what: str,
    ) -> dict[Any, Any]:
        """Send a request and return the JSON object in its response. *what* names the object in errors.

        Raises:
            AnswerUnreadable: the response is not a JSON object.
            as `request`: all other errors.
        """
        return await self._parsed(await self.request(address, code, header, body), f"{what} of {address}", _unchanged)

    async def request_parsed(
        self,
        address: str,
        code: RequestCode,
        parse: Callable[[dict[Any, Any]], Got],
        header: Header | None = None,
        body: bytes | None = None,
        *,
        what: str,
        timeout_s: float | None = None,
    ) -> Got:
        """Send a request and return the result of *parse* for the JSON object in its response.

        A long response is read and parsed in a thread. *timeout_s* as for `request`.

        Raises:
            AnswerUnreadable: the response is not a JSON object, or *parse* failed; *what* names it.
            as `request`: all other errors.
        """
        reply = await self.request(address, code, header, body, timeout_s=timeout_s)
        return await self._parsed(reply, what, parse)

    async def _parsed(self, reply: Command, what: str, parse: Callable[[dict[Any, Any]], Got]) -> Got:
        """Return the result of *parse* for the JSON object in *reply*. A long one is read and parsed in a thread."""

        def read() -> Got:
            members = members_of(reply, what)
            with parsing(what):
                return parse(members)

        if len(reply.payload) < _LONG_BYTES:
            return read()
        return await self._started().world.workers.run(read)

    async def _request_name_server(
        self, code: RequestCode, header: Header | None, server: str | None = None
    ) -> Command:
        """Return the response of *server*, or of the first name server that responds."""
        if server is not None:
            return await self.request(server, code, header)
        reply, server = await self._started().routes.request_any(code, header, self.timeout_s)
        if reply.code == ResponseCode.TOPIC_NOT_EXIST and isinstance(header, GetRouteinfoByTopicRequest):
            hint = await self._started().routes.hint(header.topic)
            raise NoRoute(f"no name server knows topic {header.topic}{hint}")
        if reply.code != ResponseCode.SUCCESS:
            raise await self._explained(refused(reply, server, code), code)
        return reply

    async def _explained(self, refusal: BrokerRefused, code: RequestCode) -> BrokerRefused:
        """Return the error to raise for *refusal*: a server that does not know the request may be of the other kind."""
        if refusal.response_code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            return refusal
        for_name_servers, address = code in NAME_SERVER_CODES, refusal.address
        kind: type[RequestRefusedAsUnknown] = RequestNotServed
        try:
            reply = await self._started().rpc.exchange(
                address, RequestCode.GET_BROKER_CLUSTER_INFO, timeout_s=self.timeout_s
            )
        except ClientError:
            return kind(code, address, refusal.remark)
        if for_name_servers != (reply.code == ResponseCode.SUCCESS):  # every name server serves GET_BROKER_CLUSTER_INFO
            kind = NotANameServer if for_name_servers else NotABroker
        return kind(code, address, refusal.remark)


def _unchanged(members: dict[Any, Any]) -> dict[Any, Any]:
    return members


def members_of(reply: Command, what: str) -> dict[Any, Any]:
    """Return the JSON object in a response. Raises AnswerUnreadable if it is not one."""
    with parsing(what):
        data = loads(reply.payload or b"{}")
    if not isinstance(data, dict):
        raise AnswerUnreadable(f"{what} are not a JSON object: {bytes(reply.payload[:40])!r}")
    return data


async def each(given: Sequence[Given], request: Callable[[Given], Awaitable[Got]]) -> list[Got]:
    """Call *ask* for each of *given*, AT_ONCE at a time; return the results in order.

    Raises:
        the exception of the first call that failed, once all concurrent calls have ended.
    """
    results: list[Got] = []
    for begin in range(0, len(given), AT_ONCE):
        done = await asyncio.gather(*(request(one) for one in given[begin : begin + AT_ONCE]), return_exceptions=True)
        for result in done:
            if isinstance(result, BaseException):
                raise result
            results.append(result)
    return results
