"""One connection of a client or server: passes responses to the calls that wait for them, and requests to the handler.

    transport --bytes--> `Handshake` --> frames --> commands --+--> `RequestQueue` --> handler
                                                             +--> `PendingCalls`, which wait for responses
    transport <--one write per loop iteration-- `WriteBuffer` <-- responses and requests (`Channel`, `ClientPushes`)

Reading from a peer pauses while that peer does not read (see `Limits`), so a slow peer only delays itself.

Source of the rules: apache/rocketmq remoting/.../netty/NettyRemotingAbstract.java.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, Protocol, cast

from gantrymq.errors import RemoteProtocolError
from gantrymq.remoting.admission import Admission
from gantrymq.remoting.busy_poll import BusyPoll
from gantrymq.remoting.codes import FLAG_RESPONSE
from gantrymq.remoting.command import Command
from gantrymq.remoting.frame import FrameDecoder
from gantrymq.remoting.handshake import Handshake
from gantrymq.remoting.limits import Limits, UnfinishedFrames, UnwrittenBytes
from gantrymq.remoting.pushes import ClientPushes
from gantrymq.remoting.request_queue import RequestQueue, ResponseLimiter
from gantrymq.remoting.sends import decode_all
from gantrymq.remoting.tls_transport import TlsTransport
from gantrymq.remoting.write_buffer import WriteBuffer
from gantrymq.world import Clock, Timer, World


class IdleTimer:
    """Idle timer of one connection."""

    def __init__(
        self,
        clock: Clock,
        timeout_s: float,
        last_heard: Callable[[], float],
        writes: WriteBuffer,
        idle: Callable[[], object],
    ) -> None:
        """*last_heard* returns the monotonic time of the last read; *idle* is called after *timeout_s* idle seconds."""
        self._clock = clock
        self._timeout_s = timeout_s
        self._last_heard = last_heard
        self._writes = writes
        self._idle = idle
        self._unwritten_seen = 0
        self._timer: Timer | None = None

    def start(self) -> None:
        """Start the timer; a timeout of 0 disables it."""
        if self._timeout_s > 0:
            self._timer = self._clock.call_later(self._timeout_s, self._check)

    def stop(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()

    def _check(self) -> None:
        """Check the idle time. A peer that has read buffered data since the last check is alive."""
        transport = self._writes.transport
        if transport is None:
            return
        unwritten = transport.get_write_buffer_size()
        if unwritten != self._unwritten_seen:
            self._writes.last_wrote = self._clock.monotonic()
        self._unwritten_seen = unwritten
        idle = self._clock.monotonic() - max(self._last_heard(), self._writes.last_wrote)
        left = self._timeout_s - idle
        if left > 1e-6:  # less is a rounding error; such a timer would not advance a simulated clock
            self._timer = self._clock.call_later(left, self._check)
        else:
            self._idle()


log = logging.getLogger("gantrymq.remoting")

_PAUSED_BY_PEER: Final = 1
_PAUSED_BY_US: Final = 2
_PAUSED_BY_ANSWERS: Final = 4
_PAUSED_BY_LIMITER: Final = 8
_PAUSED_BY_ERROR: Final = 16  # for good: the frames after it cannot be found

LAST_REQUESTS_S: Final = 5.0  # for requests that wait when the peer closes: to identify their senders may take long


class RequestHandler(Protocol):
    """Handler of the requests of all connections."""

    def requests(self, connection: Connection, commands: list[Command]) -> None:
        """Handle a batch of requests in order; respond now or later with ``connection.reply``.

        Oneway requests are included and get no response. The method must not block; an exception is logged as a bug.
        Before each request except the first, the method checks whether the connection is ``full``; if so, it passes
        that request and the following ones to ``connection.put_back``.
        """


class Connection(ClientPushes, asyncio.Protocol):
    """A connection to a peer; created by `RemotingServer` and `RemotingClient` only.

    Attributes:
        last_heard: monotonic time of the last read, seconds.
        notes: data that handlers and plugins store with this connection.
        response_limiter: limits work that prepares long responses.
    """

    def __init__(
        self,
        world: World,
        handler: RequestHandler | None,
        limits: Limits,
        unfinished: UnfinishedFrames,
        unwritten: UnwrittenBytes,
        *,
        sniffing: bool,
        opened: Callable[[Connection], bool] | None = None,
        admission: Admission | None = None,
        tls: ssl.SSLContext | None = None,
        busy_poll: BusyPoll | None = None,
    ) -> None:
        """With *sniffing*, detect the protocol and apply *admission*; with *tls*, act as a TLS client."""
        super().__init__(world.clock, limits, unwritten)
        self._clock = clock = world.clock
        self._network = world.network
        writes = self._writes
        self.last_heard = clock.monotonic()
        self.notes: dict[Any, Any] = {}
        self._unfinished = unfinished
        self._opened = opened
        self._tls = tls
        self._decoder = FrameDecoder(limits.max_frame_bytes)
        self._handshake = Handshake(
            self, self, writes, clock, limits.handshake_timeout_s, sniffing=sniffing, admission=admission
        )
        self._queue = RequestQueue(
            self,
            None if handler is None else partial(handler.requests, self),
            clock,
            writes,
            partial(self._pause, _PAUSED_BY_ANSWERS),
            partial(self._resume, _PAUSED_BY_ANSWERS),
            busy_poll,
        )
        pause, resume = partial(self._pause, _PAUSED_BY_LIMITER), partial(self._resume, _PAUSED_BY_LIMITER)
        self.response_limiter = ResponseLimiter(clock, writes, lambda: self.address, pause, resume)
        self._idle = IdleTimer(clock, limits.idle_timeout_s, lambda: self.last_heard, writes, self._idled)
        self._idle_timeout_s = limits.idle_timeout_s
        self._paused = 0
        self._early = b""  # received while paused by us
        self._on_close: list[Callable[[Connection], None]] | None = []  # None after the calls

    def __repr__(self) -> str:
        return f"<Connection {self.address}{' closed' if self.closed else ''}>"

    async def secured(self) -> None:
        """Wait for the TLS handshake of a client connection. Return at once without TLS.

        Raises:
            HandshakeFailed: the connection is closed; the message does not name the peer.
        """
        await self._handshake.secured()

    def on_close(self, callback: Callable[[Connection], None]) -> None:
        """Call *callback* once when the connection is closed and its requests are served, or now if they are."""
        if self._on_close is None:
            callback(self)
        else:
            self._on_close.append(callback)

    def abort(self) -> None:
        """Close at once; discard unwritten data and waiting requests."""
        super().abort()
        self._queue.discard()

    def put_back(self, requests: Sequence[Command]) -> None:
        """Pass *requests*, the unserved rest of a batch, to the handler again once the buffer has room."""
        self._queue.put_back(requests)

    def hold(self, requests: Sequence[Command]) -> None:
        """Serve neither *requests*, the unserved rest of a batch, nor later ones until `release`."""
        self._queue.hold(requests)

    def release(self) -> None:
        """Pass the requests of `hold` to the handler again."""
        self._queue.release()

    def pause_reading(self) -> None:
        """Stop reading from this peer until `resume_reading`."""
        self._pause(_PAUSED_BY_US)

    def resume_reading(self) -> None:
        """Resume reading, unless it is paused for another reason."""
        self._resume(_PAUSED_BY_US)
        early, self._early = self._early, b""
        if early:
            self.data_received(early)

    # --- called by asyncio ------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport. A server with too many connections closes the new one here."""
        self._writes.use(cast(asyncio.Transport, transport))  # uvloop's class is not a subclass
        name = transport.get_extra_info("peername")
        if isinstance(name, tuple) and len(name) >= 2:
            self.peer = (str(name[0]), int(name[1]))
        if self._tls is not None:
            self._handshake.connect_tls(self._tls)
        if self._opened is not None and not self._opened(self):
            self.abort()
            return
        self._idle.start()

    def data_received(self, data: bytes) -> None:
        """Pass the requests of this read to the handler and the responses to their calls."""
        self.last_heard = self._clock.monotonic()
        if self._writes.closed or self._paused & _PAUSED_BY_ERROR:
            return
        if self._paused & _PAUSED_BY_US:
            self._read_early(data)
            return
        error: RemoteProtocolError | None = None
        commands: list[Command] = []
        decoder = self._decoder
        before = decoder.pending_bytes
        try:
            if not self._handshake.over:
                data = self._handshake.receive(data)
            if data:
                decode_all(decoder.feed(data), commands)
            decoder.check()
        except RemoteProtocolError as problem:
            error = problem
        held = decoder.pending_bytes
        if held or before:
            self._unfinished.update(self, held, fresh=before == 0 or held < before + len(data))
        if len(commands) == 1 and not commands[0].flag & FLAG_RESPONSE:
            requests = commands
        else:
            requests = [command for command in commands if not command.flag & FLAG_RESPONSE]
            if len(requests) < len(commands):
                self._take_answers(commands)
        if requests:
            self.serialize = requests[-1].serialize
            self._queue.take(requests)
        if error is not None:
            log.warning("%s: closed: %s", self.address, error)
            self._pause(_PAUSED_BY_ERROR)
            self._queue.finish(self.close)

    def eof_received(self) -> bool | None:
        """Close when the peer has closed its side."""
        if self._decoder.pending_bytes:
            log.info("%s: closed inside a frame, %d bytes left over", self.address, self._decoder.pending_bytes)
        return None

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the pending calls, serve the requests that wait if the peer closed, and run the close callbacks.

        A client may send oneway requests and close at once: Java's broker serves whatever it has read, too.
        """
        closed_here = self.closed
        if exc is not None and not closed_here:
            self._read_rest()
        self._unfinished.update(self, 0, fresh=False)
        self._decoder = FrameDecoder()  # frees its bytes now, not in the next cycle collection
        self._idle.stop()
        try:
            self._writes.lost(in_order=exc is None and not self._aborted)
            self.response_limiter.connection_lost()
        finally:  # even if a callback for dropped oneway requests raises
            self._pending.lost()
        if closed_here:
            self._queue.discard()
        self._queue.finish(self._call_close_callbacks)
        if self._on_close is not None:
            timer = self._clock.call_later(LAST_REQUESTS_S, self._give_up)
            self.on_close(lambda _: timer.cancel())

    def _read_rest(self) -> None:
        """Read what came before a failed write. With TLS that is lost."""
        transport = self._writes.transport
        if transport is None or type(transport) is TlsTransport:
            return
        if rest := self._network.unread(transport):
            self.data_received(rest)

    def _give_up(self) -> None:
        log.info("%s: closed; its last requests could not be served within %g s", self.address, LAST_REQUESTS_S)
        self._queue.discard()

    def _call_close_callbacks(self) -> None:
        callbacks, self._on_close = self._on_close or (), None
        for callback in callbacks:
            try:
                callback(self)
            except Exception:
                log.exception("%s: a close callback failed", self.address)

    def pause_writing(self) -> None:
        """Pause reading while the peer does not read."""
        self._pause(_PAUSED_BY_PEER)

    def resume_writing(self) -> None:
        """Resume after the peer has read most of the buffered data."""
        self._writes.drained()
        self._resume(_PAUSED_BY_PEER)
        self.response_limiter.release_waiting()
        self._queue.serve_next()

    def drop_unfinished(self, held: int, limit: int) -> None:
        """Close this connection to free memory (see `UnfinishedFrames`)."""
        log.warning(
            "%s: closed: unfinished frames of all connections take %d bytes, limit %d, and this one of %d is old",
            self.address,
            held,
            limit,
            self._decoder.pending_bytes,
        )
        self.abort()

    # --- internal ---------------------------------------------------------------------------------------------------

    def _wrote(self) -> None:
        self._pending.begin(self._writes.handed)
        self.response_limiter.release_soon()
        self._queue.serve_soon()

    def _pause(self, why: int) -> None:
        transport = self._writes.transport
        if not self._paused and transport is not None and not transport.is_closing():
            transport.pause_reading()
        self._paused |= why

    def _resume(self, why: int) -> None:
        transport = self._writes.transport
        if self._paused == why and transport is not None and not transport.is_closing():
            transport.resume_reading()
        self._paused &= ~why

    def _read_early(self, data: bytes) -> None:
        """Keep data received while paused: uvloop starts reading after `connection_made` even if that paused it."""
        self._early += data
        transport = self._writes.transport
        if transport is not None and not transport.is_closing():
            transport.pause_reading()

    def _idled(self) -> None:
        log.info("%s: closed: nothing read or written for %g s", self.address, self._idle_timeout_s)
        self.abort()
