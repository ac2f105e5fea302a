"""Output buffer of one connection: collects data and writes it once per iteration of the event loop.

The buffer numbers all bytes handed to the transport and tracks which of them are still in memory. This is used
to report lost oneway requests (`PendingOneways`), to start deadlines when a request is handed over (`PendingCalls`), to
make writers wait while too much is unwritten (`WriteQueue`) and to close a peer that does not read (`Limits`).

The first waiting writer waits for the peer, the others for the first, so they write in order of arrival. If the peer
reads nothing within a writer's timeout, that writer fails; the next ones then fail at once, until the peer reads again.

Oneway requests have no response, so the connection reports whether they were written: each ends at a position in the
byte stream. Requests before the position known to be written are removed. If the connection is lost, the callbacks of
the others are called.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from gantrymq.errors import CallTimeout, format_seconds
from gantrymq.remoting.limits import Limits, UnwrittenBytes
from gantrymq.world import Clock
from gantrymq.world.clock import wait_set


class WriteQueue:
    """Write queue of one connection."""

    def __init__(self, clock: Clock, peer: Callable[[], str], unwritten: Callable[[], int], most: int) -> None:
        """*unwritten* returns the unwritten bytes, 0 on a closed connection; above *most* writers wait."""
        self._clock = clock
        self._peer = peer
        self._unwritten = unwritten
        self._most = most
        self._turn = asyncio.Lock()
        self._length = 0
        self._woken: asyncio.Event = asyncio.Event()
        self._stuck: int | None = None  # unwritten bytes at the last timeout

    def __len__(self) -> int:
        return self._length

    async def room(self, timeout_s: float) -> None:
        """Wait until at most *most* bytes are unwritten and all earlier writers have proceeded.

        Write before the next await, else another writer may come first.

        Raises:
            CallTimeout: the peer reads nothing for *timeout_s* seconds.
        """
        self._length += 1
        try:
            async with self._turn:
                while (unwritten := self._unwritten()) > self._most:
                    await self._wait(unwritten, timeout_s)
        finally:
            self._length -= 1

    def wake(self, *, moved: bool) -> None:
        """Wake the first writer. *moved*: the peer has read most of the data, or the connection is closed."""
        if moved:
            self._stuck = None
        self._woken.set()

    async def _wait(self, before: int, timeout_s: float) -> None:
        """Wait for a call of `wake`. Raises CallTimeout if the *before* bytes did not decrease in time."""
        if self._stuck is None or before < self._stuck:
            self._stuck = None
            self._woken.clear()
            began = self._clock.monotonic()
            await wait_set(self._clock, self._woken, timeout_s)
            if self._unwritten() < before or self._clock.monotonic() - began < timeout_s:
                return
            self._stuck = before
        raise CallTimeout(
            f"{self._peer()}: nothing could be written for {format_seconds(timeout_s)}, {before} bytes wait"
        )


class PendingOneways:
    """Unwritten oneway requests of one connection, in order."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, Callable[[], object] | None]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, end: int, dropped: Callable[[], object] | None) -> None:
        """Add a request that ends at position *end*; *dropped* is called if it is lost."""
        self._waiting.append((end, dropped))

    def written(self, position: int) -> None:
        """Remove the requests within the first *position* bytes, which were written."""
        waiting = self._waiting
        while waiting and waiting[0][0] <= position:
            waiting.popleft()

    def lost(self) -> int:
        """Call the callbacks of the remaining requests, which are lost, and return their number."""
        waiting, self._waiting = self._waiting, deque()
        for _, dropped in waiting:
            if dropped is not None:
                dropped()
        return len(waiting)


log = logging.getLogger("gantrymq.remoting")

Buffer = bytes | bytearray | memoryview

_JOIN_BYTES: Final = 64 * 1024  # buffers up to this total are joined, which is cheaper than a list of them,
_SMALL_BYTES: Final = 4096  # unless their average is larger
TIGHT_SHARE: Final = 16  # divides the limit of one connection while memory is tight for all


