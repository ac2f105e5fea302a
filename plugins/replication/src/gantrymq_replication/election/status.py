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
    election.apart            why this broker takes no part in the election; empty if it does
    election.unelectable      why it must not be the master; empty if it may
    election.fencing, minInSyncReplicas, leaseMillis, learner   its settings
    haConnectionInfo[].brokerId, learner, lateMillis   of a master's slaves

Source: apache/rocketmq remoting/.../protocol/EpochEntryCache.java.
"""

from __future__ import annotations

from typing import Any

from gantrymq_replication.election.epochs import NO_END
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
    """Return GantryMQ's own members."""
    machine, running, rules = election.machine, election.election, election.rules
    found: dict[str, Any] = {
        "engine": rules.engine,
        "fencing": rules.fencing.value,
        "minInSyncReplicas": rules.least_copies,
        "leaseMillis": 0 if election.engine is None else round(1000 * election.engine.lease_s),
        "learner": rules.learner,
        "apart": "" if running is None else running.problem,
        "knownSince": 0 if running is None else running.known_since_ms,
    }
    if machine is None or running is None:
        return {
            **found,
            "ownId": 0,
            "epoch": 0,
            "master": None,
            "masterAddr": "",
            "syncStateSet": [],
            "syncStateSetEpoch": 0,
            "away": [],
            "confirmed": 0,
            "problem": found["apart"],
            "unelectable": "",
        }
    members = machine.set.members if machine.set is not None else machine.standing.members
    own = machine.master == running.own_id
    return {
        **found,
        "ownId": running.own_id,
        "epoch": machine.epoch,
        "master": machine.master,
        "masterAddr": election.registration.address if own else machine.standing.address,
        "syncStateSet": sorted(members),
        "syncStateSetEpoch": machine.set.set_epoch if machine.set is not None else machine.standing.set_epoch,
        "away": [
            {"brokerId": broker_id, "timestamp": at_ms}
            for broker_id, at_ms in (election.away.since_ms.items() if machine.is_master else ())
        ],
        "confirmed": election.confirmed,
        "problem": machine.problem(election.now),
        "unelectable": machine.unelectable,
    }
