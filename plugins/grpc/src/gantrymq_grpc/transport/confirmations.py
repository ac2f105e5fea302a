"""Whether a client has received the end of a response: bytes that were written may be lost with their connection.

HTTP/2 acknowledges nothing but pings. A client answers a ping after it has read everything before it, so a ping follows
the response. One is under way at a time, and confirms all responses that ended before it was sent.
"""

from __future__ import annotations

from collections.abc import Callable

Received = Callable[[bool], object]
_PREFIX = b"rcvd"


class Confirmations:
    """The responses of one connection that wait for their confirmation."""

    def __init__(self, ping: Callable[[bytes], object]) -> None:
        """*ping* sends a ping with a payload of eight bytes."""
        self._ping = ping
        self._number = 0  # of the last ping
        self._answered = 0
        self._asked: dict[int, Received] = {}  # by stream: what the last ping confirms
        self._waiting: dict[int, Received] = {}  # for the next one

    def ask(self, stream_id: int, received: Received) -> None:
        """Call *received* once: with True if the client has received what was written until now, otherwise False."""
        self._waiting[stream_id] = received
        if self._answered == self._number:
            self._ask()

    def answered(self, payload: bytes) -> bool:
        """Confirm the responses before a ping. Return False if *payload* is not that of the ping under way."""
        if self._answered == self._number or payload != self._payload():
            return False
        self._answered = self._number
        asked, self._asked = self._asked, {}
        if self._waiting:
            self._ask()
        for received in asked.values():
            received(True)
        return True

    def reset(self, stream_id: int) -> None:
        """Record that the client has reset a stream: it did not wait for the end of the response."""
        received = self._asked.pop(stream_id, None) or self._waiting.pop(stream_id, None)
        if received is not None:
            received(False)

    def lost(self) -> None:
        """Record that the connection is lost."""
        left = [*self._asked.values(), *self._waiting.values()]
        self._asked, self._waiting = {}, {}
        for received in left:
            received(False)

    def _ask(self) -> None:
        self._asked, self._waiting = self._waiting, {}
        self._number += 1
        self._ping(self._payload())

    def _payload(self) -> bytes:
        return _PREFIX + (self._number & 0xFFFFFFFF).to_bytes(4, "big")
