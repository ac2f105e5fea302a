"""Slaves that are asked because their master is not registered, and how old their answers are."""

from __future__ import annotations

import attrs

from gantrymq.client import Admin
from gantrymq.errors import BrokerRefused
from gantrymq.plugin.commands import local_time

__all__ = ["AskedSlave", "asked_slave"]


@attrs.frozen
class AskedSlave:
    """A slave that answers in place of its master."""

    broker: str  # its name
    address: str
    as_of_ms: int | None  # when it last received something from a master; None: unknown
    acting: bool  # whether it acts for its master, so that its groups go on

    @property
    def sentence(self) -> str:
        """Where the answers come from, and how old they are."""
        if self.acting:
            return f"this is from the slave {self.address}, which acts for its master"
        if self.as_of_ms is None:
            return f"this is from the slave {self.address}, which does not say when it last heard its master"
        return f"this is from the slave {self.address}, as of {local_time(self.as_of_ms)}"


async def asked_slave(admin: Admin, broker: str, address: str) -> AskedSlave:
    """Return how old the answers of the slave at *address* are.

    Raises:
        ConnectFailed, ConnectionLost, CallTimeout: it does not answer.
    """
    try:
        connection = (await admin.ha_status(address)).connection
    except BrokerRefused:  # older than RocketMQ 5.0, or without replication
        connection = None
    if connection is None:
        return AskedSlave(broker, address, None, False)
    return AskedSlave(broker, address, connection.read_at_ms or None, connection.acting)
