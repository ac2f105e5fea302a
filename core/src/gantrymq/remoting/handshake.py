"""Start of a connection before its first frame: protocol detection, PROXY header and TLS.

    accepted     first bytes --> `sniff` --+--> frames
                     ^                     +--> other protocols: error response, closed
                     +---------------------+--> TLS, or a PROXY header
    connecting   TLS if configured, then frames

`Admission` decides which connections are accepted; this module applies the decision.
"""

from __future__ import annotations

import asyncio
import logging
import ssl

from gantrymq.errors import HandshakeFailed
from gantrymq.remoting.admission import Admission
from gantrymq.remoting.channel import Channel
from gantrymq.remoting.preamble import HTTP2_SETTINGS, ProtocolKind, sniff
from gantrymq.remoting.tls_transport import TlsTransport
from gantrymq.remoting.write_buffer import WriteBuffer
from gantrymq.world import Clock

log = logging.getLogger("gantrymq.remoting")


class Handshake:
    """Handshake of one connection.

    Attributes:
        over: all following bytes are frames.
    """

    def __init__(
        self,
        connection: Channel,
        protocol: asyncio.Protocol,
        writes: WriteBuffer,
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
        """Detect the protocol and return the bytes of frames; empty until it is known.

        Raises:
            RemoteProtocolError: the connection is refused.
        """
        self._first += data
        inside_tls = isinstance(self._writes.transport, TlsTransport)
        preamble = sniff(self._first, inside_tls=inside_tls)
        if preamble is None:
            return b""
        if preamble.peer is not None and not self._proxied:
            self._admission.proxies.check(self._connection.peer[0])
            self._connection.set_peer(preamble.peer)
            self._proxied = True
        if preamble.protocol is ProtocolKind.HTTP2 and not self._greeted:
            self._greeted = True
            self._writes.add(HTTP2_SETTINGS, len(HTTP2_SETTINGS))
        answer = self._admission.answer(preamble.protocol, preamble.rest)
        if answer is None:
            return b""
        self._first = b""
        if preamble.protocol is ProtocolKind.TLS:  # the decrypted bytes are checked again
            self._begin_tls(self._admission.tls_context(), preamble.rest, server_side=True)
            return b""
        self.over = True
        if answer:
            self._writes.add(answer, len(answer))
        self._admission.check(preamble.protocol, inside_tls=inside_tls)
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
