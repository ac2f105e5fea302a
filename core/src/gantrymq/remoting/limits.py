"""Resource limits of servers and clients, and the memory of all connections: unfinished frames and unwritten bytes.

With these limits slow readers, many connections and many incomplete frames use a bounded amount of memory and do not
delay other peers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

import attrs

from gantrymq.remoting.frame import MAX_FRAME_BYTES

_MIB: Final = 1024 * 1024
_TIGHT_FRACTION: Final = 4  # memory is tight above a quarter of the limit
_RECOUNT_INTERVAL_S: Final = 1.0


@attrs.frozen(kw_only=True)
class Limits:
    """Bounds of a `RemotingServer` or `RemotingClient`; sizes in bytes, times in seconds."""

    max_frame_bytes: int = MAX_FRAME_BYTES  # length prefix included; a longer frame closes its connection
    max_connections: int = 10_000  # further connections are closed
    pause_reading_bytes: int = _MIB  # unwritten: above it reading from the peer pauses until a quarter is left
    max_unwritten_bytes: int = 64 * _MIB  # unwritten: above it the connection is closed
    max_unwritten_total_bytes: int = 512 * _MIB  # over all connections: above it see `UnwrittenBytes`
    max_unfinished_bytes: int = 256 * _MIB  # over all connections: above it see `UnfinishedFrames`
    idle_timeout_s: float = 120.0  # without a read or write the connection is closed; 0 never
    connect_timeout_s: float = 3.0  # client only, TLS handshake included
    busy_poll_s: float = 0.0  # server only, see `BusyPoll`; 0 disables polling
    handshake_timeout_s: float = 10.0  # of TLS, from the first byte; Netty's default


def connections_within(descriptors: int, share: float, wanted: int) -> int:
    """Return the connection limit for *share* of this process's *descriptors*, at most *wanted*.

    The other descriptors are for files. A process without free descriptors can neither read a queue nor save an offset,
    so connections are refused before that.
    """
    return min(wanted, max(1, int(descriptors * share)))


class FrameReceiver(Protocol):
    """A connection that holds bytes of an unfinished frame."""

    def drop_unfinished(self, held: int, limit: int) -> None:
        """Close, because all connections hold *held* bytes, more than *limit*."""


class UnfinishedFrames:
    """Bytes of incomplete frames over all connections.

    Above the limit connections are closed, those with the oldest incomplete frame first. A connection that holds less
    than half the average is skipped, as closing it would free little. Senders that complete their frames thus survive
    those that do not.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held: dict[FrameReceiver, int] = {}  # in the order of the first bytes of the frames
        self.total = 0

    def update(self, receiver: FrameReceiver, held: int, *, fresh: bool) -> None:
        """Record that *receiver* now holds *held* bytes, of a new frame if *fresh*. May close connections."""
        before = self._held.get(receiver, 0)
        if held == 0:
            if before:
                del self._held[receiver]
        else:
            if fresh and before:
                del self._held[receiver]
            self._held[receiver] = held
        self.total += held - before
        while self.total > self._limit and self._held:
            self._drop_one()

    def _drop_one(self) -> None:
        least = self.total / len(self._held) / 2
        receiver = next(receiver for receiver, held in self._held.items() if held >= least)
        total = self.total
        self.total -= self._held.pop(receiver)
        receiver.drop_unfinished(total, self._limit)


class FrameWriter(Protocol):
    """A connection with bytes that its peer has not read."""

    @property
    def unwritten_bytes(self) -> int:
        """Number of these bytes now."""

    def drop_unwritten(self, total: int, limit: int) -> None:
        """Close, because all connections hold *total* bytes, more than *limit*."""


class UnwrittenBytes:
    """Unwritten bytes over all connections.

    Above a quarter of the limit memory is *tight*: each connection may have fewer unwritten bytes before its requests
    wait. Above the limit the connection with the most bytes is closed, until the rest is within the limit. Bytes may be
    written without a call of `update`, so all connections are counted again before one is closed, and periodically
    while memory is tight.
    """

    def __init__(self, limit: int, monotonic: Callable[[], float]) -> None:
        self._limit = limit
        self._monotonic = monotonic
        self._counted_at = 0.0
        self._held: dict[FrameWriter, int] = {}
        self.total = 0

    @property
    def tight(self) -> bool:
        """Whether the connections should hold fewer bytes."""
        if self.total * _TIGHT_FRACTION <= self._limit:
            return False
        now = self._monotonic()
        if now - self._counted_at > _RECOUNT_INTERVAL_S:
            self._counted_at = now
            self._recount()
        return self.total * _TIGHT_FRACTION > self._limit

    def update(self, writer: FrameWriter, held: int) -> None:
        """Record that *writer* now holds *held* bytes. May close connections, *writer* included."""
        self.total += held - self._held.get(writer, 0)
        if held:
            self._held[writer] = held
        else:
            self._held.pop(writer, None)
        if self.total > self._limit:
            self._make_room()

    def _make_room(self) -> None:
        self._recount()
        while self.total > self._limit:
            greediest = max(self._held, key=self._held.__getitem__)
            total = self.total
            self.total -= self._held.pop(greediest)
            greediest.drop_unwritten(total, self._limit)

    def _recount(self) -> None:
        """Count the bytes of all connections again."""
        asked = {writer: writer.unwritten_bytes for writer in self._held}
        self._held = {writer: held for writer, held in asked.items() if held}
        self.total = sum(self._held.values())
