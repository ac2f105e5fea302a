"""One request and its answer, with typed headers and errors instead of codes.

Source of what codes mean: apache/rocketmq client/.../impl/MQClientAPIImpl.java.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from gantrymq.client.credentials import access_denied
from gantrymq.client.errors import AnswerUnreadable, RequestMalformed
from gantrymq.client.outages import UNREACHABLE, Outages
from gantrymq.client.rpc_hooks import RpcHooks
from gantrymq.errors import BrokerRefused, CallTimeout, LocalProtocolError, RefusedWith
from gantrymq.remoting import command
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.codes import RequestCode, ResponseCode, request_name
from gantrymq.remoting.command import Command
from gantrymq.remoting.headers.base import Header
from gantrymq.world import Clock

__all__ = ["CALL_TIMEOUT_S", "OFFSET_CALL_TIMEOUT_S", "RpcClient", "refused", "reply_header"]

CALL_TIMEOUT_S = 3.0  # most control calls
OFFSET_CALL_TIMEOUT_S = 5.0  # offsets

HeaderType = TypeVar("HeaderType", bound=Header)


class RpcClient:
    """Requests over the connections of one client."""

    def __init__(
        self, remoting: RemotingClient, clock: Clock, hooks: RpcHooks | None = None, outages: Outages | None = None
    ) -> None:
        """*hooks* are applied to every request, and to its answer; *outages* hears of servers that answer again."""
        self._remoting = remoting
        self._clock = clock
        self._hooks = hooks
        self._outages = outages or Outages(clock)

    async def call(
        self,
        address: str,
        code: RequestCode,
        header: Header | None = None,
        body: bytes | None = None,
        timeout_s: float = CALL_TIMEOUT_S,
    ) -> Command:
        """Send one request and return the answer, which says SUCCESS.

        Args:
            address: ip:port of the peer.
            code: of the request.
            header: its fields, if it has any.
            body: its body, if it has one.
            timeout_s: seconds, from when the request is written; where a connection must be made first, that counts,
                and may take its own 3 s.

        Raises:
            BrokerRefused: the answer has another code.
            ConnectFailed, ConnectionLost, CallTimeout: there is no answer.
            RequestMalformed: the address is none, or the request cannot be written.
        """
        reply = await self.exchange(address, code, header, body, timeout_s)
        if reply.code != ResponseCode.SUCCESS:
            raise refused(reply, address)
        return reply

    async def exchange(
        self,
        address: str,
        code: RequestCode,
        header: Header | None = None,
        body: bytes | None = None,
        timeout_s: float = CALL_TIMEOUT_S,
    ) -> Command:
        """As `call`, but the answer may have any code."""
        ext = header.to_ext() if header is not None else None
        return await self.send(address, command.request(code, ext, body), timeout_s)

    async def send(self, address: str, request: Command, timeout_s: float) -> Command:
        """Exchange a request that is already made, once; the answer may have any code. Errors as `call`."""
        hooks = self._hooks
        if hooks is not None:
            address = hooks.leaving(address, request)
        try:
            if self._remoting.connected(address) is None:
                begun = self._clock.monotonic()
                await self._remoting.connect(address)
                timeout_s -= self._clock.monotonic() - begun
                if timeout_s <= 0:
                    raise CallTimeout(f"{address}: connecting took the time there was for {request_name(request.code)}")
            answer = await self._remoting.call(address, request, timeout_s)
        except LocalProtocolError as problem:
            raise RequestMalformed(str(problem)) from problem
        except UNREACHABLE as problem:
            problem.address = address
            raise
        if self._outages.away:
            self._outages.answered(address)
        if hooks is not None:
            hooks.answered(request.code, answer)
        return answer

    async def oneway(
        self, address: str, request: Command, timeout_s: float, dropped: Callable[[], object] | None = None
    ) -> None:
        """Hand a request without an answer to a connection; *dropped* is called if it cannot be written after all.

        Raises:
            ConnectFailed: no connection could be made.
            CallTimeout: the peer takes nothing for *timeout_s* seconds.
            RequestMalformed: it cannot be written.
        """
        if self._hooks is not None:
            address = self._hooks.leaving(address, request)
        try:
            (await self._remoting.writable(address, timeout_s)).oneway(request, dropped)
        except LocalProtocolError as problem:
            raise RequestMalformed(str(problem)) from problem

    async def connect(self, address: str) -> None:
        """Open the connection to *address* if there is none.

        Raises:
            ConnectFailed: it could not be made.
            RequestMalformed: the address is none.
        """
        try:
            await self._remoting.connect(address)
        except LocalProtocolError as problem:
            raise RequestMalformed(str(problem)) from problem
        except UNREACHABLE as problem:
            problem.address = address
            raise

    def connected(self, address: str) -> bool:
        """Whether there is an open connection to *address*."""
        return self._remoting.connected(address) is not None

    def disconnect(self, address: str) -> None:
        """Close the connection to *address*, if there is one."""
        connection = self._remoting.connected(address)
        if connection is not None:
            connection.close()


def refused(reply: Command, address: str) -> BrokerRefused:
    """The error that an answer with a code other than SUCCESS stands for."""
    remark = (reply.remark or "").split("\nSee https://", 1)[0].strip()
    return access_denied(reply.code, remark, address) or BrokerRefused(reply.code, remark or "no reason given", address)


def reply_header(header: type[HeaderType], reply: Command, address: str) -> HeaderType:
    """The typed header of an answer.

    Raises:
        AnswerUnreadable: a field is missing or of the wrong kind.
    """
    try:
        return header.from_ext(reply.ext)
    except RefusedWith as problem:
        raise AnswerUnreadable(f"the answer of {address} cannot be read: {problem}") from None
