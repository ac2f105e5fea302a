"""Times of one connection: pings, idle time, greatest age, clients that stop reading or sending.

One timer per connection looks at all of them; it runs at the next time that is due, and at least every `_LOOK_S`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gantrymq.plugin.world import Timer, World
from gantrymq_grpc.transport.status import GrpcError, StatusCode

if TYPE_CHECKING:
    from gantrymq_grpc.transport.connection import Connection

_LOOK_S: Final = 10.0
_SOON_S: Final = 0.001  # less is a rounding error; such a timer would not advance a simulated clock


class Upkeep:
    """The timer of one connection."""

    def __init__(self, connection: Connection, world: World) -> None:
        """`start` starts it."""
        self._connection = connection
        self._clock = world.clock
        self._limits = limits = connection.limits
        self._ends_at = 0.0  # of the greatest age
        if limits.max_age_s:
            self._ends_at = self._clock.monotonic() + limits.max_age_s * world.random.uniform(0.9, 1.1)
        self._pinged_at = 0.0  # of a ping without answer
        self._timer: Timer | None = None

    def start(self) -> None:
        """Start the timer."""
        self._timer = self._clock.call_later(_SOON_S, self._look)

    def stop(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        now = self._clock.monotonic()
        due = [now + _LOOK_S]
        for check in (self._silence, self._stall, self._requests, self._idle, self._age):
            at = check(now)
            if self._timer is None:  # the connection was aborted
                return
            if at:
                due.append(at)
        self._timer = self._clock.call_later(max(min(due) - now, _SOON_S), self._look)

    def _silence(self, now: float) -> float:
        """Ping a silent client, and close if it does not answer. Return when to look again."""
        connection, limits = self._connection, self._limits
        if not limits.ping_after_s:
            return 0.0
        if self._pinged_at and connection.last_heard < self._pinged_at:
            if now - self._pinged_at >= limits.ping_timeout_s - _SOON_S:
                connection.abort(f"the client has not answered a ping for {limits.ping_timeout_s:g} s")
            return self._pinged_at + limits.ping_timeout_s
        self._pinged_at = 0.0
        if now - connection.last_heard < limits.ping_after_s - _SOON_S:
            return connection.last_heard + limits.ping_after_s
        connection.ping()
        self._pinged_at = now
        return now + limits.ping_timeout_s

    def _stall(self, now: float) -> float:
        """Close if responses wait for a client that reads nothing."""
        output, limit = self._connection.output, self._limits.stall_timeout_s
        if not output.unsent_bytes:
            return 0.0
        if now - output.last_progress >= limit - _SOON_S:
            self._connection.abort(f"the client has read none of {output.unsent_bytes} bytes for {limit:g} s")
        return output.last_progress + limit

    def _requests(self, now: float) -> float:
        """End calls whose requests are incomplete for too long."""
        limit = self._limits.request_timeout_s
        for call in self._connection.calls:
            if call.task is None and not call.client_ended:
                if now - call.begun < limit - _SOON_S:
                    return call.begun + limit
                text = f"the request is incomplete after {limit:g} s"
                call.end(GrpcError(StatusCode.DEADLINE_EXCEEDED, text))
        return 0.0

    def _idle(self, now: float) -> float:
        """Close a connection that has not been used."""
        connection, limit = self._connection, self._limits.idle_timeout_s
        if not limit or connection.calls:
            return 0.0
        if now - connection.last_used >= limit - _SOON_S:
            connection.drain(f"no call for {limit:g} s", 0.0, end_streams=False)
        return connection.last_used + limit

    def _age(self, now: float) -> float:
        """Close a connection that is old."""
        if self._ends_at and now >= self._ends_at - _SOON_S:
            self._ends_at = 0.0
            text = f"the connection has reached its greatest age of {self._limits.max_age_s:g} s"
            self._connection.drain(text, self._limits.age_grace_s, end_streams=False)
        return self._ends_at
