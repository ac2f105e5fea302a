"""A connection to a listener with a protocol of a plugin: it detects the protocol, then passes all events on.

socket --bytes--> `Handshake`, until the client is admitted --> the protocol's object for this connection
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, cast

from gantrymq.errors import RemoteProtocolError
from gantrymq.model.hosts import format_address
from gantrymq.remoting.handshake import Handshake
from gantrymq.remoting.protocol_admission import ProtocolAdmission
from gantrymq.remoting.tls_transport import Buffer
from gantrymq.world import Clock, Timer

log = logging.getLogger("gantrymq.remoting")

_FAILURES: Final = (Exception, asyncio.CancelledError)  # a plain function that raises the latter was not cancelled


class ProtocolConnection(asyncio.Protocol):
    """One connection; it is counted and held with those of the remoting protocol (`remoting.server.OpenConnection`).

    Attributes:
        transport: that of the socket, later of TLS; None after the connection is lost.
        peer: host and port of the client, from its PROXY header if there is one.
        certificate: subject of the client's verified TLS certificate; empty if there is none.
        encrypted: whether the connection uses TLS.
        closed: it is closed before the protocol has it.
    """

    def __init__(
        self,
        clock: Clock,
        timeout_s: float,
        admission: ProtocolAdmission,
        opened: Callable[[ProtocolConnection], bool],
        accept: Callable[[ProtocolConnection], asyncio.Protocol | None],
        failed: Callable[[], object],
    ) -> None:
        """Create an unconnected object.

        Args:
            clock: for *timeout_s*.
            timeout_s: within this time the client must have sent its first bytes, after a TLS handshake if any.
            admission: the rules of the listener.
            opened: called with the connection; False if there are too many.
            accept: returns the protocol's object for an admitted client; None to close the connection.
            failed: called for an exception of that object, which is logged here, and which closes the connection.
        """
        self.transport: asyncio.Transport | None = None
        self.peer: tuple[str, int] = ("", 0)
        self.certificate = ""
        self.encrypted = False
        self.closed = False
        self._clock = clock
        self._timeout_s = timeout_s
        self._handshake = Handshake(self, self, self, clock, timeout_s, sniffing=True, admission=admission)
        self._opened, self._accept, self._failed = opened, accept, failed
        self._served: asyncio.Protocol | None = None
        self._held = False
        self._early = b""  # received while held
        self._heard = False
        self._timer: Timer | None = None
        self._on_close: list[Callable[[ProtocolConnection], None]] = []

    @property
    def address(self) -> str:
        """Address of the client as ``host:port``."""
        return format_address(*self.peer)

    def set_peer(self, peer: tuple[str, int]) -> None:
        """Replace the client's address by the one in a PROXY header."""
        self.peer = peer

    def add(self, data: Buffer, size: int) -> None:
        """Write a response of the handshake."""
        if self.transport is not None:
            self.transport.write(data)

    def on_close(self, callback: Callable[[ProtocolConnection], None]) -> None:
        """Call *callback* when the connection is lost."""
        self._on_close.append(callback)

    def pause_reading(self) -> None:
        """Read nothing before `resume_reading`."""
        self._held = True
        if self.transport is not None:
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        """Start to read, after `pause_reading`."""
        if not self._held or self.transport is None or self.closed:
            return
        self._held = False
        self.transport.resume_reading()
        self._start_timer()
        early, self._early = self._early, b""
        if early:
            self.data_received(early)

    def close(self) -> None:
        """Close the connection after writing buffered data."""
        self.closed = True
        if self.transport is not None:
            self.transport.close()

    def abort(self) -> None:
        """Close the connection at once."""
        self.closed = True
        if self.transport is not None:
            self.transport.abort()

    # --- called by the transport ------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start to wait for the first bytes, or close the connection because there are too many."""
        self.transport = cast(asyncio.Transport, transport)  # uvloop's class is not a subclass
        name = transport.get_extra_info("peername")
        if isinstance(name, tuple) and len(name) >= 2:
            self.peer = (str(name[0]), int(name[1]))
        if not self._opened(self):
            self.abort()
        elif not self._held:
            self._start_timer()

    def data_received(self, data: bytes) -> None:
        """Pass *data* to the protocol, or detect what the client speaks."""
        if self._served is not None:
            try:
                self._served.data_received(data)
            except _FAILURES:
                self._broken()
            return
        if self.closed or self.transport is None:
            return
        if self._held:  # uvloop starts reading after `connection_made` even if that paused it
            self._early += data
            self.transport.pause_reading()
            return
        self._heard = True
        try:
            first = self._handshake.receive(data)
        except RemoteProtocolError as refusal:
            log.warning("%s: closed: %s", self.address, refusal)
            self.close()
            return
        if self._handshake.over:
            self._serve(first)

    def eof_received(self) -> bool | None:
        """Pass the event on; without an admitted client the connection is closed."""
        if self._served is None:
            return None
        try:
            return self._served.eof_received()
        except _FAILURES:
            self._broken()
            return None

    def connection_lost(self, exc: Exception | None) -> None:
        """Pass the event on, and run the close callbacks."""
        self.closed = True
        self.transport = None
        self._stop_timer()
        callbacks, self._on_close = self._on_close, []
        for callback in callbacks:
            callback(self)
        if self._served is None:
            log.debug("%s: the client closed the connection before its first bytes were complete", self.address)
            return
        try:
            self._served.connection_lost(exc)
        except _FAILURES:
            self._broken()

    def pause_writing(self) -> None:
        """Pass the event on."""
        if self._served is not None:
            self._served.pause_writing()

    def resume_writing(self) -> None:
        """Pass the event on."""
        if self._served is not None:
            self._served.resume_writing()

    # --- internal ---------------------------------------------------------------------------------------------------

    def _serve(self, first: bytes) -> None:
        """Pass the connection to the protocol."""
        self._stop_timer()
        assert self.transport is not None
        try:
            served = self._accept(self)
            if served is None:
                self.close()
                return
            self._served = served
            served.connection_made(self.transport)
            served.data_received(first)
        except _FAILURES:
            self._broken()

    def _broken(self) -> None:
        log.exception("%s: closed: serving the connection failed", self.address)
        self._failed()
        self.abort()

    def _start_timer(self) -> None:
        self._timer = self._clock.call_later(self._timeout_s, self._expire)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _expire(self) -> None:
        if not self.closed:  # else a response is unread
            level = logging.WARNING if self._heard else logging.DEBUG
            log.log(level, "%s: closed: no complete first bytes within %g s", self.address, self._timeout_s)
        self.abort()
