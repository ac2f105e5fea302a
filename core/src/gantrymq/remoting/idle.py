"""Closing a connection on which nothing is read or written for long."""

from __future__ import annotations

from collections.abc import Callable

from gantrymq.remoting.write_buffer import WriteBuffer
from gantrymq.world import Clock, Timer

__all__ = ["IdleTimer"]


class IdleTimer:
    """Belongs to one connection; runs from its `start` to its `stop`."""

    def __init__(
        self,
        clock: Clock,
        timeout_s: float,
        last_heard: Callable[[], float],
        writes: WriteBuffer,
        idle: Callable[[], object],
    ) -> None:
        """*last_heard*: monotonic seconds of the last read. *idle* is called once nothing happened for *timeout_s*."""
        self._clock = clock
        self._timeout_s = timeout_s
        self._last_heard = last_heard
        self._writes = writes
        self._idle = idle
        self._unwritten_seen = 0
        self._timer: Timer | None = None

    def start(self) -> None:
        """Begin; a timeout of 0 never ends."""
        if self._timeout_s > 0:
            self._timer = self._clock.call_later(self._timeout_s, self._check)

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _check(self) -> None:
        """A peer that has read some of what waits since the last look is alive."""
        transport = self._writes.transport
        if transport is None:
            return
        unwritten = transport.get_write_buffer_size()
        if unwritten != self._unwritten_seen:
            self._writes.last_wrote = self._clock.monotonic()
        self._unwritten_seen = unwritten
        idle = self._clock.monotonic() - max(self._last_heard(), self._writes.last_wrote)
        left = self._timeout_s - idle
        if left > 1e-6:  # less is rounding, which would bring no clock forward
            self._timer = self._clock.call_later(left, self._check)
        else:
            self._idle()
