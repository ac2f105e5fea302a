"""A limit of the rate at which a command reads, so that it leaves the disk to a broker."""

from __future__ import annotations

from collections.abc import Callable

from gantrymq_store_tools.findings import ProgressListener

__all__ = ["Paced"]

LEAST_S = 0.01  # shorter pauses are added up


class Paced(ProgressListener):
    """Pauses after each read until the average rate since the first one is below the limit."""

    def __init__(
        self,
        inner: ProgressListener,
        bytes_per_second: float,
        monotonic: Callable[[], float],
        pause: Callable[[float], None],
    ) -> None:
        """*inner* receives the progress; *monotonic* returns the time in seconds; *pause* waits for some seconds."""
        self._inner = inner
        self._rate = bytes_per_second
        self._monotonic = monotonic
        self._pause = pause
        self._due = monotonic()  # when the bytes read so far are allowed

    def begin(self, what: str, total_bytes: int) -> None:
        """Pass it on."""
        self._inner.begin(what, total_bytes)

    def advance(self, read_bytes: int) -> None:
        """Pass it on, and pause. A time without reads does not allow faster ones afterwards."""
        self._inner.advance(read_bytes)
        now = self._monotonic()
        self._due = max(self._due, now) + read_bytes / self._rate
        if self._due - now >= LEAST_S:
            self._pause(self._due - now)

    def end(self) -> None:
        """Pass it on."""
        self._inner.end()
