"""What a server or client lets its peers cost, and what all connections hold: unfinished frames and unwritten bytes.

Everything here has a bound, so that a slow reader, a flood of connections or a crowd of half-sent frames takes a known
amount of memory and nobody else waits for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

import attrs

from gantrymq.remoting.frame import MAX_FRAME_BYTES

__all__ = ["Limits", "UnfinishedFrames", "UnwrittenBytes", "connections_within"]

MIB: Final = 1024 * 1024
TIGHT_FRACTION: Final = 4  # so many times what is unwritten is more than the limit
RECOUNT_INTERVAL_S: Final = 1.0


@attrs.frozen(kw_only=True)
class Limits:
    """Bounds of a `RemotingServer` or `RemotingClient`; sizes in bytes, times in seconds."""

    max_frame_bytes: int = MAX_FRAME_BYTES  # length prefix included; a longer frame closes its connection
    max_connections: int = 10_000  # further ones are closed as they come
    pause_reading_bytes: int = MIB  # unwritten: above it nothing more is read from the peer, until a quarter is left
    max_unwritten_bytes: int = 64 * MIB  # unwritten: above it the connection is closed
    max_unwritten_total_bytes: int = 512 * MIB  # over all connections: above it see `UnwrittenBytes`
    max_unfinished_bytes: int = 256 * MIB  # over all connections: above it see `UnfinishedFrames`
    idle_timeout_s: float = 120.0  # without a read or write the connection is closed; 0 never
    connect_timeout_s: float = 3.0  # client only, the handshake of TLS included
    busy_poll_s: float = 0.0  # server only, see `BusyPoll`; 0 sleeps as soon as there is nothing to do
    handshake_timeout_s: float = 10.0  # of TLS, from the first byte; Netty's default


def connections_within(descriptors: int, share: float, wanted: int) -> int:
    """How many connections a server may have that gets *share* of this process's *descriptors*, at most *wanted*.

    What is left is for files. A process without a descriptor left can neither read a queue nor save an offset, so
    connections that come are turned away before it comes to that.
    """
    return min(wanted, max(1, int(descriptors * share)))


class FrameReceiver(Protocol):
    """What holds unfinished frames: a connection."""

    def drop_unfinished(self, held: int, limit: int) -> None:
        """Close, because *held* bytes over all connections are over *limit*."""


class UnfinishedFrames:
    """Bytes of frames that are not whole yet, over all connections.

    Above the limit connections are closed, beginning with those whose frame began first; one that holds less than half
    the average is passed over, as closing it would help little. So honest senders, whose frames come to an end, outlive
    those that only ever begin one.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held: dict[FrameReceiver, int] = {}  # in the order in which the frames began
        self.total = 0

    def update(self, receiver: FrameReceiver, held: int, *, fresh: bool) -> None:
        """Note that *receiver* now holds *held* bytes, of a new frame if *fresh*; may close connections."""
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
    """What has bytes that its peer has not taken: a connection."""

    @property
    def unwritten_bytes(self) -> int:
        """How many there are now."""

    def drop_unwritten(self, total: int, limit: int) -> None:
        """Close, because *total* bytes over all connections are over *limit*."""


class UnwrittenBytes:
    """Bytes that wait to be written, over all connections.

    Above a quarter of the limit it is *tight*: each connection may have less unwritten before its requests wait. Above
    the limit the connection that holds most is closed, until the rest is within it. What a connection noted may have
    been written since, without its telling; so before one is closed, and from time to time while it is tight, all are
    asked anew.
    """

    def __init__(self, limit: int, monotonic: Callable[[], float]) -> None:
        self._limit = limit
        self._monotonic = monotonic
        self._counted_at = 0.0
        self._held: dict[FrameWriter, int] = {}
        self.total = 0

    @property
    def tight(self) -> bool:
        """Whether the connections should hold less."""
        if self.total * TIGHT_FRACTION <= self._limit:
            return False
        now = self._monotonic()
        if now - self._counted_at > RECOUNT_INTERVAL_S:
            self._counted_at = now
            self._recount()
        return self.total * TIGHT_FRACTION > self._limit

    def update(self, writer: FrameWriter, held: int) -> None:
        """Note that *writer* now holds *held* bytes; may close connections, *writer* among them."""
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
        """Count anew."""
        asked = {writer: writer.unwritten_bytes for writer in self._held}
        self._held = {writer: held for writer, held in asked.items() if held}
        self.total = sum(self._held.values())
