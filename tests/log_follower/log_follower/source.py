"""Service that serves the log of a broker to followers."""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import Awaitable, Callable
from inspect import isawaitable

from gantrymq.errors import GantryError
from gantrymq.interfaces import Broker, RawLog
from gantrymq.model.role import Role
from gantrymq.world import Listener
from log_follower.frames import ANSWER, BLOCK_BYTES, CHECKSUM, RANGE, REQUEST, Kind, Status

WAIT_S = 1.0  # a follower that is equal hears from the source this often


async def read(log: RawLog, start: int, length: int) -> bytes:
    """Return *length* bytes from *start* on, fewer at the end of the log."""
    pieces, place, end = [], start, min(start + length, log.log_range().max_offset)
    while place < end:
        data = log.read_log(place, end - place)
        pieces.append(await data if isawaitable(data) else data)
        place += len(pieces[-1])
    return b"".join(pieces)


class LogSource:
    """Listens, and answers each follower in a task of its own."""

    name = "log_source"
    roles = frozenset(Role)

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self._cancel: list[Callable[[], None]] = []
        self._listener: Listener | None = None

    async def start(self, broker: Broker) -> None:
        """Listen, and write the address into the file ``address`` of the service's folder."""
        log = broker.store_capabilities.raw_log
        if log is None:
            return
        self._broker, self._log, self._grown = broker, log, asyncio.Event()
        self._cancel = [
            log.on_appended(lambda end: self._grown.set()),
            log.on_truncated(lambda end: self._disconnect()),  # followers compare again
        ]
        port = broker.settings.number("logSourcePort")
        self._listener = await broker.world.network.listen("127.0.0.1", port, self._protocol)
        host, port = self._listener.address
        broker.world.files.replace(broker.state_folder(self.name) / "address", f"{host}:{port}".encode())

    async def stop(self) -> None:
        """Close the port and all connections."""
        if self._listener is not None:
            await self._listener.close()
        for cancel in self._cancel:
            cancel()
        tasks = [*self._tasks]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _disconnect(self) -> None:
        for task in self._tasks:
            task.cancel()

    def _protocol(self) -> asyncio.BaseProtocol:
        return asyncio.StreamReaderProtocol(asyncio.StreamReader(), self._connected)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._tasks[task] = writer
        task.add_done_callback(self._tasks.pop)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        position = 0  # of this follower; a new one needs everything
        cancel = self._log.retain_from(lambda: position)
        try:
            while True:
                kind, log_offset, length = REQUEST.unpack(await reader.readexactly(REQUEST.size))
                if kind == Kind.READ:
                    position = log_offset
                status, data = await answer(self._broker, kind, log_offset, length, self._wait)
                writer.write(ANSWER.pack(status, len(data)) + data)
                await writer.drain()
        except (OSError, EOFError, asyncio.CancelledError):
            pass  # the follower connects again
        finally:
            cancel()
            writer.close()

    async def _wait(self, log_offset: int) -> None:
        """Wait until the log goes on after *log_offset*, for a second at most."""
        timer = self._broker.world.clock.call_later(WAIT_S, self._grown.set)
        self._grown.clear()
        if self._log.log_range().max_offset <= log_offset:
            await self._grown.wait()
        timer.cancel()


async def answer(
    broker: Broker, kind: int, log_offset: int, length: int, wait: Callable[[int], Awaitable[None]]
) -> tuple[Status, bytes]:
    """Answer one request."""
    log = broker.store_capabilities.raw_log
    assert log is not None
    low, high = log.log_range()
    try:
        if kind == Kind.RANGE:
            return Status.OK, RANGE.pack(low, high)
        if kind == Kind.TABLES:
            return Status.OK, json.dumps(dict((await broker.tables.snapshot()).files)).encode()
        if not low <= log_offset <= high or not 0 <= length <= BLOCK_BYTES:
            return Status.REFUSED, f"the log is from {low} to {high}, not at {log_offset}".encode()
        if kind == Kind.CHECKSUM:
            return Status.OK, CHECKSUM.pack(zlib.crc32(await read(log, log_offset, length)))
        if kind == Kind.READ:
            if log_offset == high:
                await wait(log_offset)
            return Status.OK, await read(log, log_offset, length)
        if kind == Kind.FLUSHED:
            await broker.store.flushed(log_offset)
            return Status.OK, b""
    except GantryError as error:
        return Status.REFUSED, str(error).encode()
    return Status.REFUSED, f"{kind} is no kind of request".encode()
