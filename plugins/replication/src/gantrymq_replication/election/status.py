"""What a broker with elected roles tells of itself in its answers to 907 and 1007.

GantryMQ's own members of 907, which RocketMQ's tools ignore:

    election.ownId, epoch     this broker's id in the set, and the newest epoch that it knows
    election.master           the id of the master; null if there is none
    election.syncStateSet     as this broker knows it
    election.confirmed        log offset up to which the whole set has the log
    election.problem          why this broker accepts no messages; empty if it does

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
    ends = [*(each.start for each in entries[1:]), NO_END]
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
    machine, end = election.machine, election.log.end
    members = machine.set.members if machine is not None and machine.set is not None else frozenset[int]()
    found = [(each, each.slave) for each in election.slaves]
    return [
        {
            "addr": each.address,
            "brokerId": slave.broker_id,
            "diff": end - each.side.acked,
            "inSync": slave.broker_id in members,
            "slaveAckOffset": each.side.acked,
            "transferFromWhere": each.side.next_offset,
            "transferredByteInSecond": 0,
        }
        for each, slave in found
        if slave is not None
    ]


def election_state(election: ElectionService) -> dict[str, Any]:
    """Return GantryMQ's own members."""
    machine = election.machine
    if machine is None or election.election is None:
        problem = "" if election.election is None else election.election.problem
        return {"ownId": 0, "epoch": 0, "master": None, "syncStateSet": [], "confirmed": 0, "problem": problem}
    members = machine.set.members if machine.set is not None else machine.standing.members
    return {
        "ownId": election.election.own_id,
        "epoch": machine.epoch,
        "master": machine.master,
        "syncStateSet": sorted(members),
        "confirmed": election.confirmed,
        "problem": machine.problem(election.now),
    }
