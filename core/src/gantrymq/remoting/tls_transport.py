"""TLS layer between socket and connection: a transport for the connection, a protocol for the socket.

    socket --records--> TlsTransport --plain bytes--> Connection
    socket <--records-- TlsTransport <--plain bytes-- Connection

Sizes and limits of the write buffer are the socket's and count encrypted records. Reading is paused at the socket. The
layer works with every transport that can change its protocol: asyncio's, uvloop's and the simulated one.

`TlsStream` decrypts received records and encrypts sent data. It does no I/O.

    handshake --both sides agree--> ready --close_notify--> ended
    any state --invalid record or certificate--> failed

`TlsStream.take` returns the bytes for the peer that ``receive``, ``send`` and ``end`` produce, alerts of a failure
included. At most one incomplete record (16 KiB and its framing) is kept, and a handshake message of up to 100 KiB.

Source: RFC 8446, RFC 5246; apache/rocketmq remoting/.../netty/NettyRemotingServer.java (TlsModeHandler).
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import ssl
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from gantrymq.world import Clock, Timer

_SHORT_NAMES: Final = {  # RFC 4514
    "commonName": "CN",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "countryName": "C",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
_ESCAPED: Final = re.compile(r'^[ #]|[,+"\\<>;=\0]| \Z')
READ_BYTES = 64 * 1024  # read returns at most one record of 16 KiB per call


class TlsStream:
    """One side of one TLS connection.

    Attributes:
        ready: the handshake succeeded; sending before that raises.
        ended: the peer has announced the end of its data.
        failure: short reason of a failure, or None.
    """

    def __init__(self, context: ssl.SSLContext, *, server_side: bool) -> None:
        self.ready = False
        self.ended = False
        self.failure: str | None = None
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._object = context.wrap_bio(self._incoming, self._outgoing, server_side=server_side)

    def start(self) -> None:
        """Start the handshake; a client's hello is then available from `take`."""
        self._shake_hands()

    def receive(self, data: bytes) -> bytes:
        """Add bytes from the peer and return the decrypted data, which may be empty.

        If a record is invalid, the data before it is returned and `failure` is set.
        """
        if self.failure is not None or self.ended:
            return b""
        self._incoming.write(data)
        if not self.ready:
            self._shake_hands()
            if not self.ready:
                return b""
        return self._read()

    def send(self, data: bytes | bytearray | memoryview) -> None:
        """Encrypt *data*. `ready` must be true. After a failure the data is discarded."""
        if self.failure is not None:
            return
        assert self.ready, "nothing can be sent before the handshake is over"
        view = memoryview(data)
        try:
            while len(view):
                view = view[self._object.write(view) :]
        except ssl.SSLError as error:
            self.failure = tls_error_text(error)

    def peer_subject(self) -> str:
        """Return the subject of the peer's verified certificate, such as ``CN=orders,O=Shop``; empty without one.

        The format is that of RFC 4514, so that different subjects have different texts.
        """
        certificate: Any = self._object.getpeercert() or {}
        subject: Sequence[Sequence[tuple[str, str]]] = certificate.get("subject", ())
        return ",".join("+".join(_attribute(*pair) for pair in part) for part in reversed(subject))

    def end(self) -> None:
        """Announce the end of the data. Does nothing before the handshake."""
        if not self.ready or self.failure is not None:
            return
        with contextlib.suppress(ssl.SSLError):  # raised as the peer's close_notify is not awaited
            self._object.unwrap()

    def take(self) -> bytes:
        """Return and remove the bytes to be written to the peer."""
        return self._outgoing.read()

    def _shake_hands(self) -> None:
        try:
            self._object.do_handshake()
        except ssl.SSLWantReadError:
            return
        except ssl.SSLError as error:
            self.failure = tls_error_text(error)
            return
        self.ready = True

    def _read(self) -> bytes:
        parts: list[bytes] = []
        try:
            while part := self._object.read(READ_BYTES):
                parts.append(part)
            self.ended = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self.ended = True
        except ssl.SSLError as error:
            self.failure = tls_error_text(error)
        return parts[0] if len(parts) == 1 else b"".join(parts)


def _attribute(name: str, value: str) -> str:
    return f"{_SHORT_NAMES.get(name, name)}={_ESCAPED.sub(_escape, value)}"


def _escape(found: re.Match[str]) -> str:
    return r"\00" if found[0] == "\0" else f"\\{found[0]}"


def tls_error_text(error: ssl.SSLError) -> str:
    """Return the reason without OpenSSL's file names and line numbers."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the peer's certificate does not hold: {error.verify_message}"
    if error.reason:
        return error.reason.replace("_", " ").lower()
    return str(error)


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
