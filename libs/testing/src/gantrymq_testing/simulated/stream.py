"""One direction of a simulated connection: bytes in flight, and the timer that delivers the next of them.

A `Delivery` decides for each delivery the time and the number of bytes. A test of a slow, lossy or hostile network
passes its own.

Order is guaranteed by construction: there is one buffer and one timer. Bytes written while others are in flight are
appended; `Delivery.read_size` decides where a read ends. Nothing moves while the receiver has paused reading, so the
buffer is both the sender's write buffer and the network.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextvars import Context
from typing import NamedTuple, Protocol

from gantrymq_testing.simulated.trace import Trace

Address = tuple[str, int]
LATENCY_S = (20e-6, 400e-6)  # a local network, seconds one way
READ_BYTES = 256 * 1024  # maximum of one read, as in asyncio's selector transports


class Link(NamedTuple):
    """One direction of one connection."""

    number: int  # of the connection, from 1 in the order of connecting
    source: Address
    target: Address

    def __str__(self) -> str:
        return f"{self.number} {self.source[0]}:{self.source[1]} -> {self.target[0]}:{self.target[1]}"


class Delivery(Protocol):
    """Decides when bytes arrive and how they are split. Called once per delivery, in a repeatable order."""

    def latency_s(self, link: Link) -> float:
        """Return the seconds until the next bytes of *link* (or its opening, end or loss) arrive; at least 0."""

    def read_size(self, link: Link, waiting: int) -> int:
        """Return how many of *waiting* bytes (at least 1) the next read returns; 1 to *waiting*."""


class SeededDelivery:
    """Delivers every byte, in order: delays are uniform, half of the reads end early, at a uniform position."""

    def __init__(self, seeded: random.Random) -> None:
        self._random = seeded

    def latency_s(self, link: Link) -> float:
        """20 to 400 microseconds."""
        return self._random.uniform(*LATENCY_S)

    def read_size(self, link: Link, waiting: int) -> int:
        """Return all waiting bytes, up to 256 KiB, or with probability 1/2 a part of them."""
        most = min(waiting, READ_BYTES)
        return most if self._random.random() < 0.5 else self._random.randint(1, most)


class Sender(Protocol):
    """The writing end."""

    def drained(self) -> None:
        """Handle the delivery of bytes from the stream."""

    def lose(self, error: Exception | None) -> None:
        """Handle the loss of the connection."""


class Receiver(Protocol):
    """The reading end."""

    def readable(self) -> bool:
        """Return whether bytes may be delivered now: connected and not paused."""

    def gone(self) -> bool:
        """Return whether it has stopped reading permanently."""

    def receive(self, data: bytes) -> None:
        """Receive bytes."""

    def receive_end(self) -> None:
        """Called when no more bytes will arrive."""

    def lose(self, error: Exception | None) -> None:
        """Handle the loss of the connection."""


class Stream:
    """From `write` to `Receiver.receive`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, link: Link, delivery: Delivery, trace: Trace | None) -> None:
        """Create a stream that moves nothing until `join` has named its ends."""
        self._loop = loop
        self._link = link
        self._delivery = delivery
        self._trace = trace
        self._buffer = bytearray()
        self._sent = 0  # bytes written since the stream was created
        self._ending = False  # an end follows the last byte
        self._done = False  # the end was delivered, or the stream was dropped
        self._timer: asyncio.TimerHandle | None = None
        self._sender: Sender
        self._receiver: Receiver

    def join(self, sender: Sender, receiver: Receiver) -> None:
        """Set the two ends."""
        self._sender = sender
        self._receiver = receiver

    def __len__(self) -> int:
        return len(self._buffer)

    def write(self, data: bytes) -> None:
        """Append *data* to the bytes in flight."""
        self._note("net.send", self._sent, data)
        self._sent += len(data)
        self._buffer += data
        self.move()

    def end(self) -> None:
        """Append an end to the last byte."""
        self._ending = True
        self.move()

    def drop(self) -> None:
        """Drop the bytes in flight; nothing more arrives, not even an end."""
        self._done = True
        self._buffer.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def break_off(self) -> None:
        """Drop everything; the receiver learns after a delay that the connection was reset."""
        self.drop()
        self._note("net.reset", self._sent)
        error = ConnectionResetError("connection reset by peer")
        self._later(self._receiver.lose, error)

    def cut(self, size: int) -> None:
        """Deliver *size* of the bytes in flight at once, drop the others and everything later."""
        data = bytes(self._buffer[:size])
        if data and self._receiver.readable():
            self._note("net.deliver", self._sent - len(self._buffer), data)
            self._receiver.receive(data)
        self.drop()

    def move(self) -> None:
        """Start the timer for the next delivery, if one is due and it is not running."""
        if self._timer is not None or self._done or not (self._buffer or self._ending):
            return
        if self._receiver.gone() or self._receiver.readable():
            self._timer = self._later(self._arrive)

    def _arrive(self) -> None:
        self._timer = None
        if self._receiver.gone():
            if self._buffer:  # a write to a closed socket is answered with a reset
                self.drop()
                self._later(self._sender.lose, ConnectionResetError("connection reset by peer"))
            self._done = True
            return
        if not self._receiver.readable():
            return  # `move` is called when reading resumes
        if self._buffer:
            size = self._delivery.read_size(self._link, len(self._buffer))
            data = bytes(self._buffer[:size])
            self._note("net.deliver", self._sent - len(self._buffer), data)
            del self._buffer[:size]
            self._receiver.receive(data)
            self._sender.drained()
            self.move()
        else:
            self._done = True
            self._note("net.end", self._sent)
            self._receiver.receive_end()

    def _later(self, callback: Callable[..., None], *args: object) -> asyncio.TimerHandle:
        return self._loop.call_later(self._delivery.latency_s(self._link), callback, *args, context=Context())

    def _note(self, kind: str, position: int, data: bytes = b"") -> None:
        if self._trace is not None:
            self._trace.add(kind, str(self._link), position, data)
