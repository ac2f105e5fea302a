"""TLS between a transport and its protocol: a transport to the connection above, a protocol to the socket below.

    socket --records--> TlsTransport --plain bytes--> Connection
    socket <--records-- TlsTransport <--plain bytes-- Connection

Sizes and limits of the write buffer are the socket's, so what waits is counted where it waits, as records. Reading is
paused at the socket. It works over every transport that can change its protocol: asyncio's, uvloop's, the simulation's.
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
    """Made by `Handshake` when a connection is to speak TLS; takes the socket's events over from the connection.

    Args:
        below: the socket; its protocol is changed to this.
        above: gets the plain bytes and the other events of the socket.
        timeout_s: seconds that the handshake may take.
        settled: called once, with None when the handshake held or with a sentence when it did not; then the connection
            is being closed.
        failed: called with a sentence when TLS breaks after the handshake; the connection is being closed.
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
        """Begin the handshake. *first* are bytes of the peer's that have been read already."""
        self._below.set_protocol(self)
        self._stream.start()
        self._flush()
        if first:
            self.data_received(first)

    # --- what the connection above calls ------------------------------------------------------------------------------

    def write(self, data: Buffer) -> None:
        """Encrypt and write; dropped when closing."""
        if self._closing:
            return
        self._stream.send(data)
        self._flush()
        self._check()

    def writelines(self, list_of_data: Iterable[Buffer]) -> None:
        """Write several buffers as one, so that small ones share a record."""
        self.write(b"".join(list_of_data))

    def close(self) -> None:
        """Say the end, write what waits, then close. The peer's answer to the end is not waited for."""
        if self._closing:
            return
        self._closing = True
        self._stream.end()
        self._flush()
        self._below.close()

    def abort(self) -> None:
        """Close at once; what waits is lost."""
        self._closing = True
        self._below.abort()

    def is_closing(self) -> bool:
        """Whether it is closed or about to be."""
        return self._closing or self._below.is_closing()

    def get_write_buffer_size(self) -> int:
        """Bytes of records that wait to be written."""
        return self._below.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set the socket's limits, bytes of records."""
        self._below.set_write_buffer_limits(high, low)

    def pause_reading(self) -> None:
        """Read nothing more from the socket."""
        self._below.pause_reading()

    def resume_reading(self) -> None:
        """Read from the socket again."""
        self._below.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """What the socket knows."""
        return self._below.get_extra_info(name, default)

    # --- what the socket below calls ----------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Decrypt, and hand over what that gives."""
        if self._closing:
            return
        stream = self._stream
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
        """The peer closed its side; an end that TLS did not announce is told apart by the frames."""
        if self._settled is None and not self._closing:
            self._above.eof_received()
        return None

    def connection_lost(self, exc: Exception | None) -> None:
        """Pass it on; an open handshake has failed by it."""
        self._settle("the peer closed the connection during the TLS handshake")
        self._closing = True
        self._timer.cancel()
        self._above.connection_lost(exc)

    def pause_writing(self) -> None:
        """Pass it on."""
        self._above.pause_writing()

    def resume_writing(self) -> None:
        """Pass it on."""
        self._above.resume_writing()

    # --- inside -------------------------------------------------------------------------------------------------------

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
