"""What happened in a simulated run, in order, so that two runs can be compared byte for byte."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import NamedTuple


class Event(NamedTuple):
    """One thing that a simulated network or file system did."""

    time_us: int  # wall time, microseconds since 1970-01-01 UTC
    kind: str  # "net.send", "net.deliver", "file.pwrite", ...
    where: str  # the connection or the path
    position: int  # bytes from the start of the stream or the file, 0 where it means nothing
    data: bytes  # the bytes that moved; their blake2b digest where the trace keeps digests only


class Trace:
    """A list of events, filled by one simulated world. Make one per run and hand it to ``simulate``."""

    def __init__(self, *, keep_bytes: bool = True) -> None:
        """Keep whole contents, or, for long runs, 16 bytes of digest for each."""
        self.events: list[Event] = []
        self._keep_bytes = keep_bytes
        self._now_us: Callable[[], int] | None = None

    def start(self, now_us: Callable[[], int]) -> None:
        """Take the time from *now_us* from here on."""
        self._now_us = now_us

    def add(self, kind: str, where: str, position: int = 0, data: bytes | bytearray | memoryview = b"") -> None:
        """Note that *kind* happened at *where*, now. *data* is copied."""
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
