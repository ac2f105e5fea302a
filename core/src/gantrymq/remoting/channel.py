"""What this side says on one connection: answers to the peer's requests, and requests to the peer.

Each side numbers its own requests, and the response bit tells an answer from a request. What is said in one turn of the
event loop is one write (`WriteBuffer`).

Source of the rules: apache/rocketmq remoting/.../netty/NettyRemotingAbstract.java; wire reference 1.1, 1.7, 1.9.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from gantrymq.errors import ConnectionLost
from gantrymq.remoting.addresses import format_address, packed_host
from gantrymq.remoting.codes import FLAG_ONEWAY, FLAG_RESPONSE, SERIALIZE_JSON
from gantrymq.remoting.command import Command, encode, encode_head
from gantrymq.remoting.limits import Limits, UnwrittenBytes
from gantrymq.remoting.pending_calls import PendingCalls
from gantrymq.remoting.write_buffer import Buffer, WriteBuffer
from gantrymq.world import Clock

__all__ = ["Channel"]

log = logging.getLogger("gantrymq.remoting")

_BINARY_MAX_CODE: Final = 0x7FFF
MAX_NOTICES: Final = 64  # that are remembered, with those that are unwritten beside


class Channel:
    """The half of a `Connection` that writes.

    Attributes:
        peer: host and port of the peer, taken from a PROXY header where there is one.
        serialize: header form of the last request that came in, JSON before that.
    """

    def __init__(self, clock: Clock, limits: Limits, unwritten: UnwrittenBytes) -> None:
        """Nothing is written before the connection is made."""
        self.peer: tuple[str, int] = ("", 0)
        self.serialize = SERIALIZE_JSON
        self._packed_host: bytes | None = None
        self._writes = WriteBuffer(clock, limits, unwritten, lambda: self.address, self.abort, self._wrote)
        self._pending = PendingCalls(clock, lambda: self.address, self._writes.position)
        self._aborted = False
        self._notices: dict[str, int] = {}  # where each ends among all bytes

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
    def closed(self) -> bool:
        """Whether no reply or call gets through any more."""
        return self._writes.closed

    @property
    def unwritten_bytes(self) -> int:
        """Bytes that were handed over for writing and are still in memory."""
        return self._writes.unwritten_bytes

    @property
    def full(self) -> bool:
        """Whether no more answers should be made before the peer has read some."""
        return self._writes.full

    def set_peer(self, peer: tuple[str, int]) -> None:
        """A proxy says who the peer is."""
        self.peer, self._packed_host = peer, None

    def reply(self, asked: Command | int, answer: Command | bytes) -> None:
        """Answer a request; dropped without a word when the request was oneway or the connection is gone.

        Args:
            asked: the request, or its opaque (then the header form of the last request is used).
            answer: a command, whose opaque, response bit and header form are set here; or a frame that is encoded.
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
        """Write an encoded frame that is in several buffers: a head that counts them all, then the body's.

        The buffers are kept until they are written; their memory must not change before.
        """
        if not self._writes.closed:
            self._writes.add_parts(parts)

    def flush(self) -> None:
        """Write what is gathered now, instead of at the end of the loop's turn."""
        self._writes.flush()

    def send_request(self, command: Command, timeout_s: float) -> asyncio.Future[Command]:
        """Send a request and return a future of its answer, whatever the answer's code.

        The future fails with ConnectionLost or, *timeout_s* seconds after the request was handed to the socket, with
        CallTimeout; while the peer reads what was written before, a request that waits behind it has more time.
        Cancelling the future forgets the call.
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
        """Send a request and return its answer, whatever the answer's code.

        Raises:
            ConnectionLost: the connection is closed, or closes first.
            CallTimeout: no answer within *timeout_s* seconds, which begin as for `send_request`.
            LocalProtocolError: the command cannot be written.
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
        self._writes.add_oneway(encode(command), dropped)

    def notice(self, command: Command, about: str) -> None:
        """As `oneway`, unless the notice before with the same *about* is still in memory: that one is read later."""
        position, ends = self._writes.position(), self._notices
        if ends.get(about, 0) > position:
            return
        if len(ends) > MAX_NOTICES:
            self._notices = ends = {each: end for each, end in ends.items() if end > position}
        self.oneway(command)
        ends[about] = self._writes.end

    async def writable(self, timeout_s: float) -> bool:
        """Wait until at most ``limits.pause_reading_bytes`` are unwritten; those who wait go on in their order.

        Write before the next await. Returns false when the connection has closed.

        Raises:
            CallTimeout: the peer takes nothing for *timeout_s* seconds.
        """
        await self._writes.writable(timeout_s)
        return not self.closed

    def close(self) -> None:
        """Write what is gathered, then close. Calls that wait fail with ConnectionLost."""
        transport = self._writes.transport
        if transport is not None and not self.closed:
            self._writes.close()
            transport.close()

    def abort(self) -> None:
        """Close at once, forgetting what is not written."""
        transport = self._writes.transport
        if transport is not None:
            self._writes.drop()
            self._aborted = True
            transport.abort()

    def _sent(self, command: Command, timeout_s: float) -> asyncio.Future[Command]:
        """Gather a request for writing; whoever cancels the future of its answer has it forgotten."""
        opaque = self._number(command)
        data = encode(command)
        future = self._pending.wait(opaque, command.code, timeout_s)
        self._writes.add(data, len(data))
        return future

    def _take_answers(self, commands: list[Command]) -> None:
        """Hand the answers among *commands* to the calls that wait for them."""
        for command in commands:
            if command.flag & FLAG_RESPONSE and not self._pending.answer(command):
                log.debug("%s: an answer to %d that nobody waits for", self.address, command.opaque)

    def _number(self, command: Command) -> int:
        """Give *command* the next opaque that is free, and a header form that the peer reads."""
        command.opaque = opaque = self._pending.number()
        if self.serialize != SERIALIZE_JSON and command.code <= _BINARY_MAX_CODE:
            command.serialize = self.serialize
        return opaque

    def _wrote(self) -> None:
        """What was gathered has been handed to the socket: deadlines begin, and whatever else waits for that."""
        raise NotImplementedError
