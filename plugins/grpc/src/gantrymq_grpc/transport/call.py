"""One call in progress, and the kinds of handlers.

    Unary         handler(request, call) returns the response, or an awaitable of it; no task if it returns the response
    ServerStream  async handler(request, call) sends any number of messages
    BidiStream    async handler(call) receives and sends

A handler that raises `GrpcError` ends its call with that status. When the client resets the call, its deadline passes,
or the connection is lost, the callbacks of `Call.on_close` run and the handler's task is cancelled.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from google.protobuf.message import DecodeError

from gantrymq.errors import ConnectionLost
from gantrymq.plugin.world import Timer
from gantrymq_grpc.definitions.tables import ProtobufMessage
from gantrymq_grpc.transport.field_count import LARGE_BYTES, MAX_FIELDS, has_too_many_fields
from gantrymq_grpc.transport.messages import MessageReader, prefixed
from gantrymq_grpc.transport.status import GrpcError, StatusCode

if TYPE_CHECKING:
    from gantrymq_grpc.transport.connection import Connection

log = logging.getLogger("gantrymq.grpc")

_REQUEST_OVERHEAD: Final = 64  # bytes of memory of a waiting request beside its own


class Unary(NamedTuple):
    """One request, one response."""

    handler: Callable[[Any, Call], ProtobufMessage | Awaitable[ProtobufMessage]]
    max_bytes: int | None = None  # of a request, if less than the limit of the server


class ServerStream(NamedTuple):
    """One request, any number of responses."""

    handler: Callable[[Any, Call], Awaitable[None]]
    max_bytes: int | None = None


class BidiStream(NamedTuple):
    """Any number of requests and responses, in any order."""

    handler: Callable[[Call], Awaitable[None]]
    max_bytes: int | None = None  # of each request


Handler = Unary | ServerStream | BidiStream


class Route(NamedTuple):
    """A method and its handler."""

    path: str  # /package.Service/Method
    handler: Handler
    request: type[ProtobufMessage]
    max_bytes: int


class Call:
    """One call in progress; created by `Connection` only.

    Attributes:
        connection: its connection.
        method: path of the method, ``/package.Service/Method``.
        metadata: of the request, by lower-case name; values of the same name are joined by commas.
        authority: host and port that the client asked for.
        deadline: monotonic time of the client's deadline, or None.
        closed: the call has ended, or the client is gone.
    """

    __slots__ = (
        "_closing",
        "_drained",
        "_on_received",
        "_queued_bytes",
        "_received",
        "_requests",
        "_timer",
        "authority",
        "begun",
        "client_ended",
        "closed",
        "connection",
        "deadline",
        "headers_sent",
        "held_bytes",
        "metadata",
        "method",
        "reader",
        "receive_window",
        "route",
        "send_window",
        "stream_id",
        "task",
        "trailers",
        "unsent",
        "unsent_bytes",
    )

    def __init__(
        self,
        connection: Connection,
        stream_id: int,
        route: Route,
        metadata: dict[str, str],
        authority: str,
        begun: float,
        windows: tuple[int, int],
    ) -> None:
        """*windows*: bytes that the client may send, and that it accepts."""
        self.connection = connection
        self.method = route.path
        self.metadata: Mapping[str, str] = metadata
        self.authority = authority
        self.deadline: float | None = None
        self.closed = False
        # What follows is for the connection and its output.
        self.stream_id = stream_id
        self.route = route
        self.begun = begun
        self.receive_window, self.send_window = windows
        self.reader: MessageReader | None = None
        self.client_ended = False  # the client has ended its half
        self.headers_sent = False
        self.trailers: bytes | None = None  # wait for the unsent data
        self.unsent: deque[memoryview] | None = None  # data that flow control or a full buffer holds back
        self.unsent_bytes = 0
        self.held_bytes = 0  # of the request, as counted for the limit of all connections
        self.task: asyncio.Future[Any] | None = None
        self._closing: list[Callable[[Call], object]] | None = None
        self._on_received: Callable[[bool], object] | None = None
        self._requests: deque[bytes] | None = None  # not yet received by the handler
        self._queued_bytes = 0
        self._received: asyncio.Future[None] | None = None
        self._drained: list[asyncio.Future[None]] | None = None
        self._timer: Timer | None = None

    def __repr__(self) -> str:
        return f"<Call {self.method} of {self.connection.address}{' closed' if self.closed else ''}>"

    @property
    def peer(self) -> tuple[str, int]:
        """Address of the client."""
        return self.connection.peer

    @property
    def listener(self) -> str:
        """Name of the listener."""
        return self.connection.listener

    @property
    def encrypted(self) -> bool:
        """Whether the connection uses TLS."""
        return self.connection.encrypted

    @property
    def certificate(self) -> str:
        """Subject of the client's verified certificate; empty without one."""
        return self.connection.certificate

    @property
    def binary_metadata(self) -> dict[str, bytes]:
        """The metadata whose names end in ``-bin``, decoded; of several values the first.

        Raises:
            GrpcError: a value is not base64.
        """
        found = {}
        for name, value in self.metadata.items():
            if name.endswith("-bin"):
                first = value.partition(",")[0].strip().rstrip("=")
                try:
                    found[name] = base64.b64decode(first + "=" * (-len(first) % 4), validate=True)
                except (binascii.Error, ValueError) as error:
                    text = f"the value of the metadata {name} is not base64: {error}"
                    raise GrpcError(StatusCode.INVALID_ARGUMENT, text) from error
        return found

    def on_close(self, callback: Callable[[Call], object]) -> None:
        """Call *callback* with this call once when it is closed, for any reason, or now if it already is."""
        if self.closed:
            callback(self)
        elif self._closing is None:
            self._closing = [callback]
        else:
            self._closing.append(callback)

    def on_received(self, callback: Callable[[bool], object]) -> None:
        """Call *callback* once, after the end of the call: with True when the client has received the whole response.

        With False if the client or the server ends the call early, or the connection is lost, and it is not known
        whether the client has received it. Only the last callback is called.
        """
        self._on_received = callback

    def end(self, error: GrpcError | None = None) -> None:
        """End the call now: the client gets the status of *error*, or OK. The handler's task is cancelled."""
        if not self.closed and self.trailers is None:
            self.connection.end_call(self, error)

    async def receive(self) -> Any:
        """Return the next request of a `BidiStream`; None if the client has ended its half.

        Raises:
            ConnectionLost: the call is closed.
            GrpcError: the request cannot be parsed.
        """
        if self._requests:
            await asyncio.sleep(0)  # a client that sends many must not occupy the event loop
        while not self._requests:
            if self.closed:
                raise lost(self)
            if self.client_ended:
                return None
            self._received = asyncio.get_running_loop().create_future()
            await self._received
        data = self.take_request()
        assert data is not None
        self.connection.request_taken(self)
        return parsed(self.route, data)

    async def send(self, message: ProtobufMessage) -> None:
        """Send a message of a streaming call; return when it has been written to the connection.

        It waits while the client's flow control does not allow it, or the client does not read. Messages of several
        tasks are sent in the order of their calls.

        Raises:
            ConnectionLost: the call is closed, or was closed before all was written.
        """
        await self.room()
        self.put(message)
        await self.drained()

    @property
    def is_crowded(self) -> bool:
        """Whether so much data of the connection waits that `send` would wait before it adds to it."""
        return self.connection.output.crowded and not self.closed

    async def room(self) -> None:
        """Wait while `is_crowded`: large messages should be made after it."""
        while self.is_crowded:
            await self.connection.output.room()

    def put(self, message: ProtobufMessage) -> None:
        """Write a message of a streaming call as far as possible now, and the rest later; see `drained`.

        Raises:
            ConnectionLost: the call is closed.
        """
        if self.closed or self.trailers is not None:
            raise lost(self)
        self.connection.output.send(self, prefixed(message.SerializeToString()))

    async def drained(self) -> None:
        """Wait until all messages have been written to the connection. Raises ConnectionLost if the call is closed."""
        while self.unsent:
            if self.closed:
                raise lost(self)
            waiting = asyncio.get_running_loop().create_future()
            if self._drained is None:
                self._drained = []
            self._drained.append(waiting)
            await waiting
        if self.closed:
            raise lost(self)

    # --- called by the connection and its output --------------------------------------------------------------------

    @property
    def waiting_bytes(self) -> int:
        """Bytes of requests that are incomplete or not yet received by the handler."""
        return self._queued_bytes + (0 if self.reader is None else self.reader.pending_bytes)

    @property
    def waiting_requests(self) -> int:
        """Number of requests that wait for the handler to receive them."""
        return len(self._requests or ())

    def take_on_received(self) -> Callable[[bool], object] | None:
        """Return the callback of `on_received`, which the caller calls from now on."""
        callback, self._on_received = self._on_received, None
        return callback

    def not_received(self) -> None:
        """Report that the client does not get the whole response."""
        callback = self.take_on_received()
        if callback is not None:
            callback(False)

    def add_requests(self, messages: list[bytes]) -> None:
        """Pass requests to the handler of a `BidiStream`."""
        if self._requests is None:
            self._requests = deque()
        self._requests.extend(messages)
        self._queued_bytes += sum(map(len, messages)) + len(messages) * _REQUEST_OVERHEAD
        self.wake_receiver()

    def take_request(self) -> bytes | None:
        """Return the request of a call with one request; None without one."""
        if not self._requests:
            return None
        data = self._requests.popleft()
        self._queued_bytes -= len(data) + _REQUEST_OVERHEAD
        return data

    def wake_receiver(self) -> None:
        """Let `receive` look again."""
        waiting, self._received = self._received, None
        if waiting is not None and not waiting.done():
            waiting.set_result(None)

    def wake_senders(self) -> None:
        """Let `send` look again."""
        waiting, self._drained = self._drained, None
        for each in waiting or ():
            if not each.done():
                each.set_result(None)

    def end_at(self, timer: Timer) -> None:
        """Keep the timer of the deadline, to cancel it."""
        self._timer = timer

    def close(self) -> None:
        """Mark the call as closed, run the callbacks, and cancel the handler's task if it still runs."""
        if self.closed:
            return
        self.closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.unsent = None
        self.unsent_bytes = 0
        self.reader = None
        self._requests = None
        self._queued_bytes = 0
        self.wake_receiver()
        self.wake_senders()
        self.not_received()
        callbacks, self._closing = self._closing, None
        for callback in callbacks or ():
            try:
                callback(self)
            except Exception:
                log.exception("%r: a close callback failed", self)
        if self.task is not None and not self.task.done():
            self.task.cancel()


