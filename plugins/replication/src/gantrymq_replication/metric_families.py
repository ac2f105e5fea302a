"""Metrics of replication, read when they are exported. Fixed roles and elected ones have the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from gantrymq.interfaces import Broker, MetricFamily
from gantrymq.model.role import Role
from gantrymq_replication.master import MasterService
from gantrymq_replication.replicas import Replica, Replicas
from gantrymq_replication.slave import SlaveService
from gantrymq_replication.tables import TablesService

__all__ = ["CopyState", "CopyStates", "FixedCopies", "one", "replication_metrics"]


class CopyState(NamedTuple):
    """A connected slave."""

    address: str
    lag_bytes: int
    late_s: float


class CopyStates(Protocol):
    """What a broker knows of the copies of its log."""

    def slaves(self) -> Sequence[CopyState]:
        """Return the connected slaves; none on a slave."""

    @property
    def in_sync(self) -> int:
        """Copies in sync, the master's included; 1 on a slave."""

    @property
    def wanted(self) -> int:
        """Copies in sync that the settings ask for; 1 on a slave."""

    @property
    def lack(self) -> str:
        """Why acknowledgements cannot wait for slaves; empty if they can, or do not."""

    @property
    def sent_bytes(self) -> int:
        """Bytes of the log sent to slaves since the start."""

    @property
    def refused(self) -> int:
        """Connections to the HA port refused since the start."""

    @property
    def received_bytes(self) -> int:
        """Bytes received from masters since the start."""

    @property
    def not_following(self) -> str | None:
        """Why this slave does not copy its master's log, perhaps empty; None if it does, and on a master."""


class FixedCopies:
    """`CopyStates` with roles that settings fix."""

    def __init__(
        self, broker: Broker, replicas: Callable[[], Replicas | None], slave: SlaveService, master: MasterService
    ) -> None:
        """*replicas*: what a master knows of its slaves, None on a slave."""
        self._broker, self._replicas, self._slave, self._master = broker, replicas, slave, master
        self._clock = broker.world.clock

    def slaves(self) -> list[CopyState]:
        """See `CopyStates.slaves`."""
        end, now = self._end, self._clock.monotonic()

        def state(each: Replica) -> CopyState:
            return CopyState(each.address, end - each.acked, each.late_s(end, now))

        found = self._replicas()
        return [state(each) for each in found.all] if found is not None else []

    @property
    def in_sync(self) -> int:
        """See `CopyStates.in_sync`."""
        found = self._replicas()
        return 1 + (len(found.in_sync(self._end, self._clock.monotonic())) if found is not None else 0)

    @property
    def wanted(self) -> int:
        """See `CopyStates.wanted`."""
        found = self._replicas()
        return found.wanted if found is not None else 1

    @property
    def lack(self) -> str:
        """See `CopyStates.lack`."""
        return self._master.lack

    @property
    def sent_bytes(self) -> int:
        """See `CopyStates.sent_bytes`."""
        return self._master.replicas.sent_bytes if self._master.replicas is not None else 0

    @property
    def refused(self) -> int:
        """See `CopyStates.refused`."""
        return self._master.refusals.count if self._master.refusals is not None else 0

    @property
    def received_bytes(self) -> int:
        """See `CopyStates.received_bytes`."""
        return self._slave.received_bytes

    @property
    def not_following(self) -> str | None:
        """See `CopyStates.not_following`."""
        return None if self._broker.role.current is Role.MASTER or self._slave.following else self._slave.problem

    @property
    def _end(self) -> int:
        return self._broker.store.state().max_log_offset


def replication_metrics(copies: CopyStates, tables: TablesService) -> list[Callable[[], MetricFamily]]:
    """Return the callbacks to register."""

    def slaves() -> MetricFamily:
        return one("gantrymq_replication_slaves", "Slaves that copy this master.", len(copies.slaves()))

    def in_sync() -> MetricFamily:
        text = "Copies of the log that are in sync, the master's included; 1 on a slave."
        return one("gantrymq_replication_in_sync_copies", text, copies.in_sync)

    def wanted() -> MetricFamily:
        text = "Copies in sync that inSyncReplicas of a SYNC_MASTER and minInSyncReplicas ask for; 1 on a slave."
        return one("gantrymq_replication_wanted_copies", text, copies.wanted, why=copies.lack)

    def lag_bytes() -> MetricFamily:
        values: dict[tuple[str, ...], float] = {(each.address,): each.lag_bytes for each in copies.slaves()}
        text = "Bytes of the log that a slave has not acknowledged."
        return MetricFamily("gantrymq_replication_lag_bytes", text, ("slave",), values)

    def lag_seconds() -> MetricFamily:
        values: dict[tuple[str, ...], float] = {(each.address,): each.late_s for each in copies.slaves()}
        text = "Time since a slave had everything, or since it connected; 0 if it has everything."
        return MetricFamily("gantrymq_replication_lag_seconds", text, ("slave",), values)

    def sent() -> MetricFamily:
        text = "Bytes of the log sent to slaves since the start."
        return one("gantrymq_replication_sent_bytes_total", text, copies.sent_bytes, counter=True)

    def refused() -> MetricFamily:
        text = "Connections to the HA port refused since the start: logs that do not fit, wrong secrets, strangers."
        return one("gantrymq_replication_refused_total", text, copies.refused, counter=True)

    def received() -> MetricFamily:
        text = "Bytes received from masters since the start."
        return one("gantrymq_replication_received_bytes_total", text, copies.received_bytes, counter=True)

    def not_following() -> MetricFamily:
        problem = copies.not_following
        why = "" if problem is None else f"this copy does not follow: {problem}"
        text = "1 for a slave that does not copy its master's log."
        return one("gantrymq_replication_not_following", text, problem is not None, why=why)

    def tables_not_copied() -> MetricFamily:
        why = f"topics, groups and offsets of the master are not copied: {tables.missing}" if tables.missing else ""
        text = "1 for a slave that copies its master's log, but not its topics, groups and offsets."
        return one("gantrymq_replication_tables_not_copied", text, bool(why), why=why)

    return [
        *(slaves, in_sync, wanted, lag_bytes, lag_seconds, sent, refused, received),
        *(not_following, tables_not_copied),
    ]


def one(name: str, text: str, value: float, *, counter: bool = False, why: str = "") -> MetricFamily:
    """Return a metric without labels, with the sentence *why*."""
    return MetricFamily(name, text, (), {(): value}, counter=counter, sentences={(): why} if why else {})
