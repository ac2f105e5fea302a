"""Figures in the runtime info of a broker, and slaves that are asked because their master is not registered."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from gantrymq.client import Admin
from gantrymq.errors import BrokerRefused
from gantrymq.plugin.commands import local_time


def rates(info: Mapping[str, str]) -> tuple[float | None, float | None]:
    """Return the messages in and out per second, over the last ten seconds."""
    return rate(info.get("putTps")), rate(info.get("getTransferredTps") or info.get("getTransferedTps"))  # 4.9


def today(info: Mapping[str, str]) -> tuple[int | None, int | None]:
    """Return the messages in and out since midnight."""
    return _since_morning(info, "msgPutTotal"), _since_morning(info, "msgGetTotal")


def rate(text: str | None) -> float | None:
    """Return the first of several numbers: a rate over the last ten seconds, or a ratio."""
    try:
        return float((text or "").split()[0])
    except (IndexError, ValueError):
        return None


def whole(text: str | None) -> int | None:
    """Return a whole number, None for anything else."""
    try:
        return int(text or "")
    except ValueError:
        return None


def _since_morning(info: Mapping[str, str], name: str) -> int | None:
    now, morning = whole(info.get(f"{name}TodayNow")), whole(info.get(f"{name}TodayMorning"))
    return None if now is None or morning is None else now - morning


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
