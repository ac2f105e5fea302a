"""When a slave acts as its missing master. Pure: members of the group, connection and time in, a decision out.

    id 0 is registered                                  -> the master does its work
    a slave with a smaller id is registered             -> that slave acts
    the log is being copied                             -> the master lives, only the name servers do not know it
    this slave has just started, and saw no master yet  -> wait `START_S`: its master may be starting as well
    a returning master announced itself (906)           -> wait for its registration while the connection over which it
                                                           did lives, `RETURN_S` at most
    otherwise, if this slave is registered              -> act

RocketMQ's slave acts by the first name server's answer alone, and until the returned master is registered: what it
delivers after the master has copied its progress, the master delivers again.

Source: apache/rocketmq broker/.../BrokerController.java (onMinBrokerChange, updateMinBroker).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

MASTER_ID: Final = 0
RETURN_S: Final = 60.0  # longer than a returning master waits for another slave that does not answer
START_S: Final = 5.0


class ActingPolicy:
    """The group of one slave, as far as it knows it."""

    def __init__(self, broker_id: int, started: float) -> None:
        """*broker_id*: of this slave; *started*: monotonic seconds."""
        self._broker_id, self._started = broker_id, started
        self._saw_master = False
        self._members: frozenset[int] = frozenset()
        self._returning_at: float | None = None

    @property
    def master_registered(self) -> bool:
        """Whether a name server lists a master."""
        return MASTER_ID in self._members

    @property
    def alive(self) -> int:
        """Number of registered brokers of the group."""
        return len(self._members)

    @property
    def serves_consumers(self) -> bool:
        """Whether name servers send consumers here in the master's place."""
        return min(self._members, default=MASTER_ID) == self._broker_id != MASTER_ID

    @property
    def missing(self) -> str:
        """Description of the missing master for the log, when this slave begins to act."""
        if self._returning_at is None:
            return "the master of this broker name is missing"
        return f"the master of this broker name announced its return, and was not registered within {RETURN_S:g} s"

    @property
    def not_acting(self) -> str:
        """Why this slave does not act any more."""
        if self.master_registered:
            return "its master is registered"
        return "its master is there" if self.serves_consumers else "name servers list another slave, or not this one"

    def members_are(self, members: Mapping[int, str] | None) -> None:
        """Record the members that name servers list; None, if none of them answers, changes nothing."""
        if members is None:
            return
        self._members = frozenset(members)
        if self.master_registered:
            self._saw_master, self._returning_at = True, None

    def master_returns(self, now: float) -> None:
        """Note that a master announced its return; *now*: monotonic seconds."""
        self._returning_at = now

    def return_failed(self) -> bool:
        """Note that the master that announced its return is gone; return whether it was waited for."""
        waited, self._returning_at = self._returning_at is not None, None
        return waited

    def acts(self, *, connected: bool, now: float) -> bool:
        """Return whether this slave is to act; *connected*: to the HA port of its master."""
        if not self.serves_consumers or (not self._saw_master and now - self._started < START_S):
            return False
        if self._returning_at is not None:
            return now - self._returning_at >= RETURN_S
        return not connected
