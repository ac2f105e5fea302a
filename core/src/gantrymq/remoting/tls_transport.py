"""TLS layer between socket and connection: a transport for the connection, a protocol for the socket.

    socket --records--> TlsTransport --plain bytes--> Connection
    socket <--records-- TlsTransport <--plain bytes-- Connection

Sizes and limits of the write buffer are the socket's and count encrypted records. Reading is paused at the socket. The
layer works with every transport that can change its protocol: asyncio's, uvloop's and the simulated one.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterable
from typing import Any

from gantrymq.remoting.tls_stream import TlsStream
from gantrymq.world import Clock, Timer

__all__ = ["TlsTransport"]

Buffer = bytes | bytearray | memoryview


class TlsTransport(asyncio.Transport, asyncio.Protocol):
    """TLS transport, created by `Handshake`. It receives the socket's events in place of the connection.

    Args:
        below: transport of the socket; its protocol is set to this object.
        above: receives the decrypted bytes and the other events.
        timeout_s: time limit of the handshake, seconds.
        settled: called once, with None after a successful handshake or with the reason of a failure, after which the
            connection is closed.
        failed: called with the reason if TLS fails after the handshake; the connection is then closed.
    """

    def __init__(
        self,
        below: asyncio.Transport,
        above: asyncio.Protocol,
        context: ssl.SSLContext,
        *,
        server_side: bool,
        clock: Clock,
        timeout_s: float,
        settled: Callable[[str | None], None],
        failed: Callable[[str], None],
    ) -> None:
        super().__init__()
        self._below = below
        self._above = above
        self._stream = TlsStream(context, server_side=server_side)
        self._settled: Callable[[str | None], None] | None = settled
        self._failed = failed
        self._timeout_s = timeout_s
        self._timer: Timer = clock.call_later(timeout_s, self._expire)
        self._closing = False

    def start(self, first: bytes = b"") -> None:
        """Start the handshake. *first* are bytes already received."""
        self._below.set_protocol(self)
        self._stream.start()
        self._flush()
        if first:
            self.data_received(first)

    # --- called by the connection -----------------------------------------------------------------------------------

    def write(self, data: Buffer) -> None:
        """Encrypt and write *data*. Ignored while closing."""
        if self._closing:
            return
        self._stream.send(data)
        self._flush()
        self._check()

    def writelines(self, list_of_data: Iterable[Buffer]) -> None:
        """Write several buffers at once, so that small ones share a record."""
        self.write(b"".join(list_of_data))

    def close(self) -> None:
        """Announce the end, write buffered data, then close without waiting for the peer's close_notify."""
        if self._closing:
            return
        self._closing = True
        self._stream.end()
        self._flush()
        self._below.close()

    def abort(self) -> None:
        """Close at once and discard buffered data."""
        self._closing = True
        self._below.abort()

    def is_closing(self) -> bool:
        """Return whether the transport is closed or closing."""
        return self._closing or self._below.is_closing()

    def get_write_buffer_size(self) -> int:
        """Return the size of the unwritten records in bytes."""
        return self._below.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set the limits of the socket's write buffer, in bytes of records."""
        self._below.set_write_buffer_limits(high, low)

    def pause_reading(self) -> None:
        """Pause reading from the socket."""
        self._below.pause_reading()

    def resume_reading(self) -> None:
        """Resume reading from the socket."""
        self._below.resume_reading()

    def peer_subject(self) -> str:
        """Return the subject of the peer's verified certificate, or an empty string."""
        return self._stream.peer_subject()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return information about the socket."""
        return self._below.get_extra_info(name, default)

    # --- called by the socket ----------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Decrypt *data* and pass the result on."""
        if self._closing:
            return
        stream = self._stream
        # What is flushed afterwards may be the alert of a failed handshake, which tells the peer the reason.
        plain = stream.receive(data)
        self._flush()
        if self._settled is not None:
            if stream.failure is not None:
                self._settle(f"the TLS handshake failed: {stream.failure}")
            elif stream.ready:
                self._settle(None)
        if plain and not self._closing:
            self._above.data_received(plain)
        self._check()
        if stream.ended and not self._closing:
            self._above.eof_received()
            self.close()

    def eof_received(self) -> bool | None:
        """Handle that the peer closed its side. The frame decoder detects an end inside a frame."""
        if self._settled is None and not self._closing:
            self._above.eof_received()
        return None

    def connection_lost(self, exc: Exception | None) -> None:
        """Pass the event on. An unfinished handshake has failed."""
        self._settle("the peer closed the connection during the TLS handshake")
        self._closing = True
        self._timer.cancel()
        self._above.connection_lost(exc)

    def pause_writing(self) -> None:
        """Pass the event on."""
        self._above.pause_writing()

    def resume_writing(self) -> None:
        """Pass the event on."""
        self._above.resume_writing()

    # --- internal -----------------------------------------------------------------------------------------------------

    def _flush(self) -> None:
        records = self._stream.take()
        if records and not self._below.is_closing():
            self._below.write(records)

    def _check(self) -> None:
        if self._stream.failure is not None and not self._closing:
            self._failed(f"TLS failed: {self._stream.failure}")
            self.close()

    def _settle(self, problem: str | None) -> None:
        settled, self._settled = self._settled, None
        if settled is None:
            return
        self._timer.cancel()
        settled(problem)
        if problem is not None:
            self.close()

    def _expire(self) -> None:
        self._settle(f"no TLS handshake within {self._timeout_s:g} s")
