"""One end of a simulated connection, with the behaviour of asyncio's socket transports.

    connected --close()--> closing: stops reading, sends buffered bytes --> connection_lost(None)
    connected --abort(), reset, exception of the protocol--> connection_lost(None or the error), buffered bytes are lost
    the peer sends EOF --> eof_received(), then close() unless eof_received() returned true

``connection_lost`` is called once, from the loop, after ``connection_made``. Writes after a loss are ignored.
Source: Lib/asyncio/selector_events.py (_SelectorSocketTransport), Lib/asyncio/transports.py (flow control).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context
from typing import Any, cast

from gantrymq_testing.simulated.stream import Stream

HIGH_WATER_BYTES = 64 * 1024  # asyncio's default


class SimulatedTransport(asyncio.Transport):
    """Writes to one stream and receives from another."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, outgoing: Stream, incoming: Stream, names: dict[str, Any]
    ) -> None:
        """Create an end that delivers nothing until `start`. *names* are the values of ``get_extra_info``."""
        super().__init__(names)
        self._loop = loop
        self._outgoing = outgoing
        self._incoming = incoming
        self._protocol: asyncio.BaseProtocol = asyncio.Protocol()
        self._started = False
        self._reading = True
        self._closing = False
        self._ended = False  # write_eof() or close() was called
        self._lost = False
        self._writing_paused = False
        self._low_water, self._high_water = HIGH_WATER_BYTES // 4, HIGH_WATER_BYTES

    def start(self, protocol: asyncio.BaseProtocol) -> None:
        """Call ``connection_made`` and start delivering bytes."""
        self._protocol = protocol
        self._started = True
        self._guarded(protocol.connection_made, self)
        self._incoming.move()

    # --- methods of asyncio.Transport -------------------------------------------------------------------------------

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Pass further events to *protocol*."""
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Return the protocol that receives the events."""
        return self._protocol

    def is_closing(self) -> bool:
        """Return whether the connection is closing, closed or lost."""
        return self._closing

    def is_reading(self) -> bool:
        """Return whether bytes may arrive."""
        return self._reading and not self._closing

    def pause_reading(self) -> None:
        """Deliver nothing until `resume_reading`; the peer's buffer fills up."""
        self._reading = False

    def resume_reading(self) -> None:
        """Deliver bytes again."""
        self._reading = True
        self._incoming.move()

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        """Send a copy of *data*."""
        if not isinstance(data, bytes | bytearray | memoryview):
            raise TypeError(f"data argument must be a bytes-like object, not {type(data).__name__!r}")
        if self._ended and not self._closing:
            raise RuntimeError("Cannot call write() after write_eof()")
        if self._lost or self._closing or not data:
            return
        self._outgoing.write(bytes(data))
        self._pause_or_resume()

    def write_eof(self) -> None:
        """Send an end after the buffered bytes; reading continues."""
        if not self._closing and not self._ended:
            self._ended = True
            self._outgoing.end()

    def can_write_eof(self) -> bool:
        """Return True."""
        return True

    def get_write_buffer_size(self) -> int:
        """Return the number of bytes written that have not arrived."""
        return len(self._outgoing)

    def get_write_buffer_limits(self) -> tuple[int, int]:
        """Return the low and the high water mark in bytes."""
        return self._low_water, self._high_water

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set the buffer sizes for pausing and resuming the protocol; defaults as in asyncio."""
        if high is None:
            high = HIGH_WATER_BYTES if low is None else 4 * low
        if low is None:
            low = high // 4
        if not high >= low >= 0:
            raise ValueError(f"high ({high!r}) must be >= low ({low!r}) must be >= 0")
        self._low_water, self._high_water = low, high
        self._pause_or_resume()

    def close(self) -> None:
        """Stop reading, send buffered bytes, then end."""
        if self._closing:
            return
        self._closing = True
        self._ended = True
        self._outgoing.end()
        if not self._outgoing:
            self._report_loss(None)

    def abort(self) -> None:
        """End now; buffered bytes are lost and the peer sees a reset."""
        self._break_off(None)

    @property
    def lost(self) -> bool:
        """Whether the connection is closed."""
        return self._lost

    @property
    def unsent(self) -> Stream:
        """The bytes written that the peer has not read."""
        return self._outgoing

    # --- called by the streams --------------------------------------------------------------------------------------

    def readable(self) -> bool:
        """Return whether bytes may be delivered now."""
        return self._started and self._reading and not self._closing

    def gone(self) -> bool:
        """Return whether this end has stopped reading permanently."""
        return self._closing

    def receive(self, data: bytes) -> None:
        """Pass *data* to the protocol, in parts if a BufferedProtocol's buffer is smaller."""
        if isinstance(self._protocol, asyncio.BufferedProtocol):
            self._guarded(_fill, self._protocol, data)
        else:
            self._guarded(cast(asyncio.Protocol, self._protocol).data_received, data)

    def receive_end(self) -> None:
        """Handle the end of the peer's data: close too, unless the protocol keeps the connection open for writing."""
        keep_open = self._guarded(cast(asyncio.Protocol, self._protocol).eof_received)
        if not keep_open:
            self.close()

    def drained(self) -> None:
        """Handle the delivery of buffered bytes: resume the writer, or finish closing."""
        self._pause_or_resume()
        if self._closing and not self._outgoing:
            self._report_loss(None)

    def lose(self, error: Exception | None) -> None:
        """Handle the loss of the connection."""
        if not self._lost:
            self._outgoing.drop()
            self._report_loss(error)

    # --- helpers ----------------------------------------------------------------------------------------------------

    def _break_off(self, error: Exception | None) -> None:
        if not self._lost:
            self._outgoing.break_off()
            self._report_loss(error)

    def _report_loss(self, error: Exception | None) -> None:
        if self._lost:
            return
        self._lost = True
        self._closing = True
        self._incoming.move()  # a sender that waits for this end to resume reading must learn of the loss
        if self._started:
            self._loop.call_soon(self._protocol.connection_lost, error, context=Context())

    def _pause_or_resume(self) -> None:
        size = len(self._outgoing)
        if not self._writing_paused and size > self._high_water:
            self._writing_paused = True
            self._guarded(self._protocol.pause_writing)
        elif self._writing_paused and size <= self._low_water:
            self._writing_paused = False
            self._guarded(self._protocol.resume_writing)

    def _guarded(self, callback: Callable[..., Any], *args: Any) -> Any:
        """Call the protocol; if it raises, report it to the loop and end the connection, as asyncio does."""
        try:
            return callback(*args)
        except Exception as error:
            self._loop.call_exception_handler(
                {
                    "message": f"{callback.__qualname__} raised, the connection is closed",
                    "exception": error,
                    "transport": self,
                    "protocol": self._protocol,
                }
            )
            self._break_off(error)
            return None


def _fill(protocol: asyncio.BufferedProtocol, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        room = memoryview(protocol.get_buffer(len(rest)))
        size = min(len(room), len(rest))
        if size == 0:
            raise RuntimeError("get_buffer() returned an empty buffer")
        room[:size] = rest[:size]
        protocol.buffer_updated(size)
        rest = rest[size:]
