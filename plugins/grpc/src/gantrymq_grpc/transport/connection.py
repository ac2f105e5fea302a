"""One connection: HTTP/2's frames and streams of the server's side, and the calls on them.

    transport --bytes--> `FrameReader` --frames--> `Call` --complete request--> `Dispatch` --> handler
    transport <--one write per loop iteration-- `Output` <-- responses

All that arrives in one read is handled in turns, so that no client occupies the event loop. A turn ends after
`_TURN_FRAMES`, `_TURN_BYTES` or `MAX_SLICE_S`: requests with many small parts take long for their bytes. Reading pauses
while the transport's buffer is full: a client that does not read sends no further requests. `ControlFrames` handles the
frames that belong to no call, and `Dispatch` calls the handlers.

Source: RFC 9113; grpc/grpc doc/PROTOCOL-HTTP2.md.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from gantrymq.plugin.interfaces import AcceptedConnection
from gantrymq.plugin.model import format_address
from gantrymq.plugin.world import MAX_SLICE_S, Timer, World
from gantrymq_grpc.transport import frames
from gantrymq_grpc.transport.call import BidiStream, Call, Route, Unary
from gantrymq_grpc.transport.confirmations import Confirmations
from gantrymq_grpc.transport.control_frames import ControlFrames
from gantrymq_grpc.transport.dispatch import ERROR_OF_SERVER, Dispatch
from gantrymq_grpc.transport.frames import ConnectionFault, ErrorCode, Frame, FrameReader
from gantrymq_grpc.transport.header_blocks import Header, HeaderDecoder
from gantrymq_grpc.transport.limits import Limits
from gantrymq_grpc.transport.messages import MessageReader, SharedBytes, single_message
from gantrymq_grpc.transport.output import Output
from gantrymq_grpc.transport.status import GrpcError, StatusCode
from gantrymq_grpc.transport.upkeep import Upkeep

log = logging.getLogger("gantrymq.grpc")

_TURN_FRAMES: Final = 64  # half as many requests, some 10 ms
_TURN_BYTES: Final = 1024 * 1024  # of requests, after which a turn ends: they may be compressed a thousandfold
_HEADER_COST: Final = 64  # a byte of headers takes as long as this number of bytes of requests
_MAX_AHEAD_BYTES: Final = 1024 * 1024  # of frames that wait for their turn, above which reading pauses
_MAX_CONTINUATIONS: Final = 32
_LINGER_S: Final = 1.0  # for the client to close after GOAWAY; closing at once could destroy GOAWAY on its way
_ABORT_S: Final = 5.0  # for a client that does not read the last bytes

_WARN_AT: Final = 0.8  # of the calls that are allowed

_PAUSED_BY_CLIENT: Final = 1  # it does not read
_PAUSED_BY_US: Final = 2  # frames wait for their turn


class Serving(NamedTuple):
    """What the connections of a server share."""

    world: World
    limits: Limits
    routes: Mapping[str, Route]
    partial: SharedBytes
    unsent: SharedBytes
    lost: Callable[[Connection], object]  # called when a connection is closed
    errors: Counter[StatusCode]  # calls that ended with an error of gRPC


class Connection(asyncio.Protocol):
    """A client's connection; created by `GrpcServer` only.

    Attributes:
        peer, listener, encrypted, certificate: as in `AcceptedConnection`.
        authority: host and port that the client asked for in its first call; empty before.
        notes: data that handlers keep with this connection.
        closed: the connection is closed.
        confirmations: whether the client has received responses.
        turn_bytes: size of the requests of this turn, decompressed, and what takes as long.
    """

    def __init__(self, serving: Serving, accepted: AcceptedConnection) -> None:
        """`connection_made` starts it."""
        self.peer = accepted.peer
        self.listener = accepted.listener
        self.encrypted = accepted.encrypted
        self.certificate = accepted.certificate
        self.authority = ""
        self.notes: dict[Any, Any] = {}
        self.closed = False
        self.turn_bytes = 0
        self.limits = limits = serving.limits
        self.last_heard = self.last_used = serving.world.clock.monotonic()
        self._serving = serving
        self._clock = serving.world.clock
        self._transport = accepted.transport
        self._loop = asyncio.get_running_loop()
        self.output = Output(self, accepted.transport, self._clock)
        self._upkeep = Upkeep(self, serving.world)
        self.confirmations = Confirmations(self.ping)
        self._control = ControlFrames(self)
        self._dispatch = Dispatch(self, serving.routes, self._clock)
        self._reader = FrameReader()
        self._decoder = HeaderDecoder(limits.max_header_bytes)
        self._calls: dict[int, Call] = {}  # open streams, oldest first
        self._last_id = 0
        self._block: bytearray | None = None  # of headers that continue
        self._block_frame = Frame(0, 0, 0, b"")
        self._continuations = 0
        self._receive_window = limits.connection_window_bytes
        self._held_bytes = 0  # of incomplete or waiting requests
        self._drop_partial = partial(self._drop, "incomplete requests")
        self._drop_unsent = partial(self._drop, "unread responses")
        self._paused = 0
        self._turn_scheduled = False
        self._rest: list[Frame] = []  # frames that were read but not handled in the last turn
        self._warned = False
        self._draining = False  # GOAWAY was sent
        self._over = False  # nothing is read any more
        self._timer: Timer | None = None  # of the end
        self._on_close: list[Callable[[Connection], object]] = []

    def __repr__(self) -> str:
        return f"<Connection {self.address}{' closed' if self.closed else ''}>"

    @property
    def address(self) -> str:
        """The client's address as text."""
        return format_address(*self.peer)

    @property
    def calls(self) -> list[Call]:
        """The calls in progress, oldest first."""
        return list(self._calls.values())

    @property
    def call_count(self) -> int:
        """The number of calls in progress."""
        return len(self._calls)

    @property
    def is_crowded(self) -> bool:
        """Whether there are nearly as many calls as a connection may have; further ones wait at the client."""
        return len(self._calls) >= self.limits.max_streams * _WARN_AT

    def on_close(self, callback: Callable[[Connection], object]) -> None:
        """Call *callback* with this connection once when it is closed, or now if it already is."""
        if self.closed:
            callback(self)
        else:
            self._on_close.append(callback)

    def drain(self, text: str, grace_s: float, *, end_streams: bool) -> None:
        """Close in order: accept no further call, and wait for those in progress.

        Args:
            text: the reason, for the client.
            grace_s: after it the remaining calls end with UNAVAILABLE.
            end_streams: end streaming calls now.
        """
        if self._over:
            return
        if not self._draining:
            self._draining = True
            self.output.write(frames.goaway(self._last_id, ErrorCode.NO_ERROR, text))
        if end_streams:
            self.end_streams(text)
        if not self._calls:
            self._finish()
        else:
            self._set_timer(grace_s, partial(self._cut_off, text))

    def end_streams(self, text: str) -> None:
        """End all streaming calls with UNAVAILABLE and the reason *text*."""
        for call in self.calls:
            if not isinstance(call.route.handler, Unary):
                call.end(GrpcError(StatusCode.UNAVAILABLE, text))

    def abort(self, reason: str) -> None:
        """Close without waiting for anything; *reason* is logged."""
        if not self.closed:
            log.info("%s: closed: %s", self.address, reason)
            self._over = True
            self._transport.abort()

    # --- called by asyncio ------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send settings."""
        limits = self.limits
        settings = {
            frames.SETTING_MAX_CONCURRENT_STREAMS: limits.max_streams,
            frames.SETTING_INITIAL_WINDOW_SIZE: limits.stream_window_bytes,
            frames.SETTING_MAX_HEADER_LIST_SIZE: limits.max_header_bytes,
        }
        more = limits.connection_window_bytes - frames.DEFAULT_WINDOW
        self.output.write(frames.settings_frame(settings) + frames.window_update(0, more))
        self._upkeep.start()

    def data_received(self, data: bytes) -> None:
        """Handle the frames of this read."""
        self.last_heard = self._clock.monotonic()
        if self._over:
            return
        self._reader.feed(data)
        if not self._turn_scheduled:
            self._turn()
        elif self._reader.pending_bytes > _MAX_AHEAD_BYTES:
            self._pause(_PAUSED_BY_US)

    def connection_lost(self, exc: Exception | None) -> None:
        """Close the calls and run the callbacks."""
        self._over = self.closed = True
        self._upkeep.stop()
        if self._timer is not None:
            self._timer.cancel()
        self._reader, self._rest = FrameReader(), []  # frees the bytes now, not in the next cycle collection
        self._serving.partial.update(self._drop_partial, 0)
        self._serving.unsent.update(self._drop_unsent, 0)
        calls, self._calls = self._calls, {}
        for call in calls.values():
            call.close()
        self.confirmations.lost()
        self.output.lost()
        callbacks, self._on_close = self._on_close, []
        for callback in callbacks:
            try:
                callback(self)
            except Exception:
                log.exception("%s: a close callback failed", self.address)
        self._serving.lost(self)

    def pause_writing(self) -> None:
        """Keep data, and read no further requests, while the client does not read."""
        self.output.pause()
        self._pause(_PAUSED_BY_CLIENT)

    def resume_writing(self) -> None:
        """Continue after the client has read most of the buffered data."""
        self.last_heard = self._clock.monotonic()
        self.output.resume()
        self._resume(_PAUSED_BY_CLIENT)

    # --- called by calls, output and upkeep -------------------------------------------------------------------------

    def end_call(self, call: Call, error: GrpcError | None) -> None:
        """End *call* before its handler has ended."""
        if call.unsent:  # the client has half of a message
            self._forget(call)
            self.output.write(frames.rst_stream(call.stream_id, ErrorCode.CANCEL))
        else:
            self.output.finish(call, error)

    def finished(self, call: Call) -> None:
        """Close *call*, whose response was written completely."""
        received = call.take_on_received()
        if received is not None:
            self.confirmations.ask(call.stream_id, received)
        self._forget(call)
        if not call.client_ended:
            self.output.write(frames.rst_stream(call.stream_id, ErrorCode.NO_ERROR))  # it need not send the rest

    def failed(self, error: GrpcError) -> None:
        """Count a call that ends with *error*."""
        self._serving.errors[error.status] += 1

    def request_taken(self, call: Call) -> None:
        """Let the client send more, after the handler has received a request."""
        self._hold(call)
        self._open_window(call)

    def unsent_changed(self, unsent: int) -> None:
        """Check the limits of data that waits for the client."""
        if self._over:
            return
        self._serving.unsent.update(self._drop_unsent, unsent)
        if unsent > self.limits.max_unsent_bytes:
            self._drop("unread responses", unsent, self.limits.max_unsent_bytes)

    def ping(self, payload: bytes = b"gantrymq") -> None:
        """Send a ping with a payload of eight bytes."""
        self.output.write(frames.frame(frames.PING, 0, 0, payload))

    # --- frames -----------------------------------------------------------------------------------------------------

    def _next_turn(self) -> None:
        self._turn_scheduled = False
        if not self._over:
            self._turn()

    def _turn(self) -> None:
        output = self.output
        output.hold_flush()
        rest, self._rest = self._rest, []
        self.turn_bytes = 0
        ends_at = self._clock.monotonic() + MAX_SLICE_S
        try:
            received = rest or self._reader.read(_TURN_FRAMES)
            for number, frame in enumerate(received, 1):
                self._receive(frame)
                if self._over:
                    break
                if self.turn_bytes > _TURN_BYTES or self._clock.monotonic() > ends_at:
                    self._rest = received[number:]
                    break
        except ConnectionFault as fault:
            self._fail(fault)
        except Exception:
            log.exception("%s: a frame could not be handled", self.address)
            self._fail(ConnectionFault(ErrorCode.INTERNAL_ERROR, ERROR_OF_SERVER))
        window = self.limits.connection_window_bytes
        if self._receive_window < window // 2:
            output.write(frames.window_update(0, window - self._receive_window))
            self._receive_window = window
        output.flush()
        if self._over:
            return
        if self._rest or rest or len(received) == _TURN_FRAMES:  # the reader may have more
            self._turn_scheduled = True
            self._loop.call_soon(self._next_turn)
        elif self._paused & _PAUSED_BY_US:
            self._resume(_PAUSED_BY_US)

    def _receive(self, frame: Frame) -> None:
        kind = frame.kind
        if self._block is not None or not self._control.settings_seen:
            self._check_order(kind, frame.stream_id)
        if kind == frames.DATA:
            self._data(frame)
        elif kind == frames.HEADERS:
            self._headers(frame)
        else:
            receive = _FRAMES_OF_STREAMS.get(kind)
            if receive is not None:
                receive(self, frame)
            else:
                self._control.receive(frame)

    def _check_order(self, kind: int, stream_id: int) -> None:
        if self._block is not None and (kind != frames.CONTINUATION or stream_id != self._block_frame.stream_id):
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "another frame within a header block")
        if not self._control.settings_seen and kind != frames.SETTINGS:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "the first frame is not SETTINGS")

    def _data(self, frame: Frame) -> None:
        size = len(frame.payload)
        self._receive_window -= size
        if self._receive_window < 0:
            raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, "more data than the connection's window")
        call = self._calls.get(frame.stream_id)
        if call is None:
            if not 0 < frame.stream_id <= self._last_id:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, f"DATA on stream {frame.stream_id}, which is not open")
            if not size:
                self._control.allow_empty("empty DATA frames")
            return
        if call.client_ended:
            self._reset(call, ErrorCode.STREAM_CLOSED)
            return
        call.receive_window -= size
        if call.receive_window < 0:
            self._reset(call, ErrorCode.FLOW_CONTROL_ERROR)
            return
        data = frames.content(frame) if frame.flags & frames.PADDED else frame.payload
        ended = frame.flags & frames.END_STREAM
        if ended and call.reader is None and not isinstance(call.route.handler, BidiStream):
            message = single_message(data, call.route.max_bytes)
            if message is not None:
                call.client_ended = True
                self._dispatch.serve(call, call.route.handler, message)
                return
        if data:
            try:
                self._add(call, data)
            except GrpcError as error:
                self.output.finish(call, error)
                return
        elif not ended:
            self._control.allow_empty("empty DATA frames")
        if ended:
            self._dispatch.client_ended(call)
        else:
            self._open_window(call)

    def _add(self, call: Call, data: bytes) -> None:
        """Add data of a request."""
        reader = call.reader
        if reader is None:
            encoding = call.metadata.get("grpc-encoding", "")
            reader = call.reader = MessageReader(encoding, call.route.max_bytes)
        try:
            messages = reader.feed(data)
        except GrpcError:
            self.turn_bytes += call.route.max_bytes  # perhaps it was decompressed up to its limit
            raise
        if messages:
            self.turn_bytes += sum(map(len, messages))
            single = not isinstance(call.route.handler, BidiStream)
            waiting = call.waiting_requests + len(messages)
            if single and waiting > 1:
                raise GrpcError(StatusCode.INTERNAL, "more than one request in a call with one request")
            if waiting > self.limits.max_waiting_requests:
                text = f"more than {self.limits.max_waiting_requests} requests of the stream wait; send fewer at once"
                raise GrpcError(StatusCode.RESOURCE_EXHAUSTED, text)
            call.add_requests(messages)
        self._hold(call)

    def _headers(self, frame: Frame) -> None:
        block = frame.payload
        if frame.flags & (frames.PADDED | frames.HAS_PRIORITY):
            block = frames.content(frame)
        if frame.flags & frames.END_HEADERS:
            self._block_complete(frame.stream_id, block, frame.flags & frames.END_STREAM != 0)
        else:
            self._block, self._block_frame, self._continuations = bytearray(block), frame, 0

    def _continuation(self, frame: Frame) -> None:
        block = self._block
        if block is None:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "CONTINUATION without HEADERS")
        block += frame.payload
        self._continuations += 1
        if len(block) > self.limits.max_block_bytes or self._continuations > _MAX_CONTINUATIONS:
            text = f"headers of {len(block)} bytes in {self._continuations + 1} frames"
            limits = f"limits {self.limits.max_block_bytes} and {_MAX_CONTINUATIONS + 1}"
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, f"{text}, {limits}")
        if frame.flags & frames.END_HEADERS:
            self._block = None
            self._block_complete(frame.stream_id, bytes(block), self._block_frame.flags & frames.END_STREAM != 0)

    def _block_complete(self, stream_id: int, block: bytes, ended: bool) -> None:
        self.turn_bytes += len(block) * _HEADER_COST
        headers = self._decoder.decode(block)  # also if they are not used: the decoder's table must follow
        call = self._calls.get(stream_id)
        if call is not None:  # trailers of a request, which gRPC does not use
            if not ended or call.client_ended:
                self._reset(call, ErrorCode.PROTOCOL_ERROR)
            else:
                self._dispatch.client_ended(call)
            return
        if stream_id <= self._last_id:
            if not stream_id:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "HEADERS on stream 0")
            self._control.allow_reset()  # of a call that was ended before
            return
        if not stream_id & 1:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, f"stream {stream_id} is not a client's")
        self._last_id = stream_id
        if self._draining or len(self._calls) >= self.limits.max_streams:
            self._control.allow_reset()
            self.output.write(frames.rst_stream(stream_id, ErrorCode.REFUSED_STREAM))
            return
        self._open(stream_id, headers, ended)

    def _window_update(self, frame: Frame) -> None:
        increment = frames.word(frame.payload, "WINDOW_UPDATE") & frames.MAX_WINDOW
        if not frame.stream_id:
            if not increment or not self.output.window_grew(increment):
                raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, f"a WINDOW_UPDATE of {increment}")
            return
        if frame.stream_id > self._last_id:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "WINDOW_UPDATE on a stream that is not open")
        call = self._calls.get(frame.stream_id)
        if call is not None and (not increment or not self.output.stream_window_grew(call, increment)):
            self._reset(call, ErrorCode.FLOW_CONTROL_ERROR)

    def _rst_stream(self, frame: Frame) -> None:
        frames.word(frame.payload, "RST_STREAM")
        if not 0 < frame.stream_id <= self._last_id:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "RST_STREAM on a stream that is not open")
        self._control.allow_reset()
        call = self._calls.get(frame.stream_id)
        if call is None:
            self.confirmations.reset(frame.stream_id)
        else:
            call.client_ended = True
            self._forget(call)

    # --- calls ------------------------------------------------------------------------------------------------------

    def _open(self, stream_id: int, headers: list[Header] | None, ended: bool) -> None:
        """Begin a call, unless the request is refused."""
        call = self._dispatch.begin(stream_id, headers, ended)
        if call is None:
            return
        if not self.authority:
            self.authority = call.authority
        self._calls[stream_id] = call
        if not self._warned and self.is_crowded:
            self._warn()
        if isinstance(call.route.handler, BidiStream):
            call.client_ended = ended
            self._dispatch.start(call, call.route.handler)
        elif ended:
            self._dispatch.client_ended(call)

    def _warn(self) -> None:
        self._warned = True
        log.warning(
            "%s: %d calls are in progress on one connection, the limit is %d; further ones, such as acknowledgements, "
            "wait at the client",
            self.address,
            len(self._calls),
            self.limits.max_streams,
        )

    def _forget(self, call: Call) -> None:
        """Close a call."""
        if self._calls.pop(call.stream_id, None) is None:
            return
        self.output.discard(call)
        call.close()
        self._hold(call)
        if not self._calls:
            self.last_used = self._clock.monotonic()
            self._warned = False
            if self._draining:
                self._finish()

    def _reset(self, call: Call, code: ErrorCode) -> None:
        """Reset a call because of an error of the client."""
        self._control.allow_reset()
        call.client_ended = True
        self._forget(call)
        self.output.write(frames.rst_stream(call.stream_id, code))

    def _hold(self, call: Call) -> None:
        """Count the bytes of the request of *call* that are kept."""
        held = call.waiting_bytes
        if held != call.held_bytes:
            self._held_bytes += held - call.held_bytes
            call.held_bytes = held
            self._serving.partial.update(self._drop_partial, self._held_bytes)

    def _open_window(self, call: Call) -> None:
        """Let the client send more of *call*, unless requests wait for its handler."""
        window = self.limits.stream_window_bytes
        if call.receive_window < window // 2 and not call.client_ended and not call.waiting_requests:
            self.output.write(frames.window_update(call.stream_id, window - call.receive_window))
            call.receive_window = window

    # --- the end ----------------------------------------------------------------------------------------------------

    def _fail(self, fault: ConnectionFault) -> None:
        """Close because of an error of the client."""
        log.warning("%s: closed: %s", self.address, fault)
        self.output.write(frames.goaway(self._last_id, fault.code, fault.text))
        self._over = True
        for call in self.calls:
            self._forget(call)
        self._finish()

    def _drop(self, what: str, held: int, limit: int) -> None:
        """Close to free memory."""
        self.abort(f"{what} take {held} bytes here, the limit is {limit}")

    def _cut_off(self, text: str) -> None:
        for call in self.calls:
            call.end(GrpcError(StatusCode.UNAVAILABLE, text))
        self._finish()

    def _finish(self) -> None:
        """Wait a moment for the client to close after GOAWAY, then close."""
        self._over = True
        self._set_timer(_LINGER_S, self._close)

    def _close(self) -> None:
        self.output.flush()
        self._transport.close()
        self._set_timer(_ABORT_S, self._transport.abort)

    def _set_timer(self, seconds: float, callback: Callable[[], object]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._clock.call_later(seconds, callback)

    def _pause(self, why: int) -> None:
        if not self._paused and not self._transport.is_closing():
            self._transport.pause_reading()
        self._paused |= why

    def _resume(self, why: int) -> None:
        if self._paused == why and not self._transport.is_closing():
            self._transport.resume_reading()
        self._paused &= ~why


_FRAMES_OF_STREAMS: Final = {
    frames.WINDOW_UPDATE: Connection._window_update,
    frames.RST_STREAM: Connection._rst_stream,
    frames.CONTINUATION: Connection._continuation,
}