def parsed(route: Route, data: bytes) -> Any:
    """Return the request in *data*.

    Raises:
        GrpcError: the bytes are no such message, or it has too many fields.
    """
    if len(data) > LARGE_BYTES and has_too_many_fields(data, route.request.DESCRIPTOR):
        text = f"the request has more than {MAX_FIELDS} fields in {len(data)} bytes; send it in parts"
        raise GrpcError(StatusCode.RESOURCE_EXHAUSTED, text)
    try:
        return route.request.FromString(data)
    except DecodeError as error:
        text = f"the request of {route.path} cannot be parsed: {error}"
        raise GrpcError(StatusCode.INTERNAL, text) from error


def lost(call: Call) -> ConnectionLost:
    """Return the error of a call that is closed."""
    return ConnectionLost(f"{call.method}: the call of {call.connection.address} is closed")


UNIT_S: Final = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}


def timeout_s(text: str) -> float:
    """Return the seconds of a ``grpc-timeout``, such as ``2999m``.

    Raises:
        GrpcError: it is malformed.
    """
    digits, unit = text[:-1], UNIT_S.get(text[-1:])
    if unit is None or not 0 < len(digits) <= 8 or not digits.isascii() or not digits.isdigit():
        raise GrpcError(StatusCode.INTERNAL, f"grpc-timeout {text!r}: expected up to eight digits and one of HMSmun")
    return int(digits) * unit
