"""Start of a connection before its first frame: protocol detection, PROXY header and TLS.

    accepted     first bytes --> `sniff` --+--> frames, or the protocol of the listener
                     ^                     +--> other protocols: error response, closed
                     +---------------------+--> TLS, or a PROXY header
    connecting   TLS if configured, then frames

`Admission` decides which connections are accepted; this module applies the decision, for `remoting.connection` and
`remoting.protocol_connection`.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from typing import Protocol

from gantrymq.errors import HandshakeFailed
from gantrymq.remoting.admission import Admission
from gantrymq.remoting.preamble import HTTP2_SETTINGS, ProtocolKind, sniff
from gantrymq.remoting.tls_transport import Buffer, TlsTransport
from gantrymq.world import Clock

log = logging.getLogger("gantrymq.remoting")


class HandshakeConnection(Protocol):
    """A connection that a `Handshake` is for."""

    peer: tuple[str, int]
    certificate: str
    encrypted: bool

    @property
    def address(self) -> str:
        """Address of the peer as ``host:port``."""

    def set_peer(self, peer: tuple[str, int]) -> None:
        """Replace the peer address by the one in a PROXY header."""


class HandshakeWrites(Protocol):
    """Where a `Handshake` writes its responses."""

    transport: asyncio.Transport | None  # of the socket, which the handshake replaces by that of TLS
    closed: bool

    def add(self, data: Buffer, size: int) -> None:
        """Write *data* of *size* bytes, at once or soon."""


class Handshake:
    """Handshake of one connection.

    Attributes:
        over: all following bytes are frames, or of the listener's protocol.
    """

    def __init__(
        self,
        connection: HandshakeConnection,
        protocol: asyncio.Protocol,
        writes: HandshakeWrites,
        clock: Clock,
        handshake_timeout_s: float,
        *,
        sniffing: bool,
        admission: Admission | None,
    ) -> None:
        """With *sniffing* the protocol is detected and *admission* applied; without it only frames are expected.

        *protocol* receives the decrypted bytes of a TLS connection.
        """
        self.over = not sniffing
        self._connection = connection
        self._protocol = protocol
        self._writes = writes
        self._clock = clock
        self._handshake_timeout_s = handshake_timeout_s
        self._admission = admission or Admission()
        self._first = b""  # bytes received before the protocol is known
        self._greeted = False  # HTTP/2 settings were sent
        self._proxied = False  # a PROXY header was read
        self._secured: asyncio.Future[None] | None = None

    def receive(self, data: bytes) -> bytes:
        """Detect the protocol and return the bytes after the PROXY header; empty until the protocol is known.

        Raises:
            RemoteProtocolError: the connection is refused.
        """
        self._first += data
        inside_tls = isinstance(self._writes.transport, TlsTransport)
        admission = self._admission
        preamble = sniff(self._first, inside_tls=inside_tls, first=admission.first_bytes(inside_tls=inside_tls))
        if preamble is None:
            return b""
        if preamble.peer is not None and not self._proxied:
            admission.proxies.check(self._connection.peer[0])
            self._connection.set_peer(preamble.peer)
            self._proxied = True
        if preamble.protocol is ProtocolKind.HTTP2 and not self._greeted:
            self._greeted = True
            self._writes.add(HTTP2_SETTINGS, len(HTTP2_SETTINGS))
        answer = admission.answer(preamble.protocol, preamble.rest, inside_tls=inside_tls)
        if answer is None:
            return b""
        self._first = b""
        if preamble.protocol is ProtocolKind.TLS:  # the decrypted bytes are checked again
            self._begin_tls(admission.tls_context(), preamble.rest, server_side=True)
            return b""
        self.over = True
        if answer:
            self._writes.add(answer, len(answer))
        admission.check(preamble.protocol, inside_tls=inside_tls)
        return preamble.rest

    def connect_tls(self, context: ssl.SSLContext) -> None:
        """Start TLS as the client."""
        self._secured = asyncio.get_running_loop().create_future()
        self._begin_tls(context, b"", server_side=False)

    async def secured(self) -> None:
        """Wait for the handshake started by `connect_tls`. Return at once without one.

        Raises:
            HandshakeFailed: the connection is closed; the message does not name the peer.
        """
        if self._secured is not None:
            await self._secured

    def _begin_tls(self, context: ssl.SSLContext, first: bytes, *, server_side: bool) -> None:
        """Insert TLS between socket and connection."""
        assert self._writes.transport is not None
        self._writes.transport = transport = TlsTransport(
            self._writes.transport,
            self._protocol,
            context,
            server_side=server_side,
            clock=self._clock,
            timeout_s=self._handshake_timeout_s,
            settled=self._tls_settled,
            failed=self._tls_failed,
        )
        transport.start(first)

    def _tls_settled(self, problem: str | None) -> None:
        if problem is None and isinstance(self._writes.transport, TlsTransport):
            self._connection.certificate = self._writes.transport.peer_subject()
            self._connection.encrypted = True
        if self._secured is None:
            if problem is not None and not self._writes.closed:
                self._tls_failed(problem)
        elif not self._secured.done():
            if problem is None:
                self._secured.set_result(None)
            else:
                self._writes.closed = True
                self._secured.set_exception(HandshakeFailed(problem))
                self._secured.exception()  # avoids asyncio's warning if no caller awaits it

    def _tls_failed(self, problem: str) -> None:
        self._writes.closed = True
        log.warning("%s: closed: %s", self._connection.address, problem)
