"""Sending on one connection: responses to the peer's requests, and requests to the peer.

Each side numbers its own requests; the response bit distinguishes responses from requests. Everything sent during one
iteration of the event loop is one write (`WriteBuffer`).

Source of the rules: apache/rocketmq remoting/.../netty/NettyRemotingAbstract.java.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from gantrymq.errors import ConnectionLost
from gantrymq.model.access import Principal
from gantrymq.model.hosts import format_address, pack_peer
from gantrymq.remoting.codes import FLAG_ONEWAY, FLAG_RESPONSE, SERIALIZE_JSON
from gantrymq.remoting.command import Command, encode, encode_head
from gantrymq.remoting.limits import Limits, UnwrittenBytes
from gantrymq.remoting.listeners import REMOTING
from gantrymq.remoting.pending_calls import PendingCalls
from gantrymq.remoting.write_buffer import Buffer, WriteBuffer
from gantrymq.world import Clock

log = logging.getLogger("gantrymq.remoting")

_BINARY_MAX_CODE: Final = 0x7FFF
_MAX_NOTICES: Final = 64  # remembered, besides unwritten ones


class Channel:
    """The sending half of a `Connection`.

    Attributes:
        peer: host and port of the peer, from its PROXY header if there is one.
        serialize: header format of the last incoming request, JSON before the first.
        principal: who sent the request that is being served; None without access control.
        certificate: subject of the peer's verified TLS certificate; empty if there is none.
        encrypted: whether the connection uses TLS.
        listener: name of the listener that accepted the connection; empty if this side connected.
        protocol: ``remoting``.
    """

    protocol = REMOTING

    def __init__(self, clock: Clock, limits: Limits, unwritten: UnwrittenBytes) -> None:
        """Create an unconnected channel."""
        self.peer: tuple[str, int] = ("", 0)
        self.serialize = SERIALIZE_JSON
        self.principal: Principal | None = None
        self.certificate = ""
        self.encrypted = False
        self.listener = ""
        self._packed_host: bytes | None = None
        self._writes = WriteBuffer(clock, limits, unwritten, lambda: self.address, self.abort, self._wrote)
        self._pending = PendingCalls(clock, lambda: self.address, self._writes.position)
        self._aborted = False
        self._notices: dict[str, int] = {}  # end position of each in the byte stream

    @property
    def address(self) -> str:
        """Address of the peer as ``host:port``."""
        return format_address(*self.peer)

    @property
    def peer_packed_host(self) -> bytes:
        """Address of the peer as stored in records: 8 bytes, or 20 for IPv6."""
        if self._packed_host is None:
            self._packed_host = pack_peer(*self.peer)
        return self._packed_host

    @property
    def closed(self) -> bool:
        """Whether the connection is closed for sending."""
        return self._writes.closed

    @property
    def unwritten_bytes(self) -> int:
        """Bytes waiting to be written."""
        return self._writes.unwritten_bytes

    @property
    def full(self) -> bool:
        """Whether no more responses should be prepared before the peer has read some."""
        return self._writes.full

    def set_peer(self, peer: tuple[str, int]) -> None:
        """Replace the peer address by the one in a PROXY header."""
        self.peer, self._packed_host = peer, None

    def reply(self, asked: Command | int, answer: Command | bytes) -> None:
        """Send the response to a request. Does nothing if the request was oneway or the connection is closed.

        Args:
            asked: the request, or its opaque (then the header format of the last request is used).
            answer: a command, in which opaque, response bit and header format are set here, or an encoded frame.
        """
        writes = self._writes
        if writes.closed or (not isinstance(asked, int) and asked.flag & FLAG_ONEWAY):
            return
        if isinstance(answer, bytes):
            writes.add(answer, len(answer))
            return
        if isinstance(asked, int):
            answer.opaque, answer.serialize = asked, self.serialize
        else:
            answer.opaque, answer.serialize = asked.opaque, asked.serialize
        answer.flag |= FLAG_RESPONSE
        if answer.body is None:
            head = encode_head(answer, 0)
            writes.add(head, len(head))
        else:
            writes.add_parts([encode_head(answer, len(answer.body)), answer.body])

    def reply_parts(self, parts: Sequence[Buffer]) -> None:
        """Write an encoded frame given as several buffers, the first of which starts with the frame's header.

        The buffers are not copied and must not change before they are written.
        """
        if not self._writes.closed:
            self._writes.add_parts(parts)

    def flush(self) -> None:
        """Write buffered data now instead of at the end of the loop iteration."""
        self._writes.flush()

    def send_request(self, command: Command, timeout_s: float) -> asyncio.Future[Command]:
        """Send a request and return a future of its response, also if that has an error code.

        The future fails with ConnectionLost if the connection closes, or with CallTimeout *timeout_s* seconds after the
        request was handed to the socket. The time is extended while the peer reads data written before the request.
        Cancelling the future discards the response.
        """
        if self.closed:
            failed: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
            failed.set_exception(ConnectionLost(f"{self.address}: the connection is closed"))
            return failed
        future = self._sent(command, timeout_s)
        opaque = command.opaque
        future.add_done_callback(lambda done: self._pending.forget(opaque, done))
        return future

    async def call(self, command: Command, timeout_s: float) -> Command:
        """Send a request and return its response, also if that has an error code.

        Raises:
            ConnectionLost: the connection is closed, or closes first.
            CallTimeout: no response within *timeout_s* seconds, counted as in `send_request`.
            LocalProtocolError: the command cannot be encoded.
        """
        if self.closed:
            raise ConnectionLost(f"{self.address}: the connection is closed")
        future = self._sent(command, timeout_s)
        try:
            return await future
        except asyncio.CancelledError:
            self._pending.forget(command.opaque, future)
            raise

    def oneway(self, command: Command, dropped: Callable[[], object] | None = None) -> None:
        """Send a request without a response.

        If the connection is lost before the socket took the request, *dropped* is called, and one log line gives the
        number of such requests. Requests lost after that are not noticed.
        """
        if self.closed:
            if dropped is not None:
                dropped()
            return
        command.flag |= FLAG_ONEWAY
        self._number(command)
        self._writes.add_oneway(encode(command), dropped)

    def notice(self, command: Command, about: str) -> None:
        """Send a oneway request, unless the previous one with the same *about* is still unwritten."""
        position, ends = self._writes.position(), self._notices
        if ends.get(about, 0) > position:
            return
        if len(ends) > _MAX_NOTICES:
            self._notices = ends = {each: end for each, end in ends.items() if end > position}
        self.oneway(command)
        ends[about] = self._writes.end

    async def writable(self, timeout_s: float) -> bool:
        """Wait until at most ``limits.pause_reading_bytes`` are unwritten. Waiting callers proceed in order.

        Write before the next await. Return False if the connection is closed.

        Raises:
            CallTimeout: the peer reads nothing for *timeout_s* seconds.
        """
        await self._writes.writable(timeout_s)
        return not self.closed

    def close(self) -> None:
        """Write buffered data, then close. Pending calls fail with ConnectionLost."""
        transport = self._writes.transport
        if transport is not None and not self.closed:
            self._writes.close()
            transport.close()

    def abort(self) -> None:
        """Close at once and discard unwritten data."""
        transport = self._writes.transport
        if transport is not None:
            self._writes.drop()
            self._aborted = True
            transport.abort()

    def _sent(self, command: Command, timeout_s: float) -> asyncio.Future[Command]:
        """Buffer a request. A caller that cancels the returned future must call `PendingCalls.forget`."""
        opaque = self._number(command)
        data = encode(command)
        future = self._pending.wait(opaque, command.code, timeout_s)
        self._writes.add(data, len(data))
        return future

    def _take_answers(self, commands: list[Command]) -> None:
        """Pass the responses among *commands* to their pending calls."""
        for command in commands:
            if command.flag & FLAG_RESPONSE and not self._pending.answer(command):
                log.debug("%s: a response to %d, which no call waits for", self.address, command.opaque)

    def _number(self, command: Command) -> int:
        """Set the next free opaque in *command*, and a header format that the peer understands."""
        command.opaque = opaque = self._pending.number()
        if self.serialize != SERIALIZE_JSON and command.code <= _BINARY_MAX_CODE:
            command.serialize = self.serialize
        return opaque

    def _wrote(self) -> None:
        """Handle that buffered data was handed to the socket; deadlines start here."""
        raise NotImplementedError
