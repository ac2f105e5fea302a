"""The decisions of a master about its slaves, and those of a slave about its log."""

import pytest

from gantrymq.config import Settings
from gantrymq.interfaces import LogRange
from gantrymq_replication.gate import ReplicaGate
from gantrymq_replication.log_comparison import OVERLAP_BYTES, fixed_comparison, last_record_start
from gantrymq_replication.replicas import Replica, Replicas
from gantrymq_replication.settings import SCHEMA, HaSettings

SYNC = {"brokerRole": "SYNC_MASTER"}


def rules(**settings):
    return HaSettings.of(Settings(SCHEMA, settings))


def replicas(*acks, end=1000, now=0.0, **settings):
    """A master whose log ends at *end*, with slaves that acknowledged *acks* just now."""
    found = Replicas(rules(**settings))
    for number, acked in enumerate(acks):
        replica = Replica(f"10.0.0.{number}:1", acked, now)
        replica.acknowledge(acked, end, now)
        found.add(replica, end)
    return found


@pytest.mark.parametrize(
    ("acks", "copies", "confirmed"),
    [
        ((), 1, 1000),
        ((), 2, 0),
        ((700,), 2, 700),
        ((300, 900), 2, 900),
        ((300, 900), 3, 300),
        ((300, 900, 600), 3, 600),
        ((300, 900), 4, 0),
    ],
)
def test_enough_slaves_confirm(acks, copies, confirmed):
    assert replicas(*acks, **SYNC, inSyncReplicas=copies).confirmed(1000, 0.0) == confirmed


def test_all_in_sync_confirm_and_no_other():
    found = replicas(1000, 900, **SYNC, allAckInSyncStateSet=True, haMaxGapNotInSync=500)
    slow, quick = found.all
    assert found.confirmed(1000, 0.0) == 1000  # the second one never caught up
    quick.acknowledge(1000, 1000, 1.0)
    assert found.confirmed(1400, 1.0) == 1000
    slow.acknowledge(1300, 1400, 1.0)
    assert found.confirmed(1400, 1.0) == 1000
    assert found.confirmed(1600, 1.0) == 1300  # the second one is too far behind


def test_a_slave_that_lacks_what_others_confirmed_is_not_in_sync():
    found = replicas(1000, 900, **SYNC, inSyncReplicas=2, allAckInSyncStateSet=True)
    quick, slow = found.all
    quick.acknowledge(1200, 1200, 1.0)
    assert found.confirmed(1200, 1.0) == 1200  # acknowledged to senders, without the slow one
    slow.acknowledge(1000, 1200, 2.0)  # what the master had at 0
    assert found.in_sync(1200, 2.0) == [quick]
    slow.acknowledge(1200, 1300, 3.0)
    assert found.in_sync(1300, 3.0) == [quick, slow]


def test_a_slave_is_in_sync_after_a_truncation():
    found = replicas(1000, **SYNC, inSyncReplicas=2, allAckInSyncStateSet=True)
    assert found.confirmed(1000, 0.0) == 1000
    (old,) = found.all
    found.remove(old)
    again = Replica("10.0.0.0:2", 500, 1.0)  # connected again, after a truncation at 500
    found.add(again, 500)
    again.acknowledge(500, 500, 1.0)
    assert found.in_sync(500, 1.0) == [again]


def test_a_slave_is_in_sync_while_it_keeps_up():
    rule, replica = rules(haMaxTimeSlaveNotCatchup=15_000), Replica("10.0.0.1:1", 0, 0.0)
    replica.acknowledge(0, 1000, 0.0)
    assert not replica.in_sync(1000, 0.0, rule)  # it has never caught up
    replica.acknowledge(1000, 1500, 1.0)  # what the master had at 0
    assert replica.in_sync(1500, 14.9, rule) and not replica.in_sync(1500, 15.1, rule)
    replica.acknowledge(1500, 1500, 20.0)
    assert replica.in_sync(1500, 34.9, rule)
    assert not replica.in_sync(1500, 35.1, rule)  # it has everything, and is not heard of any more


def test_slaves_are_available_within_the_gap():
    found = replicas(1000, 400, **SYNC, inSyncReplicas=3, haSlaveFallbehindMax=500)
    assert found.available(899) and not found.available(900)


@pytest.mark.parametrize(
    ("settings", "waits"),
    [
        ({"inSyncReplicas": 2}, False),
        (SYNC, False),
        ({**SYNC, "inSyncReplicas": 2}, True),
        ({**SYNC, "allAckInSyncStateSet": True}, True),
    ],
)
def test_only_a_sync_master_waits(settings, waits):
    assert ReplicaGate().applies(Settings(SCHEMA, settings)) is waits


def test_a_shortage_counts_the_master():
    assert replicas(minInSyncReplicas=1).shortage(1000, 0.0) == ""
    assert replicas(1000, minInSyncReplicas=2).shortage(1000, 0.0) == ""
    assert "1 in sync, minInSyncReplicas=2" in replicas(minInSyncReplicas=2).shortage(1000, 0.0)


# --- the slave's own log --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("own", "durable", "start"),
    [
        (LogRange(0, 0), None, 0),
        (LogRange(0, 10), None, 1),
        (LogRange(0, OVERLAP_BYTES + 10), None, 10),
        (LogRange(65536, 65600), None, 65536),
        (LogRange(0, OVERLAP_BYTES + 10), 4, 4),
        (LogRange(0, OVERLAP_BYTES + 10), 100, 10),
        (LogRange(65536, 1 << 20), 10, (1 << 20) - OVERLAP_BYTES),
    ],
)
def test_where_the_comparison_begins(own, durable, start):
    overlap = fixed_comparison(own, durable)
    assert overlap.start == overlap.equal == start
    assert overlap.open is (own.max_offset > start)


def test_the_comparison_finds_the_first_difference():
    overlap = fixed_comparison(LogRange(0, 20), None)
    assert overlap.compare(b"abcdef", b"abcdef") and overlap.equal == 7
    assert not overlap.compare(b"ghij", b"gh!!") and overlap.equal == 9


def test_the_last_record_that_begins_at_or_before_a_place():
    log = b"".join(size.to_bytes(4, "big") + bytes(size - 4) for size in (10, 20, 8))
    found = [last_record_start(100, log[: place + 4], 100 + place) for place in range(38)]
    assert found == [100] * 10 + [110] * 20 + [130] * 8
