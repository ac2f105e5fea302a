"""When a slave acts as its missing master. Pure: members of the group, connection and time in, a decision out.

    id 0 is registered                                  -> the master does its work
    a slave with a smaller id is registered             -> that slave acts
    the log is being copied                             -> the master lives, only the name servers do not know it
    a returning master announced itself (906)           -> wait for its registration, `RETURN_S` at most
    otherwise, if this slave is registered              -> act

RocketMQ's slave acts by the first name server's answer alone, and until the returned master is registered: what it
delivers after the master has copied its progress, the master delivers again.

Source: apache/rocketmq broker/.../BrokerController.java (onMinBrokerChange, updateMinBroker).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["MASTER_ID", "RETURN_S", "ActingRules"]

MASTER_ID: Final = 0
RETURN_S: Final = 30.0


class ActingRules:
    """What one slave knows of its group."""

    def __init__(self, broker_id: int) -> None:
        """*broker_id*: of this slave."""
        self._broker_id = broker_id
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

    def members_are(self, members: Mapping[int, str] | None) -> None:
        """Take what name servers list; None if none of them answers, which changes nothing."""
        if members is None:
            return
        self._members = frozenset(members)
        if self.master_registered:
            self._returning_at = None

    def master_returns(self, now: float) -> None:
        """Note that a master announced its return; *now*: monotonic seconds."""
        self._returning_at = now

    def acts(self, *, connected: bool, now: float) -> bool:
        """Return whether this slave is to act; *connected*: to the HA port of its master."""
        if min(self._members, default=None) != self._broker_id or self._broker_id == MASTER_ID:
            return False
        if self._returning_at is not None:
            return now - self._returning_at >= RETURN_S
        return not connected
