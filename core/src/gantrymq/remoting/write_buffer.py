"""What one connection writes: gathered during a turn of the event loop, then handed to the transport as one write.

The buffer numbers all bytes handed to the transport and tracks which of them are still in memory. This is used
to report lost oneway requests (`PendingOneways`), to start deadlines when a request is handed over (`PendingCalls`), to
make writers wait while too much is unwritten (`WriteQueue`) and to close a peer that does not read (`Limits`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from gantrymq.remoting.limits import Limits, UnwrittenBytes
from gantrymq.remoting.pending_oneways import PendingOneways
from gantrymq.remoting.write_queue import WriteQueue
from gantrymq.world import Clock

__all__ = ["Buffer", "WriteBuffer"]

log = logging.getLogger("gantrymq.remoting")

Buffer = bytes | bytearray | memoryview

_JOIN_BYTES: Final = 64 * 1024  # buffers that are no more together are copied into one, cheaper than a list of them,
_SMALL_BYTES: Final = 4096  # unless they are larger on average
TIGHT_SHARE: Final = 16  # of what one connection may have unwritten before it waits, while it is tight for all


class WriteBuffer:
    """Belongs to one connection.

    Attributes:
        transport: where the bytes go; None before the connection is made and after it is lost.
        closed: nothing more is taken.
        flushing: `flush` will be called in this turn of the loop; whoever sets it sees to that.
        handed: bytes that the transport was ever given.
        long_bytes: size of the longest of the latest answers that were handed over in several buffers.
        backlog: what of it waited for the peer at the last write.
        last_wrote: monotonic seconds of the last write.
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
        """*peer* names the other side, for sentences; *abort* closes the connection; *wrote* is told of each write."""
        self.transport: asyncio.Transport | None = None
        self.closed = False
        self.flushing = False
        self.handed = 0
        self.backlog = 0  # as the account of unwritten bytes was told
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
        self._written = 0  # of the bytes handed over, those that were seen to have left our memory
        self._oneways = PendingOneways()
        self._queue: WriteQueue | None = None  # made when the first one has to wait

    @property
    def unwritten_bytes(self) -> int:
        """Bytes that were added and are still in memory."""
        transport = self.transport
        return self._out_bytes + (0 if transport is None or self.closed else transport.get_write_buffer_size())

    @property
    def end(self) -> int:
        """The number of the last byte that was added, as `position` counts."""
        return self.handed + self._out_bytes

    @property
    def tight(self) -> bool:
        """Whether all connections together have so much unwritten that each may have less."""
        return self._unwritten.tight

    @property
    def full(self) -> bool:
        """Whether no more answers should be made before the peer has read some."""
        return not self.has_room_for(0)

    def has_room_for(self, size: int) -> bool:
        """Whether answers of *size* bytes may be added, by what is unwritten here and in all."""
        most = self._limits.pause_reading_bytes
        return self.unwritten_bytes + size <= (most // TIGHT_SHARE if self.tight else most)

    def use(self, transport: asyncio.Transport) -> None:
        """Write to *transport*, and have it say when too much is unwritten and when there is room again."""
        self.transport = transport
        self._set_water_marks(transport)

    def add(self, data: Buffer, size: int) -> None:
        """Gather *data*, *size* bytes; one write per turn of the loop carries everything."""
        self._out.append(data)
        self._out_bytes += size
        if not self.flushing:
            self.flushing = True
            asyncio.get_running_loop().call_soon(self._flush_turn)

    def add_parts(self, parts: Sequence[Buffer]) -> None:
        """As `add`, for several buffers that belong together, at least one."""
        size = sum(map(len, parts))
        self.long_bytes = max(size, self.long_bytes * 7 // 8)
        self._out.extend(parts[:-1])
        last = len(parts[-1])
        self._out_bytes += size - last
        self.add(parts[-1], last)

    def add_oneway(self, data: Buffer, dropped: Callable[[], object] | None) -> None:
        """As `add`, for a request without an answer; *dropped* is called if it is lost unwritten."""
        self.add(data, len(data))
        self._oneways.add(self.end, dropped)

    async def writable(self, timeout_s: float) -> None:
        """Wait until at most ``limits.pause_reading_bytes`` are unwritten, or it is closed; see `WriteQueue.room`."""
        most = self._limits.pause_reading_bytes
        if self.unwritten_bytes > most or (self._queue is not None and len(self._queue)):
            if self._queue is None:
                self._queue = WriteQueue(self._clock, self._peer, lambda: self.unwritten_bytes, most)
            await self._queue.room(timeout_s)

    def flush(self) -> None:
        """Hand over what is gathered now, instead of at the end of the loop's turn."""
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
                self._set_water_marks(transport)  # asyncio of Python 3.12.0 and .1 does not look after writelines
        backlog = transport.get_write_buffer_size()
        if backlog or self.backlog:
            self._note_backlog(backlog)
        self._wrote()
        if self._oneways:
            self._oneways.written(self.position())
        if self._queue is not None:
            self._queue.look(moved=False)

    def drained(self) -> None:
        """The peer has read most of what was waiting."""
        if self.transport is not None:
            self._note_backlog(self.transport.get_write_buffer_size())
            self._oneways.written(self.position())
        if self._queue is not None:
            self._queue.look(moved=True)

    def position(self) -> int:
        """How many bytes have left our memory so far, as far as can be seen."""
        transport = self.transport
        if transport is not None and not transport.is_closing():
            self._written = max(self._written, self.handed - transport.get_write_buffer_size())
        return self._written

    def close(self) -> None:
        """Hand over what is gathered and take no more."""
        self.flush()
        self.closed = True

    def drop(self) -> None:
        """Forget what is gathered and take no more."""
        self.position()
        self.closed = True
        self._out, self._out_bytes = [], 0

    def lost(self, *, in_order: bool) -> None:
        """The connection is gone; *in_order*: its transport had written everything before it ended."""
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
            self._queue.look(moved=True)

    def drop_unwritten(self, total: int, limit: int) -> None:
        """Close in favour of others (see `UnwrittenBytes`)."""
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
        """Say when `pause_writing` and `resume_writing` are due; the transport looks at once whether one is."""
        transport.set_write_buffer_limits(self._limits.pause_reading_bytes, self._limits.pause_reading_bytes // 4)
