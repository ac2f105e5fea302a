"""Figures in the runtime info of a broker, and slaves that are asked because their master is not registered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import attrs

from gantrymq.errors import BrokerRefused
from gantrymq.plugin.commands import local_time

if TYPE_CHECKING:
    from gantrymq.client import Admin


@attrs.frozen
class BrokerFigures:
    """Figures in the runtime info of a broker of any version; None: it does not report one."""

    version: str | None
    active: bool | None
    started_ms: int | None
    in_per_s: float | None  # messages, over the last ten seconds
    out_per_s: float | None
    in_today: int | None  # messages since midnight
    out_today: int | None
    put_total: int | None  # messages
    got_total: int | None
    log_min_offset: int | None
    log_max_offset: int | None
    dispatch_behind_bytes: int | None


def runtime_figures(info: Mapping[str, str]) -> BrokerFigures:
    """Return the figures in the runtime info of a broker."""
    return BrokerFigures(
        version=info.get("brokerVersionDesc"),
        active=info["brokerActive"] == "true" if "brokerActive" in info else None,  # 4.9 does not report it
        started_ms=_whole(info.get("bootTimestamp")),
        in_per_s=_per_s(info.get("putTps")),
        out_per_s=_per_s(info.get("getTransferredTps") or info.get("getTransferedTps")),  # the name in 4.9
        in_today=_since_morning(info, "msgPutTotal"),
        out_today=_since_morning(info, "msgGetTotal"),
        put_total=_whole(info.get("msgPutTotalTodayNow")),
        got_total=_whole(info.get("msgGetTotalTodayNow")),
        log_min_offset=_whole(info.get("commitLogMinOffset")),
        log_max_offset=_whole(info.get("commitLogMaxOffset")),
        dispatch_behind_bytes=_whole(info.get("dispatchBehindBytes")),
    )


def rate(text: str | None) -> float | None:
    """Return the first of several numbers: a rate over the last ten seconds, or a ratio."""
    try:
        return float((text or "").split()[0])
    except (IndexError, ValueError):
        return None


def _per_s(text: str | None) -> float | None:
    found = rate(text)
    return None if found is None else round(found, 2)


def _whole(text: str | None) -> int | None:
    try:
        return int(text or "")
    except ValueError:
        return None


def _since_morning(info: Mapping[str, str], name: str) -> int | None:
    now, morning = _whole(info.get(f"{name}TodayNow")), _whole(info.get(f"{name}TodayMorning"))
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
