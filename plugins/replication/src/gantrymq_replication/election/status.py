"""What a broker with elected roles tells of itself in its answers to 907 and 1007.

GantryMQ's own members of 907, which RocketMQ's tools ignore:

    election.engine           what elects: controller or etcd
    election.ownId, epoch     this broker's id in the set, and the newest epoch that it knows
    election.master           the id of the master; null if there is none
    election.knownSince       wall time in ms since which this broker knows this epoch and this master
    election.masterAddr       of the master, for clients; empty if it is not known
    election.syncStateSet     as this broker knows it
    election.syncStateSetEpoch
    election.away             of a master: slaves that are not connected, and since when (brokerId, timestamp in ms)
    election.confirmed        log offset up to which the whole set has the log
    election.problem          why this broker accepts no messages; empty if it does
    election.dataLost         that the engine has lost its data; empty if it has not
    election.apart            why this broker takes no part in the election; empty if it does
    election.unelectable      why it must not be the master; empty if it may
    election.fencing, minInSyncReplicas, leaseMillis, learner   its settings
    haConnectionInfo[].brokerId, learner, lateMillis   of a master's slaves

Source: apache/rocketmq remoting/.../protocol/EpochEntryCache.java.
"""

from __future__ import annotations

from typing import Any

from gantrymq_replication.election.epochs import NO_END
from gantrymq_replication.election.machine import Standing
from gantrymq_replication.election.service import ElectionService

__all__ = ["connections", "election_state", "epoch_cache"]


def epoch_cache(election: ElectionService) -> dict[str, Any]:
    """Return RocketMQ's EpochEntryCache, whose last epoch has no end."""
    registration, entries = election.registration, election.log.epochs.entries
    ends = [*(each.start for each in entries[1:]), NO_END][: len(entries)]  # an empty log has no epochs
    return {
        "brokerId": registration.broker_id,
        "brokerName": registration.broker_name,
        "clusterName": registration.cluster,
        "epochList": [
            {"endOffset": end, "epoch": each.epoch, "startOffset": each.start}
            for each, end in zip(entries, ends, strict=True)
        ],
        "maxOffset": election.log.end,
    }


def connections(election: ElectionService) -> list[dict[str, Any]]:
    """Return the slaves of a master, as HARuntimeInfo has them."""
    machine, end, now = election.machine, election.log.end, election.now
    followers = machine.set.followers if machine is not None and machine.set is not None else {}

    def late_ms(broker_id: int) -> int | None:
        follower = followers.get(broker_id)
        return None if follower is None else round(1000 * follower.late_s(end, now))

    members = machine.set.members if machine is not None and machine.set is not None else frozenset[int]()
    found = [(each, each.slave) for each in election.slaves]
    return [
        {
            "addr": each.address,
            "brokerId": slave.broker_id,
            "diff": end - each.side.acked,
            "inSync": slave.broker_id in members,
            "lateMillis": late_ms(slave.broker_id),
            "learner": slave.learner,
            "slaveAckOffset": each.side.acked,
            "transferFromWhere": each.side.next_offset,
            "transferredByteInSecond": each.traffic.per_second(now),
        }
        for each, slave in found
        if slave is not None
    ]


def election_state(election: ElectionService) -> dict[str, Any]:
    """Return GantryMQ's own members; before this broker has an id in its set, it knows no master."""
    machine, running, rules = election.machine, election.election, election.rules
    standing = Standing(None, 0, frozenset(), 0) if machine is None else machine.standing
    held = None if machine is None else machine.set
    away = election.away.since_ms if machine is not None and machine.is_master else {}
    own_id = 0 if machine is None or running is None else running.own_id
    apart = "" if running is None else running.problem
    own = machine is not None and machine.own
    return {
        "engine": rules.engine,
        "fencing": rules.fencing.value,
        "minInSyncReplicas": rules.least_copies,
        "leaseMillis": 0 if election.engine is None else round(1000 * election.engine.lease_s),
        "learner": rules.learner,
        "apart": apart,
        "knownSince": 0 if running is None else running.known_since_ms,
        "ownId": own_id,
        "epoch": 0 if machine is None else machine.epoch,
        "master": None if machine is None else machine.master,
        "masterAddr": election.registration.address if own else standing.address,
        "syncStateSet": sorted(standing.members if held is None else held.members),
        "syncStateSetEpoch": standing.set_epoch if held is None else held.set_epoch,
        "away": [{"brokerId": broker_id, "timestamp": at_ms} for broker_id, at_ms in away.items()],
        "confirmed": 0 if machine is None else election.confirmed,
        "dataLost": "" if machine is None else machine.data_lost,
        "problem": apart if machine is None else machine.problem(election.now),
        "unelectable": "" if machine is None else machine.unelectable,
    }
