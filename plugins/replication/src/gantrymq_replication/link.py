"""One HA connection, whose bytes a coroutine reads, or gets in the very step of the event loop in which they arrive.

With asyncio's streams each read wakes a task, in another turn of the event loop: too late for records that a sender
waits for.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final

from gantrymq.errors import RemoteProtocolError
from gantrymq.plugin.model import format_address
from gantrymq.plugin.network import ProtocolKind, sniff

log = logging.getLogger("gantrymq.replication")

MOST_BYTES: Final = 512 * 1024  # kept for the reader

Connected = Callable[["Link"], Coroutine[Any, Any, None]]


def speaks_http(first: bytes) -> bool | None:
    """Return whether a connection that begins with the bytes *first* speaks HTTP, None if more bytes are needed.

    A slave's begins with a zero byte, with TLS if it has TLS, or with random bytes if it has a secret.
    """
    try:
        found = sniff(first)
    except RemoteProtocolError:
        return False
    return None if found is None else found.protocol in (ProtocolKind.HTTP, ProtocolKind.HTTP2)


class Link(asyncio.Protocol):
    """Bytes in, bytes out, until the connection is lost."""

    def __init__(self, connected: Connected | None = None) -> None:
        """*connected* runs in a task of its own from the moment that there is a connection."""
        self._connected = connected
        self._task: asyncio.Task[None] | None = None
        self._arrived = bytearray()
        self._take: Callable[[bytes], object] | None = None
        self._turn = asyncio.Event()  # set when something arrives, and when the connection is lost
        self._paused = False
        self._writable = asyncio.Event()
        self._writable.set()
        self._lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.transport: asyncio.Transport | None = None
        self._first: bytes | None = None if connected is None else b""  # until they show whether the peer is a slave
        self.is_http = False  # the peer of a listener sent an HTTP request: a health check or a scan, not a slave

    def address(self, of: str) -> str:
        """Return the address of the peer (``peername``) or the own one (``sockname``)."""
        found = self.transport.get_extra_info(of) if self.transport is not None else None
        return format_address(*(found or ("?", 0))[:2])

    # --- reading ----------------------------------------------------------------------------------------------------

    async def arrived(self) -> bool:
        """Wait until something has arrived, which stays for the reader; False at the end. Raises OSError."""
        await self._taken(1, lambda arrived: 0)
        return bool(self._arrived)

    async def read(self) -> bytes:
        """Return the bytes that have arrived, at least one; nothing at the end of the connection. Raises OSError."""
        return await self._taken(1, len)

    async def read_exactly(self, size: int) -> bytes:
        """Return *size* bytes.

        Raises:
            OSError: the connection is lost.
            EOFError: it ended before.
        """
        data = await self._taken(size, lambda arrived: size)
        if len(data) < size:
            raise EOFError
        return data

    async def _taken(self, least: int, size: Callable[[bytearray], int]) -> bytes:
        while len(self._arrived) < least and not self._lost.done():
            self._turn.clear()
            await self._turn.wait()
        if self._lost.done() and (error := self._lost.exception()) is not None:
            raise error
        data = bytes(self._arrived[: (most := size(self._arrived))])
        del self._arrived[:most]
        self.resume()
        return data

    async def deliver(self, take: Callable[[bytes], object]) -> bool:
        """Call *take* with all that arrives, when it arrives, until it returns True or to the end of the connection.

        Return whether there may be more.

        Raises:
            OSError: the connection is lost.
            Exception: the first one of *take*, which is not called again.
        """
        self._enough = asyncio.get_running_loop().create_future()
        self._take = take
        if self._arrived:
            data, self._arrived = bytes(self._arrived), bytearray()
            self._hand_over(data)
        self.resume()
        await asyncio.wait([self._lost, self._enough], return_when=asyncio.FIRST_COMPLETED)
        if self._lost.done():
            self._lost.result()
        return not self._lost.done()

    def _hand_over(self, data: bytes) -> None:
        assert self._take is not None
        try:
            if self._take(data):
                self._take = None
                self._enough.set_result(None)
        except Exception as error:
            self._end(error)

    def pause(self) -> None:
        """Stop reading from the socket."""
        if not self._paused and self.transport is not None and not self.transport.is_closing():
            self._paused = True
            self.transport.pause_reading()

    def resume(self) -> None:
        """Read from the socket again."""
        if self._paused and self.transport is not None and not self.transport.is_closing():
            self._paused = False
            self.transport.resume_reading()

    # --- writing ----------------------------------------------------------------------------------------------------

    @property
    def writable(self) -> bool:
        """Whether the peer reads fast enough to write more."""
        return self._writable.is_set()

    def write(self, data: bytes) -> None:
        """Write *data*; nothing if the connection ends."""
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write(data)

    def writelines(self, parts: Iterable[bytes]) -> None:
        """Write all *parts*."""
        if self.transport is not None and not self.transport.is_closing():
            self.transport.writelines(parts)

    async def drain(self) -> None:
        """Wait until it is writable. Raises OSError if the connection was lost."""
        await self._writable.wait()
        if self._lost.done():
            raise ConnectionResetError("the connection was lost")

    def abort(self) -> None:
        """Close the connection without writing the rest."""
        if self.transport is not None:
            self.transport.abort()

    # --- events -----------------------------------------------------------------------------------------------------

    def connection_made(self, transport: Any) -> None:
        """Begin. The transports of uvloop are no `asyncio.Transport`."""
        self.transport = transport
        if self._connected is not None:
            self._task = asyncio.ensure_future(self._connected(self))
            self._task.add_done_callback(self._done)

    def data_received(self, data: bytes) -> None:
        """Hand over *data*, or keep it until it is read."""
        if self._first is not None:
            self._first += data
            spoken = speaks_http(self._first)
            if spoken is not None:
                self._first = None
            if spoken:
                self.is_http = True
                self.abort()
                return
        if self._take is None:
            self._arrived += data
            self._turn.set()
            if len(self._arrived) > MOST_BYTES:
                self.pause()
        elif not self._lost.done():
            self._hand_over(data)

    def eof_received(self) -> None:
        """Close the connection; bytes that were not written yet are lost."""
        self.abort()

    def pause_writing(self) -> None:
        """Make `drain` wait."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Make `drain` return."""
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """End reads and waits."""
        self._end(exc)

    def _end(self, error: Exception | None) -> None:
        if self._lost.done():
            return
        if error is None:
            self._lost.set_result(None)
        else:
            self._lost.set_exception(error)
            self._lost.exception()  # no warning if nothing waits for it
        self._turn.set()
        self._writable.set()

    def _done(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a connection of replication failed", exc_info=error)
            self.abort()


async def first_ended(*parts: Coroutine[Any, Any, object]) -> None:
    """Run *parts* until the first one ends, and raise its exception."""
    tasks = [asyncio.ensure_future(each) for each in parts]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    for task in tasks:
        if task in done:
            task.result()
