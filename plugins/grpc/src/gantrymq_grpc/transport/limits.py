"""Limits of connections and calls, and allowances for events that may be frequent but not endless."""

from __future__ import annotations

from typing import Final, NamedTuple

MIB: Final = 1024 * 1024


class Limits(NamedTuple):
    """Limits of one server. Times are in seconds; bytes of messages are those before compression by the client."""

    max_message_bytes: int = 16 * MIB  # of a request; larger ones are refused with RESOURCE_EXHAUSTED
    max_streams: int = 1000  # calls in progress per connection; further ones are refused
    max_waiting_requests: int = 1000  # of a stream, which its handler has not received; it ends above it
    max_header_bytes: int = 16 * 1024  # metadata of a call, as HTTP/2 counts it: 32 bytes more per entry
    max_block_bytes: int = 32 * 1024  # the same compressed; the connection is closed above it
    connection_window_bytes: int = 32 * MIB  # flow control of requests
    stream_window_bytes: int = 4 * MIB + 64 * 1024  # a send of RocketMQ's largest message needs no update
    max_partial_bytes: int = 96 * MIB  # incomplete requests, and those not yet read, over all connections
    send_ahead_bytes: int = 4 * MIB  # unsent responses of a connection above which streaming calls wait
    max_unsent_bytes: int = 64 * MIB  # unsent responses of a connection; it is closed above it
    max_total_unsent_bytes: int = 128 * MIB  # over all connections; the one with most is closed above it
    request_timeout_s: float = 60.0  # from the headers of a request to its end
    stall_timeout_s: float = 60.0  # a client that reads nothing although responses wait for it
    ping_after_s: float = 30.0  # the server pings a client from which nothing has arrived; 0: never
    ping_timeout_s: float = 10.0
    idle_timeout_s: float = 120.0  # a connection without a call is closed; 0: never
    max_age_s: float = 0.0  # a connection of that age, varied by a tenth, is closed in order; 0: never
    age_grace_s: float = 30.0  # for the calls of such a connection
    stop_grace_s: float = 5.0  # for unary calls when the server stops


class Allowance:
    """A number of events that is refilled with time."""

    __slots__ = ("_burst", "_left", "_per_s", "_updated")

    def __init__(self, burst: int, per_s: float) -> None:
        """Allow *burst* events at once and *per_s* per second in the long run."""
        self._burst = self._left = float(burst)
        self._per_s = per_s
        self._updated = 0.0

    def take(self, now: float) -> bool:
        """Count an event at monotonic time *now*. Return False if there were too many."""
        if self._left < 1.0:
            self._left = min(self._burst, self._left + (now - self._updated) * self._per_s)
            self._updated = now
            if self._left < 1.0:
                return False
        elif self._left == self._burst:
            self._updated = now
        self._left -= 1.0
        return True