class WriteBuffer:
    """Write buffer of one connection.

    Attributes:
        transport: transport of the connection; None before it is made and after it is lost.
        closed: no more data is accepted.
        flushing: a call of `flush` is due in this iteration of the loop; the code that sets it must make the call.
        handed: total number of bytes passed to the transport.
        long_bytes: size of the longest recent response made of several buffers.
        backlog: unwritten bytes in the transport at the last write.
        last_wrote: monotonic time of the last write, seconds.
    """

    def __init__(
        self,
        clock: Clock,
        limits: Limits,
        unwritten: UnwrittenBytes,
        peer: Callable[[], str],
        abort: Callable[[], object],
        wrote: Callable[[], object],
    ) -> None:
        """*peer* returns the peer's name for messages, *abort* closes the connection, *wrote* is called per write."""
        self.transport: asyncio.Transport | None = None
        self.closed = False
        self.flushing = False
        self.handed = 0
        self.backlog = 0  # as last reported to `UnwrittenBytes`
        self.long_bytes = _JOIN_BYTES
        self.last_wrote = clock.monotonic()
        self._clock = clock
        self._limits = limits
        self._unwritten = unwritten
        self._peer = peer
        self._abort = abort
        self._wrote = wrote
        self._out: list[Buffer] = []
        self._out_bytes = 0
        self._written = 0  # bytes known to have left the transport
        self._oneways = PendingOneways()
        self._queue: WriteQueue | None = None  # created for the first waiting writer

    @property
    def unwritten_bytes(self) -> int:
        """Added bytes that are still in memory."""
        transport = self.transport
        return self._out_bytes + (0 if transport is None or self.closed else transport.get_write_buffer_size())

    @property
    def end(self) -> int:
        """Position of the last added byte in the byte stream."""
        return self.handed + self._out_bytes

    @property
    def tight(self) -> bool:
        """Whether memory is tight over all connections, which lowers the limit of each."""
        return self._unwritten.tight

    @property
    def full(self) -> bool:
        """Whether no more responses should be prepared before the peer has read some."""
        return not self.has_room_for(0)

    def has_room_for(self, size: int) -> bool:
        """Return whether responses of *size* bytes may be added within the limits."""
        most = self._limits.pause_reading_bytes
        return self.unwritten_bytes + size <= (most // TIGHT_SHARE if self.tight else most)

    def use(self, transport: asyncio.Transport) -> None:
        """Set the transport and its water marks."""
        self.transport = transport
        self._set_water_marks(transport)

    def add(self, data: Buffer, size: int) -> None:
        """Buffer *data* of *size* bytes until the end of the loop iteration."""
        self._out.append(data)
        self._out_bytes += size
        if not self.flushing:
            self.flushing = True
            asyncio.get_running_loop().call_soon(self._flush_turn)

    def add_parts(self, parts: Sequence[Buffer]) -> None:
        """Buffer the parts of one response, at least one."""
        size = sum(map(len, parts))
        self.long_bytes = max(size, self.long_bytes * 7 // 8)
        self._out.extend(parts[:-1])
        last = len(parts[-1])
        self._out_bytes += size - last
        self.add(parts[-1], last)

    def add_oneway(self, data: Buffer, dropped: Callable[[], object] | None) -> None:
        """Buffer a oneway request; *dropped* is called if it is lost unwritten."""
        self.add(data, len(data))
        self._oneways.add(self.end, dropped)

    async def writable(self, timeout_s: float) -> None:
        """Wait until at most ``limits.pause_reading_bytes`` are unwritten, or closed; see `WriteQueue.room`."""
        most = self._limits.pause_reading_bytes
        if self.unwritten_bytes > most or (self._queue is not None and len(self._queue)):
            if self._queue is None:
                self._queue = WriteQueue(self._clock, self._peer, lambda: self.unwritten_bytes, most)
            await self._queue.room(timeout_s)

    def flush(self) -> None:
        """Write buffered data now instead of at the end of the loop iteration."""
        if self._out:
            self._flush_turn()

    def _flush_turn(self) -> None:
        self.flushing = False
        out, transport = self._out, self.transport
        if not out or transport is None or self.closed or transport.is_closing():
            return
        size = self._out_bytes
        unwritten = size + transport.get_write_buffer_size()
        self._out, self._out_bytes = [], 0
        if unwritten > self._limits.max_unwritten_bytes:
            log.warning(
                "%s: closed: %d bytes wait to be written, limit %d; the peer reads too slowly",
                self._peer(),
                unwritten,
                self._limits.max_unwritten_bytes,
            )
            self._abort()
            return
        self.last_wrote = self._clock.monotonic()
        self.handed += size
        if len(out) == 1:
            transport.write(out[0])
        elif size <= _JOIN_BYTES and size <= _SMALL_BYTES * len(out):
            transport.write(b"".join(out))
        else:
            transport.writelines(out)
            if transport.get_write_buffer_size() > self._limits.pause_reading_bytes:
                self._set_water_marks(transport)  # asyncio of Python 3.12.0 and .1 does not check them in writelines
        backlog = transport.get_write_buffer_size()
        if backlog or self.backlog:
            self._note_backlog(backlog)
        self._wrote()
        if self._oneways:
            self._oneways.written(self.position())
        if self._queue is not None:
            self._queue.wake(moved=False)

    def drained(self) -> None:
        """Update the state after the peer has read most of the data."""
        if self.transport is not None:
            self._note_backlog(self.transport.get_write_buffer_size())
            self._oneways.written(self.position())
        if self._queue is not None:
            self._queue.wake(moved=True)

    def position(self) -> int:
        """Return how many bytes are known to have left the transport."""
        transport = self.transport
        if transport is not None and not transport.is_closing():
            self._written = max(self._written, self.handed - transport.get_write_buffer_size())
        return self._written

    def close(self) -> None:
        """Write buffered data and accept no more."""
        self.flush()
        self.closed = True

    def drop(self) -> None:
        """Discard buffered data and accept no more."""
        self.position()
        self.closed = True
        self._out, self._out_bytes = [], 0

    def lost(self, *, in_order: bool) -> None:
        """Handle the loss of the connection. *in_order*: the transport had written everything before."""
        if in_order:
            self._written = self.handed
        self.closed = True
        self.transport = None
        self._out, self._out_bytes = [], 0
        self._note_backlog(0)
        self._oneways.written(self._written)
        if dropped := self._oneways.lost():
            log.warning("%s: the connection was lost with %d oneway requests unwritten", self._peer(), dropped)
        if self._queue is not None:
            self._queue.wake(moved=True)

    def drop_unwritten(self, total: int, limit: int) -> None:
        """Close this connection to free memory (see `UnwrittenBytes`)."""
        log.warning(
            "%s: closed: %d bytes of all connections wait to be written, limit %d, and this one's %d are the most",
            self._peer(),
            total,
            limit,
            self.unwritten_bytes,
        )
        self._abort()

    def _note_backlog(self, size: int) -> None:
        if size != self.backlog:
            self.backlog = size
            self._unwritten.update(self, size)

    def _set_water_marks(self, transport: asyncio.Transport) -> None:
        """Set the limits for `pause_writing` and `resume_writing`, which the transport checks at once."""
        transport.set_write_buffer_limits(self._limits.pause_reading_bytes, self._limits.pause_reading_bytes // 4)
