"""What a connection sends: one write per loop iteration, flow control, and data that waits for it.

    call --send--> window open, buffer not full: frames --+--> one write
                   else: `Call.unsent` --WINDOW_UPDATE,---+
                                         buffer has room

Streams with waiting data take turns, a frame each.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from gantrymq.plugin.world import Clock
from gantrymq_grpc.transport.frames import (
    DATA,
    DEFAULT_WINDOW,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    MAX_FRAME_BYTES,
    MAX_WINDOW,
    frame,
    frame_prefix,
)
from gantrymq_grpc.transport.header_blocks import STATUS_200, http_status, literal
from gantrymq_grpc.transport.messages import ACCEPTED_ENCODINGS, prefixed
from gantrymq_grpc.transport.status import GrpcError

if TYPE_CHECKING:
    from gantrymq_grpc.transport.call import Call
    from gantrymq_grpc.transport.connection import Connection

_CONTENT_TYPE: Final = literal("content-type", "application/grpc")
_RESPONSE: Final = STATUS_200 + _CONTENT_TYPE + literal("grpc-accept-encoding", ACCEPTED_ENCODINGS)
_OK: Final = literal("grpc-status", "0")
_HEADERS_PREFIX: Final = frame_prefix(HEADERS, END_HEADERS, 0, len(_RESPONSE))[:5]
_OK_PREFIX: Final = frame_prefix(HEADERS, END_HEADERS | END_STREAM, 0, len(_OK))[:5]
_TURN_BYTES: Final = 64 * 1024  # collected data that is written at once
_BUFFER_BYTES: Final = 256 * 1024  # in the transport, above which data waits
_MAX_TEXT: Final = 1024  # characters of grpc-message, and
_MAX_QUOTED: Final = 4096  # as sent: some clients accept 8 KiB of metadata
_UNQUOTED: Final = "".join(map(chr, range(0x20, 0x7F))).replace("%", "")  # sent as they are in grpc-message


class Output:
    """The sending side of one connection.

    Attributes:
        unsent_bytes: data of all calls that waits.
        last_progress: monotonic time at which data was last written or began to wait.
        sent: number of DATA frames so far.
    """

    def __init__(self, connection: Connection, transport: asyncio.Transport, clock: Clock) -> None:
        """Start with HTTP/2's default windows."""
        self.unsent_bytes = 0
        self.last_progress = 0.0
        self.sent = 0
        self.initial_window = DEFAULT_WINDOW
        self._window = DEFAULT_WINDOW
        self._connection = connection
        self._transport = transport
        self._clock = clock
        self._limits = connection.limits
        self._loop = asyncio.get_running_loop()
        self._buffer: list[bytes] = []
        self._buffered = 0  # bytes of data in it
        self._flushing = False  # a flush is scheduled
        self._paused = False  # the transport's buffer is full
        self._ready: dict[Call, None] = {}  # have unsent data and an open window, in turn
        self._waiting: deque[asyncio.Future[None]] = deque()  # for room
        transport.set_write_buffer_limits(_BUFFER_BYTES)

    @property
    def crowded(self) -> bool:
        """Whether so much data waits that streaming calls do not add to it."""
        return self.unsent_bytes >= self._limits.send_ahead_bytes

    async def room(self) -> None:
        """Wait until less data waits, or the connection is lost; the caller looks again."""
        waiting = self._loop.create_future()
        self._waiting.append(waiting)
        await waiting

    def write(self, data: bytes) -> None:
        """Send frames without flow control in this iteration of the loop."""
        self._buffer.append(data)
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self.flush)

    def hold_flush(self) -> None:
        """Schedule no flush: the caller calls `flush` before it returns to the loop."""
        self._flushing = True

    def flush(self) -> None:
        """Write what was collected."""
        self._flushing = False
        self._buffered = 0
        if self._buffer:
            data = b"".join(self._buffer)
            self._buffer.clear()
            if not self._transport.is_closing():
                self._transport.write(data)

    def respond(self, call: Call, message: bytes) -> None:
        """Send the response of a unary call, and end it with OK."""
        length = 5 + len(message)
        if length > MAX_FRAME_BYTES or length > call.send_window or length > self._window or self._paused:
            self.send(call, prefixed(message))
            self.finish(call, None)
            return
        self._window -= length
        self.sent += 1
        stream = call.stream_id.to_bytes(4, "big")
        self.write(
            b"".join(
                (
                    _HEADERS_PREFIX,
                    stream,
                    _RESPONSE,
                    frame_prefix(DATA, 0, call.stream_id, length),
                    b"\0",
                    len(message).to_bytes(4, "big"),
                    message,
                    _OK_PREFIX,
                    stream,
                    _OK,
                )
            )
        )
        self._connection.finished(call)

    def send(self, call: Call, data: bytes) -> None:
        """Send *data*, a message with its prefix; it waits in ``call.unsent`` as far as it cannot be written now."""
        if not call.headers_sent:
            call.headers_sent = True
            self.write(_HEADERS_PREFIX + call.stream_id.to_bytes(4, "big") + _RESPONSE)
        length = len(data)
        if call.unsent or length > MAX_FRAME_BYTES or length > min(call.send_window, self._window) or self._paused:
            if call.unsent is None:
                call.unsent = deque()
            call.unsent.append(memoryview(data))
            call.unsent_bytes += length
            if not self.unsent_bytes:
                self.last_progress = self._clock.monotonic()
            self._count(length)
            if call.send_window > 0:
                self._ready[call] = None
                self.pump()
            return
        self.sent += 1
        call.send_window -= length
        self._window -= length
        self.write(frame(DATA, 0, call.stream_id, data))

    def finish(self, call: Call, error: GrpcError | None) -> None:
        """End a call with the status of *error*, or OK, after its unsent data."""
        fields = _OK
        if error is not None:
            self._connection.failed(error)
            fields = status_fields(error)
            call.not_received()
        if not call.headers_sent:
            fields = STATUS_200 + _CONTENT_TYPE + fields  # a response of trailers only
        call.trailers = frame(HEADERS, END_HEADERS | END_STREAM, call.stream_id, fields)
        if not call.unsent:
            self._end(call)

    def refuse(self, stream_id: int, error: GrpcError, status: int = 200) -> None:
        """Answer a request for which there is no call. *status*: of HTTP, for requests that are not gRPC."""
        self._connection.failed(error)
        fields = (STATUS_200 if status == 200 else http_status(status)) + _CONTENT_TYPE + status_fields(error)
        self.write(frame(HEADERS, END_HEADERS | END_STREAM, stream_id, fields))

    def discard(self, call: Call) -> None:
        """Drop the unsent data of a call that was reset or ended."""
        self._ready.pop(call, None)
        if call.unsent_bytes:
            dropped, call.unsent_bytes = call.unsent_bytes, 0
            call.unsent = None
            self._count(-dropped)

    # --- flow control -----------------------------------------------------------------------------------------------

    def window_grew(self, increment: int) -> bool:
        """Add to the connection's window. Return False if it becomes too large."""
        self._window += increment
        self.pump()
        return self._window <= MAX_WINDOW

    def stream_window_grew(self, call: Call, increment: int) -> bool:
        """Add to the window of a call; negative if the client has lowered it. Return False if it becomes too large."""
        call.send_window += increment
        if call.unsent and call.send_window > 0:
            self._ready[call] = None
            self.pump()
        return call.send_window <= MAX_WINDOW

    def pause(self) -> None:
        """Write no data while the transport's buffer is full."""
        self._paused = True

    def resume(self) -> None:
        """Write data again."""
        self._paused = False
        self.pump()

    def pump(self) -> None:
        """Write waiting data as far as windows and the transport allow."""
        ready = self._ready
        written = 0
        while ready and self._window > 0 and not self._paused:
            call = next(iter(ready))
            del ready[call]
            unsent = call.unsent
            if not unsent or call.send_window <= 0:
                continue
            head = unsent[0]
            size = min(len(head), MAX_FRAME_BYTES, call.send_window, self._window)
            self.write(frame(DATA, 0, call.stream_id, head[:size]))
            written += size
            self.sent += 1
            call.send_window -= size
            call.unsent_bytes -= size
            self._window -= size
            if size == len(head):
                unsent.popleft()
            else:
                unsent[0] = head[size:]
            if unsent:
                if call.send_window > 0:
                    ready[call] = None
            elif call.trailers is not None:
                self._end(call)
            else:
                call.wake_senders()
            self._buffered += size
            if self._buffered >= _TURN_BYTES:
                self._write_now()
        if written:
            self.last_progress = self._clock.monotonic()
            self._count(-written)

    def lost(self) -> None:
        """Forget everything; those who wait for room look again."""
        self._ready.clear()
        self._buffer.clear()
        self._wake()

    # --- internal ---------------------------------------------------------------------------------------------------

    def _write_now(self) -> None:
        flushing = self._flushing
        self.flush()
        self._flushing = flushing  # a scheduled flush still comes

    def _end(self, call: Call) -> None:
        assert call.trailers is not None
        self.write(call.trailers)
        self._connection.finished(call)

    def _count(self, change: int) -> None:
        self.unsent_bytes += change
        self._connection.unsent_changed(self.unsent_bytes)
        if self._waiting and not self.crowded:
            self._wake()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, deque()
        for each in waiting:
            if not each.done():
                each.set_result(None)


def status_fields(error: GrpcError) -> bytes:
    """Return the headers of a status that is not OK."""
    fields = literal("grpc-status", str(int(error.status)))
    if error.text:
        quoted = quote(error.text[:_MAX_TEXT], safe=_UNQUOTED)
        if len(quoted) > _MAX_QUOTED:
            quoted = quote(error.text[: _MAX_TEXT // 4], safe=_UNQUOTED)
        fields += literal("grpc-message", quoted)
    return fields
