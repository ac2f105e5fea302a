"""Requests with typed headers, errors in place of response codes, and time limits on the clock of a world.

Source of the meaning of codes: apache/rocketmq client/.../impl/MQClientAPIImpl.java.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from gantrymq.client.argument_types import check_text, shown
from gantrymq.client.calls.credentials import access_denied
from gantrymq.client.calls.outages import UNREACHABLE, Outages
from gantrymq.client.calls.rpc_hooks import RpcHooks
from gantrymq.client.errors import AnswerUnreadable, RequestMalformed
from gantrymq.errors import BrokerRefused, CallTimeout, InvalidParameter, LocalProtocolError, RequestRefused
from gantrymq.remoting import command
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.codes import RequestCode, ResponseCode, request_name
from gantrymq.remoting.command import Command
from gantrymq.remoting.headers.base import Header
from gantrymq.world import Clock

CALL_TIMEOUT_S = 3.0  # most control calls
OFFSET_CALL_TIMEOUT_S = 5.0  # offsets

HeaderType = TypeVar("HeaderType", bound=Header)
T = TypeVar("T")


class RpcClient:
    """Sends requests over the connections of one client."""

    def __init__(
        self, remoting: RemotingClient, clock: Clock, hooks: RpcHooks | None = None, outages: Outages | None = None
    ) -> None:
        """*hooks* are applied to every request and response; *outages* is notified when a server answers again."""
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
        """Send one request and return the response, whose code is SUCCESS.

        Args:
            address: ip:port of the peer.
            code: of the request.
            header: its fields, if any.
            body: its body, if any.
            timeout_s: seconds from when the request is written. Time for a new connection counts and is limited to 3 s.

        Raises:
            BrokerRefused: the response has another code.
            ConnectFailed, ConnectionLost, CallTimeout: no response.
            RequestMalformed: the address is malformed, or the request cannot be encoded.
        """
        reply = await self.exchange(address, code, header, body, timeout_s)
        if reply.code != ResponseCode.SUCCESS:
            raise refused(reply, address, code)
        return reply

    async def exchange(
        self,
        address: str,
        code: RequestCode,
        header: Header | None = None,
        body: bytes | None = None,
        timeout_s: float = CALL_TIMEOUT_S,
    ) -> Command:
        """Send one request and return the response, whose code may be any. Arguments and errors as `call`."""
        check_text("the address", address)
        if header is not None and not hasattr(header, "to_ext"):
            raise InvalidParameter(f"header is {shown(header)}; expected a request header, or None")
        if not isinstance(body, bytes | bytearray | memoryview | None):
            raise InvalidParameter(f"body is {shown(body)}; expected bytes")
        ext = header.to_ext() if header is not None else None
        return await self.send(address, command.request(code, ext, body), timeout_s)

    async def send(self, address: str, request: Command, timeout_s: float) -> Command:
        """Send a prepared request once and return the response, whose code may be any. Errors as `call`."""
        hooks = self._hooks
        if hooks is not None:
            address = hooks.before_request(address, request)
        try:
            if self._remoting.connected(address) is None:
                begun = self._clock.monotonic()
                await self._remoting.connect(address)
                timeout_s -= self._clock.monotonic() - begun
                if timeout_s <= 0:
                    raise CallTimeout(
                        f"{address}: connecting took all the time allowed for {request_name(request.code)}"
                    )
            answer = await self._remoting.call(address, request, timeout_s)
        except LocalProtocolError as problem:
            raise RequestMalformed(str(problem)) from problem
        except UNREACHABLE as problem:
            problem.address = address
            raise
        if self._outages.away:
            self._outages.answered(address)
        if hooks is not None:
            hooks.after_response(request.code, answer)
        return answer

    async def oneway(
        self, address: str, request: Command, timeout_s: float, dropped: Callable[[], object] | None = None
    ) -> None:
        """Hand a oneway request to a connection; *dropped* is called if it cannot be written after all.

        Raises:
            ConnectFailed: no connection could be made.
            CallTimeout: the peer accepts no data for *timeout_s* seconds.
            RequestMalformed: the request cannot be encoded.
        """
        if self._hooks is not None:
            address = self._hooks.before_request(address, request)
        try:
            (await self._remoting.writable(address, timeout_s)).oneway(request, dropped)
        except LocalProtocolError as problem:
            raise RequestMalformed(str(problem)) from problem

    async def connect(self, address: str) -> None:
        """Open the connection to *address* if there is none.

        Raises:
            ConnectFailed: no connection could be made.
            RequestMalformed: the address is malformed.
        """
        try:
            await self._remoting.connect(address)
        except LocalProtocolError as problem:
            raise RequestMalformed(str(problem)) from problem
        except UNREACHABLE as problem:
            problem.address = address
            raise

    def connected(self, address: str) -> bool:
        """Return whether there is an open connection to *address*."""
        return self._remoting.connected(address) is not None

    def disconnect(self, address: str, *, abort: bool = False) -> None:
        """Close the connection to *address*, if there is one; with *abort* without writing what is buffered."""
        connection = self._remoting.connected(address)
        if connection is not None:
            (connection.abort if abort else connection.close)()


def refused(reply: Command, address: str, request: int = 0) -> BrokerRefused:
    """Return the error for a response with a code other than SUCCESS; *request* is the code of the request."""
    remark = (reply.remark or "").split("\nSee https://", 1)[0].strip()
    if denied := access_denied(reply.code, remark, address, request):
        return denied
    return BrokerRefused(reply.code, remark or "no reason given", address)


def reply_header(header: type[HeaderType], reply: Command, address: str) -> HeaderType:
    """Decode the typed header of a response.

    Raises:
        AnswerUnreadable: a field is missing or of the wrong type.
    """
    try:
        return header.from_ext(reply.ext)
    except RequestRefused as problem:
        raise AnswerUnreadable(f"the answer of {address} cannot be read: {problem}") from None


async def within(clock: Clock, seconds: float, work: Coroutine[Any, Any, T]) -> T | None:
    """Return the result of *work*, or None if it was cancelled after *seconds*."""
    task = asyncio.ensure_future(work)
    timer = clock.call_later(max(0.0, seconds), task.cancel) if math.isfinite(seconds) else None
    try:
        await asyncio.wait((task,))
    except asyncio.CancelledError:
        task.cancel()
        raise
    finally:
        if timer is not None:
            timer.cancel()
    return None if task.cancelled() else task.result()
