"""The events of a simulated run, in order, so that two runs can be compared byte for byte."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import NamedTuple


class Event(NamedTuple):
    """One operation of a simulated network or file system."""

    time_us: int  # wall time, microseconds since 1970-01-01 UTC
    kind: str  # "net.send", "net.deliver", "file.pwrite", ...
    where: str  # the connection or the path
    position: int  # bytes from the start of the stream or the file, 0 if not applicable
    data: bytes  # the bytes; their blake2b digest if the trace keeps digests only


class Trace:
    """A list of events, filled by one simulated world. Create one per run and pass it to ``simulate``."""

    def __init__(self, *, keep_bytes: bool = True) -> None:
        """Keep whole contents, or, for long runs, a digest of 16 bytes for each."""
        self.events: list[Event] = []
        self._keep_bytes = keep_bytes
        self._now_us: Callable[[], int] | None = None

    def start(self, now_us: Callable[[], int]) -> None:
        """Read the time from *now_us* from now on."""
        self._now_us = now_us

    def add(self, kind: str, where: str, position: int = 0, data: bytes | bytearray | memoryview = b"") -> None:
        """Record an event of *kind* at *where*, now. *data* is copied."""
        kept = bytes(data)
        if kept and not self._keep_bytes:
            kept = hashlib.blake2b(kept, digest_size=16).digest()
        self.events.append(Event(self._now_us() if self._now_us is not None else 0, kind, where, position, kept))

    def digest(self) -> str:
        """Hex digest of all events; equal for equal runs."""
        sum_of_all = hashlib.blake2b(digest_size=32)
        for event in self.events:
            sum_of_all.update(repr(event).encode())
        return sum_of_all.hexdigest()
