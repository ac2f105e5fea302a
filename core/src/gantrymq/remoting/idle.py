"""Idle timeout of connections."""

from __future__ import annotations

from collections.abc import Callable

from gantrymq.remoting.write_buffer import WriteBuffer
from gantrymq.world import Clock, Timer

__all__ = ["IdleTimer"]


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
