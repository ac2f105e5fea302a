"""One connection, on either side: frames to commands, answers to their calls, writes gathered per loop turn.

Reading stops while the peer does not read what we write (see `Limits`), so a slow reader slows only itself. Both
sides may ask: each numbers its own requests, and the response bit tells an answer from a request.

Source of the rules: apache/rocketmq remoting/.../netty/NettyRemotingAbstract.java; wire reference 1.1, 1.7, 1.9.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, cast

from gantrymq.errors import ConnectFailed, ConnectionLost, RemoteProtocolError
from gantrymq.remoting.addresses import format_address, packed_host
from gantrymq.remoting.busy_poll import BusyPoll
from gantrymq.remoting.calls import Calls
from gantrymq.remoting.codes import FLAG_ONEWAY, FLAG_RESPONSE, SERIALIZE_JSON, request_name
from gantrymq.remoting.command import Command, encode, encode_head
from gantrymq.remoting.foreign import HTTP2_GREETING
from gantrymq.remoting.frame import FrameDecoder
from gantrymq.remoting.gate import Gate
from gantrymq.remoting.limits import Limits, UnfinishedFrames, UnwrittenBytes
from gantrymq.remoting.oneways import Oneways
from gantrymq.remoting.preamble import Beginning, sniff
from gantrymq.remoting.sends import decode_all
from gantrymq.remoting.tls_transport import TlsTransport
from gantrymq.remoting.write_line import WriteLine
from gantrymq.world import Timer, World

__all__ = ["Connection", "Requests"]

log = logging.getLogger("gantrymq.remoting")

Buffer = bytes | bytearray | memoryview

_PAUSED_BY_PEER: Final = 1
_PAUSED_BY_US: Final = 2
_PAUSED_BY_ANSWERS: Final = 4

HAND_OVER: Final = 32  # requests served, at most, before their answers are written and others get their turn
LEAST_HAND_OVER: Final = 4  # the same where requests take long
TURN_S: Final = 0.001  # that the requests of one turn should not take together
MOST_WAITING: Final = 8 * HAND_OVER  # requests that wait for their turn while more are read
_JOIN_BYTES: Final = 64 * 1024  # buffers that are no more together are copied into one, cheaper than a list of them,
_SMALL_BYTES: Final = 4096  # unless they are larger on average
_BINARY_MAX_CODE: Final = 0x7FFF


class Requests(Protocol):
    """Takes the requests that come in on connections."""

    def requests(self, connection: Connection, commands: list[Command]) -> None:
        """Handle all requests of one read, in order; answer now or later with ``connection.reply``.

        Oneway requests are among them and are not answered. Must not block; what it raises is logged as a bug.
        """


class Connection(asyncio.Protocol):
    """A connection to a peer; created by `RemotingServer` and `RemotingClient` only.

    Attributes:
        peer: host and port of the peer, taken from a PROXY header where there is one.
        last_heard: monotonic seconds of the last read.
        closed: no reply or call gets through any more.
        serialize: header form of the last request that came in, JSON before that.
        state: whatever the owner attaches.
    """

    def __init__(
        self,
        world: World,
        handler: Requests | None,
        limits: Limits,
        unfinished: UnfinishedFrames,
        unwritten: UnwrittenBytes,
        *,
        sniffing: bool,
        opened: Callable[[Connection], bool] | None = None,
        gate: Gate | None = None,
        tls: ssl.SSLContext | None = None,
        busy_poll: BusyPoll | None = None,
    ) -> None:
        """*gate* decides on what *sniffing* finds; with *tls* the connection begins as a client of TLS."""
        self.peer: tuple[str, int] = ("", 0)
        self.last_heard = world.clock.monotonic()
        self.closed = False
        self.serialize = SERIALIZE_JSON
        self.state: dict[Any, Any] = {}
        self._clock = world.clock
        self._busy_poll = busy_poll
        self._handler = handler
        self._limits = limits
        self._unfinished = unfinished
        self._unwritten = unwritten
        self._backlog = 0  # what the account of unwritten bytes was told last
        self._opened = opened
        self._gate = gate or Gate()
        self._tls = tls
        self._secured: asyncio.Future[None] | None = None
        self._decoder = FrameDecoder(limits.max_frame_bytes)
        self._first: bytes | None = b"" if sniffing else None  # bytes before it is clear what the peer speaks
        self._greeted = False  # in HTTP/2
        self._proxied = False  # `peer` is what a PROXY header says
        self._transport: asyncio.Transport | None = None
        self._packed_host: bytes | None = None
        self._notes: dict[str, Any] | None = None
        self._calls = Calls(world.clock, lambda: self.address, self._position)
        self._oneways = Oneways()
        self._line: WriteLine | None = None  # made when the first one has to wait
        self._out: list[Buffer] = []
        self._out_bytes = 0
        self._handed = 0  # bytes that the transport was ever given
        self._written = 0  # of these, those that were seen to have left our memory
        self._aborted = False
        self._waiting: list[Command] = []  # requests behind answers that the peer has not read
        self._flushing = False
        self._at_once = HAND_OVER  # requests of one turn, by how long those before took
        self._going = False  # whether the requests that wait are to be served in a turn to come
        self._paused = 0
        self._last_wrote = self.last_heard
        self._unwritten_seen = 0
        self._idle_timer: Timer | None = None
        self._on_close: list[Callable[[Connection], None]] = []

    def __repr__(self) -> str:
        return f"<Connection {self.address}{' closed' if self.closed else ''}>"

    @property
    def address(self) -> str:
        """The peer as ``host:port``."""
        return format_address(*self.peer)

    @property
    def peer_packed_host(self) -> bytes:
        """The peer as records hold it: 8 bytes, or 20 for IPv6."""
        if self._packed_host is None:
            self._packed_host = packed_host(*self.peer)
        return self._packed_host

    @property
    def notes(self) -> dict[str, Any]:
        """What guards and handlers keep of this connection, under the names of their plugins."""
        if self._notes is None:
            self._notes = {}
        return self._notes

    @property
    def unwritten_bytes(self) -> int:
        """Bytes that were handed over for writing and are still in memory."""
        transport = self._transport
        return self._out_bytes + (0 if transport is None or self.closed else transport.get_write_buffer_size())

    # --- answering and asking ---------------------------------------------------------------------------------------

    def reply(self, asked: Command | int, answer: Command | bytes) -> None:
        """Answer a request; dropped without a word when the request was oneway or the connection is gone.

        Args:
            asked: the request, or its opaque (then the header form of the last request is used).
            answer: a command, whose opaque, response bit and header form are set here; or a frame that is encoded.
        """
        if self.closed or (not isinstance(asked, int) and asked.flag & FLAG_ONEWAY):
            return
        if isinstance(answer, bytes):
            self._send(answer, len(answer))
            return
        self._address_answer(asked, answer)
        if answer.body is None:
            head = encode_head(answer, 0)
            self._send(head, len(head))
        else:
            self.reply_parts([encode_head(answer, len(answer.body)), answer.body])

    def reply_parts(self, parts: Sequence[Buffer]) -> None:
        """Write an encoded frame that is in several buffers: a head that counts them all, then the body's.

        The buffers are kept until they are written; their memory must not change before.
        """
        if not self.closed:
            if len(parts) > 1:
                self._out.extend(parts[:-1])
                self._out_bytes += sum(map(len, parts[:-1]))
            self._send(parts[-1], len(parts[-1]))

    def flush(self) -> None:
        """Write what is gathered now, instead of at the end of the loop's turn."""
        if self._out:
            self._flush()

    def send_request(self, command: Command, timeout_s: float) -> asyncio.Future[Command]:
        """Send a request and return a future of its answer, whatever the answer's code.

        The future fails with ConnectionLost or, *timeout_s* seconds after the request was handed to the socket, with
        CallTimeout; while the peer reads what was written before, a request that waits behind it has more time.
        Cancelling the future forgets the call.
        """
        if self.closed:
            future: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
            future.set_exception(ConnectionLost(f"{self.address}: the connection is closed"))
            return future
        opaque = self._number(command)
        data = encode(command)
        future = self._calls.wait(opaque, command.code, timeout_s)
        self._send(data, len(data))
        return future

    async def call(self, command: Command, timeout_s: float) -> Command:
        """Send a request and return its answer, whatever the answer's code.

        Raises:
            ConnectionLost: the connection is closed, or closes first.
            CallTimeout: no answer within *timeout_s* seconds, which begin as for `send_request`.
            LocalProtocolError: the command cannot be written.
        """
        return await self.send_request(command, timeout_s)

    async def secured(self) -> None:
        """Wait for the handshake where the connection began as a client of TLS; else return at once.

        Raises:
            ConnectFailed: it did not come about; the connection is closed.
        """
        if self._secured is not None:
            await self._secured

    def oneway(self, command: Command, dropped: Callable[[], object] | None = None) -> None:
        """Send a request that nobody answers.

        One that the socket was not seen to take before the connection was lost is called dropped: *dropped* is called,
        and one line of the log says how many there were. What the peer's system took and lost, nobody knows.
        """
        if self.closed:
            if dropped is not None:
                dropped()
            return
        command.flag |= FLAG_ONEWAY
        self._number(command)
        data = encode(command)
        self._send(data, len(data))
        self._oneways.add(self._handed + self._out_bytes, dropped)

    async def writable(self, timeout_s: float) -> bool:
        """Wait until at most ``limits.pause_reading_bytes`` are unwritten; those who wait go on in their order.

        Write before the next await. Returns false when the connection has closed.

        Raises:
            CallTimeout: the peer takes nothing for *timeout_s* seconds.
        """
        most = self._limits.pause_reading_bytes
        if self.unwritten_bytes > most or (self._line is not None and len(self._line)):
            if self._line is None:
                self._line = WriteLine(self._clock, lambda: self.address, lambda: self.unwritten_bytes, most)
            await self._line.room(timeout_s)
        return not self.closed

    def on_close(self, callback: Callable[[Connection], None]) -> None:
        """Call *callback* once when the connection has closed; at once if it has."""
        if self.closed and self._transport is None:
            callback(self)
        else:
            self._on_close.append(callback)

    def close(self) -> None:
        """Write what is gathered, then close. Calls that wait fail with ConnectionLost."""
        if self._transport is not None and not self.closed:
            self._flush()
            self.closed = True
            self._transport.close()

    def abort(self) -> None:
        """Close at once, forgetting what is not written."""
        if self._transport is not None:
            self._position()
            self.closed = self._aborted = True
            self._out, self._out_bytes = [], 0
            self._transport.abort()

    def pause_reading(self) -> None:
        """Read nothing more from this peer until `resume_reading`."""
        self._pause(_PAUSED_BY_US)

    def resume_reading(self) -> None:
        """Read again, unless the peer is slow to read."""
        self._resume(_PAUSED_BY_US)

    # --- what asyncio calls -----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport; a server that has too many connections refuses here."""
        self._transport = transport = cast(asyncio.Transport, transport)  # uvloop's is none by class
        name = transport.get_extra_info("peername")
        if isinstance(name, tuple) and len(name) >= 2:
            self.peer = (str(name[0]), int(name[1]))
        self._set_water_marks(transport)
        if self._tls is not None:
            self._secured = asyncio.get_running_loop().create_future()
            self._begin_tls(self._tls, b"", server_side=False)
        if self._opened is not None and not self._opened(self):
            self.abort()
            return
        if self._limits.idle_timeout_s > 0:
            self._idle_timer = self._clock.call_later(self._limits.idle_timeout_s, self._check_idle)

    def data_received(self, data: bytes) -> None:
        """Hand all requests of this read to the handler, and answers to the calls that wait for them."""
        self.last_heard = self._clock.monotonic()
        if self.closed:
            return
        error: RemoteProtocolError | None = None
        commands: list[Command] = []
        decoder = self._decoder
        before = decoder.pending_bytes
        try:
            if self._first is not None:
                data = self._begin(data)
            if data:
                decode_all(decoder.feed(data), commands)
            decoder.check()
        except RemoteProtocolError as problem:
            error = problem
        held = decoder.pending_bytes
        if held or before:
            self._unfinished.update(self, held, fresh=before == 0 or held < before + len(data))
        requests = [command for command in commands if not command.flag & FLAG_RESPONSE]
        if len(requests) < len(commands):
            self._take_answers(commands)
        if requests:
            self._hand_over(requests)
        if error is not None:
            log.warning("%s: closed: %s", self.address, error)
            self.close()

    def eof_received(self) -> bool | None:
        """Close when the peer has closed its side."""
        if self._decoder.pending_bytes:
            log.info("%s: closed inside a frame, %d bytes left over", self.address, self._decoder.pending_bytes)
        return None

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the calls that wait and tell those who asked to know."""
        if exc is None and not self._aborted:
            self._written = self._handed  # a transport that ends in order has written everything
        self.closed = True
        self._transport = None
        self._out, self._out_bytes = [], 0
        self._waiting = []
        self._unfinished.update(self, 0, fresh=False)
        self._note_backlog(0)
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        self._calls.lost()
        self._oneways.written(self._written)
        if dropped := self._oneways.lost():
            log.warning("%s: the connection was lost with %d oneway requests unwritten", self.address, dropped)
        if self._line is not None:
            self._line.look(moved=True)
        callbacks, self._on_close = self._on_close, []
        for callback in callbacks:
            try:
                callback(self)
            except Exception:
                log.exception("%s: a close callback failed", self.address)

    def pause_writing(self) -> None:
        """The peer does not read: stop reading from it."""
        self._pause(_PAUSED_BY_PEER)

    def resume_writing(self) -> None:
        """The peer has read most of what was waiting."""
        if self._transport is not None:
            self._note_backlog(self._transport.get_write_buffer_size())
            self._oneways.written(self._position())
        if self._line is not None:
            self._line.look(moved=True)
        self._resume(_PAUSED_BY_PEER)
        self._go_on()

    def drop_unfinished(self, held: int, limit: int) -> None:
        """Close in favour of others (see `UnfinishedFrames`)."""
        log.warning(
            "%s: closed: unfinished frames of all connections take %d bytes, limit %d, and this one of %d is old",
            self.address,
            held,
            limit,
            self._decoder.pending_bytes,
        )
        self.abort()

    def drop_unwritten(self, total: int, limit: int) -> None:
        """Close in favour of others (see `UnwrittenBytes`)."""
        log.warning(
            "%s: closed: %d bytes of all connections wait to be written, limit %d, and this one's %d are the most",
            self.address,
            total,
            limit,
            self.unwritten_bytes,
        )
        self.abort()

    # --- inside -----------------------------------------------------------------------------------------------------

    def _begin(self, data: bytes) -> bytes:
        """Find out what the peer speaks; returns the bytes that are frames, empty while that is open."""
        assert self._first is not None
        self._first += data
        inside_tls = isinstance(self._transport, TlsTransport)
        preamble = sniff(self._first, inside_tls=inside_tls)
        if preamble is None:
            return b""
        if preamble.peer is not None and not self._proxied:
            self._gate.proxies.check(self.peer[0])
            self.peer, self._packed_host, self._proxied = preamble.peer, None, True
        if preamble.beginning is Beginning.HTTP2 and not self._greeted:
            self._greeted = True
            self._send(HTTP2_GREETING, len(HTTP2_GREETING))
        answer = self._gate.answer(preamble.beginning, preamble.rest)
        if answer is None:
            return b""
        self._first = None
        if preamble.beginning is Beginning.TLS:
            self._first = b""  # what is inside is looked at as well
            self._begin_tls(self._gate.tls_context(), preamble.rest, server_side=True)
            return b""
        if answer:
            self._send(answer, len(answer))
        self._gate.check(preamble.beginning, inside_tls=inside_tls)
        return preamble.rest

    def _begin_tls(self, context: ssl.SSLContext, first: bytes, *, server_side: bool) -> None:
        """Put TLS between the socket and this connection, from now on."""
        assert self._transport is not None
        self._transport = TlsTransport(
            self._transport,
            self,
            context,
            server_side=server_side,
            clock=self._clock,
            timeout_s=self._limits.handshake_timeout_s,
            settled=self._tls_settled,
            failed=self._tls_failed,
        )
        self._transport.start(first)

    def _tls_settled(self, problem: str | None) -> None:
        if self._secured is None:
            if problem is not None and not self.closed:
                self._tls_failed(problem)
        elif not self._secured.done():
            if problem is None:
                self._secured.set_result(None)
            else:
                self.closed = True
                self._secured.set_exception(ConnectFailed(f"{self.address}: {problem}"))
                self._secured.exception()  # whoever awaits it has it; where nobody does, nobody needs a warning

    def _tls_failed(self, problem: str) -> None:
        self.closed = True
        log.warning("%s: closed: %s", self.address, problem)

    def _take_answers(self, commands: list[Command]) -> None:
        """Hand the answers among *commands* to the calls that wait for them."""
        for command in commands:
            if command.flag & FLAG_RESPONSE and not self._calls.answer(command):
                log.debug("%s: an answer to %d that nobody waits for", self.address, command.opaque)

    def _hand_over(self, commands: list[Command]) -> None:
        """Serve requests, some a turn of the loop, so that the first answers leave while the others are worked on.

        Those behind answers that the peer does not read wait until it does.
        """
        self.serialize = commands[-1].serialize
        if self._waiting:
            self._waiting += commands
        elif len(commands) <= self._at_once:
            self._serve(commands)
        else:
            self._waiting = commands
            self._go_on()
        if len(self._waiting) > MOST_WAITING:  # until they are served
            self._pause(_PAUSED_BY_ANSWERS)

    def _go_on(self) -> None:
        """Serve the next of the requests that wait, if the answers before them are written by now."""
        self._going = False
        waiting = self._waiting
        if not waiting or self.closed:
            return
        if self.unwritten_bytes > self._limits.pause_reading_bytes:
            self._pause(_PAUSED_BY_ANSWERS)
            return
        part = self._at_once
        self._waiting = waiting[part:]
        self._serve(waiting[:part])
        if self._waiting:
            self._soon()
        else:
            self._resume(_PAUSED_BY_ANSWERS)

    def _soon(self) -> None:
        if not self._going:
            self._going = True
            asyncio.get_running_loop().call_soon(self._go_on)

    def _serve(self, commands: list[Command]) -> None:
        if self._handler is None:
            for command in commands:
                self.reply(command, Command(3, remark=f" request type {command.code} not supported"))
            return
        began = self._clock.monotonic()
        scheduled, self._flushing = self._flushing, True  # what is answered at once leaves at once, below
        try:
            self._handler.requests(self, commands)
        except Exception:
            log.exception("%s: the handler failed on %s", self.address, [request_name(c.code) for c in commands[:8]])
        self._flushing = scheduled
        self.flush()
        ended = self._clock.monotonic()
        if self._busy_poll is not None:
            self._busy_poll.served(self, commands, began, ended, answered=self._last_wrote >= began)
        took_s = ended - began
        if took_s > TURN_S:
            self._at_once = max(LEAST_HAND_OVER, self._at_once // 2)
        elif took_s < TURN_S / 4 and self._at_once < HAND_OVER and len(commands) >= self._at_once:
            self._at_once *= 2

    def _address_answer(self, asked: Command | int, answer: Command) -> None:
        if isinstance(asked, int):
            answer.opaque, answer.serialize = asked, self.serialize
        else:
            answer.opaque, answer.serialize = asked.opaque, asked.serialize
        answer.flag |= FLAG_RESPONSE

    def _number(self, command: Command) -> int:
        """Give *command* the next opaque that is free, and a header form that the peer reads."""
        command.opaque = opaque = self._calls.number()
        if self.serialize != SERIALIZE_JSON and command.code <= _BINARY_MAX_CODE:
            command.serialize = self.serialize
        return opaque

    def _send(self, data: Buffer, size: int) -> None:
        """Gather *data*; one write per turn of the loop carries everything."""
        self._out.append(data)
        self._out_bytes += size
        if not self._flushing:
            self._flushing = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        out, transport = self._out, self._transport
        if not out or transport is None or self.closed or transport.is_closing():
            return
        size = self._out_bytes
        unwritten = size + transport.get_write_buffer_size()
        self._out, self._out_bytes = [], 0
        if unwritten > self._limits.max_unwritten_bytes:
            log.warning(
                "%s: closed: %d bytes wait to be written, limit %d; the peer reads too slowly",
                self.address,
                unwritten,
                self._limits.max_unwritten_bytes,
            )
            self.abort()
            return
        self._last_wrote = self._clock.monotonic()
        self._handed += size
        if len(out) == 1:
            transport.write(out[0])
        elif size <= _JOIN_BYTES and size <= _SMALL_BYTES * len(out):
            transport.write(b"".join(out))
        else:
            transport.writelines(out)
            if not self._paused and transport.get_write_buffer_size() > self._limits.pause_reading_bytes:
                self._set_water_marks(transport)  # asyncio of Python 3.12.0 and .1 does not look after writelines
        if self._waiting:
            self._soon()
        backlog = transport.get_write_buffer_size()
        if backlog or self._backlog:
            self._note_backlog(backlog)
        self._calls.begin(self._handed)
        if self._oneways:
            self._oneways.written(self._position())
        if self._line is not None:
            self._line.look(moved=False)

    def _position(self) -> int:
        """How many bytes have left our memory so far, as far as can be seen."""
        transport = self._transport
        if transport is not None and not transport.is_closing():
            self._written = max(self._written, self._handed - transport.get_write_buffer_size())
        return self._written

    def _note_backlog(self, size: int) -> None:
        if size != self._backlog:
            self._backlog = size
            self._unwritten.update(self, size)

    def _set_water_marks(self, transport: asyncio.Transport) -> None:
        """Say when `pause_writing` and `resume_writing` are due; the transport looks at once whether one is."""
        transport.set_write_buffer_limits(self._limits.pause_reading_bytes, self._limits.pause_reading_bytes // 4)

    def _pause(self, why: int) -> None:
        if not self._paused and self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()
        self._paused |= why

    def _resume(self, why: int) -> None:
        if self._paused == why and self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()
        self._paused &= ~why

    def _check_idle(self) -> None:
        """Close after the idle time; a peer that has read some of what waits since the last look is alive."""
        transport = self._transport
        if transport is None:
            return
        unwritten = transport.get_write_buffer_size()
        if unwritten != self._unwritten_seen:
            self._last_wrote = self._clock.monotonic()
        self._unwritten_seen = unwritten
        idle = self._clock.monotonic() - max(self.last_heard, self._last_wrote)
        left = self._limits.idle_timeout_s - idle
        if left > 0:
            self._idle_timer = self._clock.call_later(left, self._check_idle)
            return
        log.info("%s: closed: nothing read or written for %g s", self.address, self._limits.idle_timeout_s)
        self.abort()
