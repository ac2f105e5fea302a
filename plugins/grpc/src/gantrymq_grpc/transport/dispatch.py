"""From the headers of a request to its handler, and from the handler's result to the response."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from gantrymq.errors import ConnectionLost
from gantrymq.plugin.world import Clock
from gantrymq_grpc.definitions.tables import ProtobufMessage
from gantrymq_grpc.transport.call import BidiStream, Call, Route, ServerStream, Unary, parsed, timeout_s
from gantrymq_grpc.transport.frames import ErrorCode, rst_stream
from gantrymq_grpc.transport.header_blocks import Header
from gantrymq_grpc.transport.messages import ACCEPTED_ENCODINGS
from gantrymq_grpc.transport.status import GrpcError, StatusCode

if TYPE_CHECKING:
    from gantrymq_grpc.transport.connection import Connection

log = logging.getLogger("gantrymq.grpc")

ERROR_OF_SERVER: Final = "an error of the server, which its log describes"


class Dispatch:
    """Begins the calls of one connection and runs their handlers."""

    def __init__(self, connection: Connection, routes: Mapping[str, Route], clock: Clock) -> None:
        """*routes*: methods by path."""
        self._connection = connection
        self._routes = routes
        self._clock = clock

    def begin(self, stream_id: int, headers: list[Header] | None, ended: bool) -> Call | None:
        """Return the call of a request, or answer why there is none.

        Args:
            stream_id: its stream.
            headers: None if they exceed the limit.
            ended: the request has no data.
        """
        connection = self._connection
        limits = connection.limits
        try:
            if headers is None:
                text = f"the metadata exceeds {limits.max_header_bytes} bytes"
                raise GrpcError(StatusCode.RESOURCE_EXHAUSTED, text)
            metadata = dict(headers)
            if len(metadata) < len(headers):
                metadata = _merged(headers)
            route = self._route(metadata)
            if route is None:
                self._not_grpc(stream_id, metadata, ended)
                return None
            authority = metadata.pop(":authority", "") or metadata.get("host", "")
            windows = limits.stream_window_bytes, connection.output.initial_window
            call = Call(connection, stream_id, route, metadata, authority, connection.last_heard, windows)
            timeout = metadata.get("grpc-timeout")
            if timeout is not None:
                call.deadline = connection.last_heard + timeout_s(timeout)
        except GrpcError as error:
            self._refuse(stream_id, error, ended)
            return None
        return call

    def start(self, call: Call, handler: BidiStream) -> None:
        """Start the handler of a stream of requests."""
        try:
            result = handler.handler(call)
        except GrpcError as error:
            self._end(call, error)
        except Exception:
            log.exception("%r: the handler failed", call)
            self._end(call, _handler_failed())
        else:
            self._await(call, result)

    def client_ended(self, call: Call) -> None:
        """Call the handler with the complete request, or tell it that there are no more."""
        call.client_ended = True
        handler = call.route.handler
        if call.reader is not None and call.reader.pending_bytes:
            self._connection.output.finish(call, GrpcError(StatusCode.INTERNAL, "the request ends within a message"))
        elif isinstance(handler, BidiStream):
            call.wake_receiver()
        else:
            data = call.take_request()
            self._connection.request_taken(call)
            if data is None:
                self._connection.output.finish(call, GrpcError(StatusCode.INTERNAL, "a call without a request"))
            else:
                self.serve(call, handler, data)

    def serve(self, call: Call, handler: Unary | ServerStream, data: bytes) -> None:
        """Call the handler of a complete request."""
        self._connection.turn_bytes += len(data)
        try:
            result = handler.handler(parsed(call.route, data), call)
        except GrpcError as error:
            self._end(call, error)
        except Exception:
            log.exception("%r: the handler failed", call)
            self._end(call, _handler_failed())
        else:
            if isinstance(result, ProtobufMessage):
                if not call.closed:
                    self._connection.output.respond(call, result.SerializeToString())
            else:
                self._await(call, result)

    # --- internal ---------------------------------------------------------------------------------------------------

    def _route(self, metadata: dict[str, str]) -> Route | None:
        """Return the route of a request and take HTTP/2's own headers out; None if it is not gRPC.

        Raises:
            GrpcError: there is no such method, or its encoding is unknown.
        """
        method = metadata.pop(":method", "")
        metadata.pop(":scheme", "")
        path = metadata.get(":path", "")
        content_type = metadata.get("content-type", "")
        if method != "POST" or not content_type.startswith("application/grpc"):
            metadata[":method"] = method
            return None
        del metadata[":path"]
        route = self._routes.get(path)
        if route is None:
            raise GrpcError(StatusCode.UNIMPLEMENTED, f"unknown method {path}")
        encoding = metadata.get("grpc-encoding", "identity")
        if encoding not in ("identity", "gzip"):
            text = f"grpc-encoding {encoding} is not supported; expected one of {ACCEPTED_ENCODINGS}"
            raise GrpcError(StatusCode.UNIMPLEMENTED, text)
        return route

    def _not_grpc(self, stream_id: int, metadata: dict[str, str], ended: bool) -> None:
        """Answer a request of HTTP/2 that is not gRPC, with a status of HTTP."""
        method, found = metadata.get(":method", ""), metadata.get("content-type", "")
        if method != "POST":
            status, text = 405, f"the method is {method or 'missing'}, expected POST"
        else:
            status, text = 415, f"content-type is {found or 'missing'}, expected application/grpc"
        error = GrpcError(StatusCode.UNKNOWN, f"this port serves gRPC: {text}")
        self._refuse(stream_id, error, ended, status)

    def _refuse(self, stream_id: int, error: GrpcError, ended: bool, status: int = 200) -> None:
        self._connection.output.refuse(stream_id, error, status)
        if not ended:
            self._connection.output.write(rst_stream(stream_id, ErrorCode.NO_ERROR))

    def _end(self, call: Call, error: GrpcError | None) -> None:
        if not call.closed:
            self._connection.output.finish(call, error)

    def _await(self, call: Call, result: Awaitable[ProtobufMessage | None]) -> None:
        try:
            task = asyncio.ensure_future(result)
        except TypeError:
            log.exception("%r: the handler returned neither a message nor an awaitable", call)
            self._end(call, _handler_failed())
            return
        if call.closed:  # ended by its handler
            task.cancel()
            return
        call.task = task
        task.add_done_callback(partial(self._task_done, call))
        if call.deadline is not None:
            left = call.deadline - self._clock.monotonic()
            text = f"the deadline of {call.metadata['grpc-timeout']} has passed"
            late = GrpcError(StatusCode.DEADLINE_EXCEEDED, text)
            call.end_at(self._clock.call_later(max(left, 0.0), call.end, late))

    def _task_done(self, call: Call, task: asyncio.Future[ProtobufMessage | None]) -> None:
        call.task = None  # the frames of a cancelled task hold the call: without a cycle both are freed at once
        error: GrpcError | None = None
        if task.cancelled():
            error = GrpcError(StatusCode.CANCELLED, "the server has cancelled the call")
        else:
            problem = task.exception()
            if isinstance(problem, GrpcError):
                error = problem
            elif problem is not None:
                error = _handler_failed()
                if not (call.closed and isinstance(problem, ConnectionLost)):
                    log.error("%r: the handler failed", call, exc_info=problem)
        if call.closed:
            return
        if error is not None or not isinstance(call.route.handler, Unary):
            self._connection.output.finish(call, error)
            return
        response = task.result()
        if isinstance(response, ProtobufMessage):
            self._connection.output.respond(call, response.SerializeToString())
        else:
            log.error("%r: the handler returned %r, no message", call, response)
            self._connection.output.finish(call, _handler_failed())


def _merged(headers: list[Header]) -> dict[str, str]:
    """Return headers by name, values of the same name joined."""
    merged: dict[str, str] = {}
    for name, value in headers:
        merged[name] = f"{merged[name]},{value}" if name in merged else value
    return merged


def _handler_failed() -> GrpcError:
    return GrpcError(StatusCode.INTERNAL, ERROR_OF_SERVER)
