"""Metrics of replication, read when they are exported."""

from __future__ import annotations

from collections.abc import Callable

from gantrymq.interfaces import Broker, MetricFamily
from gantrymq.model.role import Role
from gantrymq_replication.master import MasterService
from gantrymq_replication.replicas import Replica, Replicas
from gantrymq_replication.slave import SlaveService
from gantrymq_replication.tables import TablesService

__all__ = ["replication_metrics"]


def replication_metrics(
    broker: Broker,
    replicas: Callable[[], Replicas | None],
    slave: SlaveService,
    master: MasterService,
    tables: TablesService,
) -> list[Callable[[], MetricFamily]]:
    """Return the callbacks to register. *replicas*: what a master knows of its slaves, None on a slave."""
    clock, store = broker.world.clock, broker.store

    def connected() -> list[Replica]:
        found = replicas()
        return [*found.all] if found is not None else []

    def slaves() -> MetricFamily:
        return _one("gantrymq_replication_slaves", "Slaves that copy this master.", len(connected()))

    def in_sync() -> MetricFamily:
        found = replicas()
        count = len(found.in_sync(store.state().max_log_offset, clock.monotonic())) if found is not None else 0
        text = "Copies of the log that are in sync, the master's included; 1 on a slave."
        return _one("gantrymq_replication_in_sync_copies", text, 1 + count)

    def wanted() -> MetricFamily:
        found = replicas()
        text = "Copies in sync that inSyncReplicas of a SYNC_MASTER and minInSyncReplicas ask for; 1 on a slave."
        why = master.lack
        return _one("gantrymq_replication_wanted_copies", text, found.wanted if found is not None else 1, why=why)

    def lag_bytes() -> MetricFamily:
        end = store.state().max_log_offset
        values: dict[tuple[str, ...], float] = {(each.address,): end - each.acked for each in connected()}
        text = "Bytes of the log that a slave has not acknowledged."
        return MetricFamily("gantrymq_replication_lag_bytes", text, ("slave",), values)

    def lag_seconds() -> MetricFamily:
        end, now = store.state().max_log_offset, clock.monotonic()
        values: dict[tuple[str, ...], float] = {(each.address,): each.late_s(end, now) for each in connected()}
        text = "Time since a slave had everything, or since it connected; 0 if it has everything."
        return MetricFamily("gantrymq_replication_lag_seconds", text, ("slave",), values)

    def sent() -> MetricFamily:
        text = "Bytes of the log sent to slaves since the start."
        count = master.replicas.sent_bytes if master.replicas is not None else 0
        return _one("gantrymq_replication_sent_bytes_total", text, count, counter=True)

    def refused() -> MetricFamily:
        text = "Connections to the HA port refused since the start: logs that do not fit, wrong secrets, strangers."
        count = master.replicas.refused if master.replicas is not None else 0
        return _one("gantrymq_replication_refused_total", text, count, counter=True)

    def received() -> MetricFamily:
        text = "Bytes received from masters since the start."
        return _one("gantrymq_replication_received_bytes_total", text, slave.received_bytes, counter=True)

    def not_following() -> MetricFamily:
        broken = broker.role.current is not Role.MASTER and not slave.following
        why = f"this copy does not follow: {slave.problem}" if broken else ""
        text = "1 for a slave that does not copy its master's log."
        return _one("gantrymq_replication_not_following", text, broken, why=why)

    def tables_not_copied() -> MetricFamily:
        why = f"topics, groups and offsets of the master are not copied: {tables.missing}" if tables.missing else ""
        text = "1 for a slave that copies its master's log, but not its topics, groups and offsets."
        return _one("gantrymq_replication_tables_not_copied", text, bool(why), why=why)

    return [
        *(slaves, in_sync, wanted, lag_bytes, lag_seconds, sent, refused, received),
        *(not_following, tables_not_copied),
    ]


def _one(name: str, text: str, value: int, *, counter: bool = False, why: str = "") -> MetricFamily:
    """Return a metric without labels, with the sentence *why*."""
    return MetricFamily(name, text, (), {(): int(value)}, counter=counter, sentences={(): why} if why else {})
