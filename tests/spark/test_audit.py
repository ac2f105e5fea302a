"""Findings of an audit: exactly the planted faults, and on Java's stores what Java's client saw."""

import sys
from pathlib import Path

import pyarrow as pa
import pytest
from golden_stores import SCENARIOS

sys.path.append(str(Path(__file__).parents[1] / "store_tools"))

from planted_store import Planted
from small_store import START_MS

from gantrymq.world.real import RealFiles
from gantrymq_spark.batches import RowOptions
from gantrymq_spark.columns import schema
from gantrymq_spark.jobs.audit_findings import crc_findings, dead_letters, duplicate_keys, key_places
from gantrymq_spark.jobs.audit_lag import lag_finding, lags
from gantrymq_spark.jobs.audit_pending import delay_findings, transaction_findings
from gantrymq_spark.jobs.audit_queues import queue_findings, queue_runs
from gantrymq_spark.log_scan import LogScan
from gantrymq_spark.store_options import plan

HOUR_MS = 3_600_000


def scanned(root, *, check_crc=True, split_bytes=1 << 26):
    """Batches and damages of a store."""
    batches, damages = [], []
    for part in plan(RealFiles(), root, split_bytes):
        found = LogScan(RealFiles(), part, check_crc=check_crc)
        batches += found.batches(RowOptions(stored_bodies=True))
        damages += found.damages
    return batches, damages


def audited(root, now_ms, *, check_crc=True, split_bytes=1 << 26):
    """All findings of a store, read in ranges."""
    batches, damages = scanned(root, check_crc=check_crc, split_bytes=split_bytes)
    table = pa.Table.from_batches(batches, schema=schema())
    return [
        *queue_findings([queue_runs(batch) for batch in reversed(batches)], damages),
        *duplicate_keys([key_places(batch) for batch in reversed(batches)]),
        *(finding for batch in batches for finding in crc_findings(batch)),
        *transaction_findings(table, now_ms),
        *delay_findings(table, now_ms),
        *dead_letters(table),
    ]


def findings_of(planted, **more):
    """Check and topic of each finding, wherever ranges are cut."""
    planted.store.write()
    now_ms = more.pop("now_ms", planted.store.last_ms + HOUR_MS)
    found = audited(planted.store.root, now_ms, **more)
    for split_bytes in () if "check_crc" in more else (700, 5000):
        again = audited(planted.store.root, now_ms, split_bytes=split_bytes, **more)
        assert {(each.check, each.topic, each.queue_offset, each.count) for each in again} == {
            (each.check, each.topic, each.queue_offset, each.count) for each in found
        }
    assert all(each.text for each in found)
    return sorted((each.check, each.topic, each.queue_offset, each.count) for each in found if each.fault)


@pytest.fixture
def planted(tmp_path):
    made = Planted(tmp_path / "store")
    made.sound()
    return made


def test_a_sound_store_has_no_findings(planted):
    planted.orders()
    assert findings_of(planted) == []


def test_fault_1_queue_offsets_without_a_record(planted):
    offset = planted.store.next["Bills", 1]
    planted.add("Bills", 1, queue_offset=offset + 3)
    planted.orders()
    assert findings_of(planted) == [("queue.gap", "Bills", offset, 3)]


def test_fault_2_queue_offsets_that_are_there_twice(planted):
    offset = planted.store.next["Bills", 1]
    planted.add("Bills", 1, queue_offset=offset - 2)
    planted.store.next["Bills", 1] = offset
    planted.orders()
    assert findings_of(planted) == [("queue.duplicate", "Bills", offset - 2, 1)]


def test_fault_3_a_record_behind_later_ones_of_its_queue(planted):
    offset = planted.store.next["Bills", 1]
    for place in (offset + 1, offset):
        planted.add("Bills", 1, queue_offset=place)
    planted.store.next["Bills", 1] = offset + 2
    planted.orders()
    assert findings_of(planted) == [("queue.order", "Bills", offset, 1)]


def test_fault_4_a_store_time_that_goes_back(planted):
    offset = planted.store.next["Orders", 0]
    planted.add(store_timestamp=START_MS)
    planted.orders()
    assert findings_of(planted) == [("queue.time", "Orders", offset, 1)]


def test_fault_5_a_unique_key_at_two_places(planted):
    offset = planted.store.next["Orders", 0]
    planted.add(key="U0003")
    planted.orders()
    assert findings_of(planted) == [("key.duplicate", "Orders", offset, 1)]


def test_fault_6_a_body_that_is_not_what_its_crc_says(planted):
    offset = planted.store.next["Orders", 0]
    place = planted.add(body=b"as it was sent")
    planted.orders()
    planted.store.write()
    planted.store.spoil_log(place + 90, b"?")
    planted.store.write = lambda: None
    assert findings_of(planted, check_crc=False) == [("body.crc", "Orders", offset, 1)]


def test_fault_7_damage_of_the_log_is_one_finding_with_the_offsets_it_cost(planted):
    offset = planted.store.next["Orders", 0]
    place = planted.add(body=b"as it was sent")
    planted.orders()
    planted.store.write()
    planted.store.spoil_log(place + 90, b"?")
    planted.store.write = lambda: None
    assert findings_of(planted) == [("log.damaged", "", -1, 1)]
    (finding,) = audited(planted.store.root, planted.store.last_ms)
    assert finding.log_offset == place
    assert f"it cost queue offset {offset} of queue Orders/0" in finding.text


def test_damage_counts_the_queue_offsets_that_it_cost(planted):
    offset = planted.store.next["Orders", 0]
    place = planted.add(body=b"first")
    planted.add(body=b"second")
    bill = planted.store.next["Bills", 1]
    planted.add("Bills", 1)
    planted.orders()
    end = planted.store.records[-10][0]
    planted.store.write()
    planted.store.spoil_log(place, bytes(end - place))
    planted.store.write = lambda: None
    assert findings_of(planted) == [("log.damaged", "", -1, 3)]
    (finding,) = audited(planted.store.root, planted.store.last_ms)
    cost = f"{bill} of queue Bills/1, {offset} to {offset + 1} of queue Orders/0"
    assert finding.text.endswith(f"; it cost queue offsets {cost}")


def test_fault_8_a_transaction_that_nobody_has_ended(planted):
    _, offset = planted.half("T9")
    planted.orders()
    assert findings_of(planted) == [("transaction.open", "RMQ_SYS_TRANS_HALF_TOPIC", offset, 1)]


def test_a_transaction_is_open_once_however_often_it_was_checked_and_not_while_it_is_young(planted):
    planted.half("T9")
    _, offset = planted.half("T9")
    found = findings_of(planted)
    assert found == [("transaction.open", "RMQ_SYS_TRANS_HALF_TOPIC", offset, 1)]
    assert audited(planted.store.root, planted.store.last_ms) == []


def test_fault_9_a_committed_message_without_its_half_message(planted):
    offset = planted.store.next["Orders", 0]
    planted.commit("T8", 5)
    planted.orders()
    assert findings_of(planted) == [("transaction.orphan", "Orders", offset, 1)]


def test_fault_10_a_delayed_message_that_came_late(planted):
    due_ms = planted.delayed("D9") + 1000
    planted.orders()
    offset = planted.store.next["Orders", 0]
    planted.delivered("D9", due_ms, late_ms=HOUR_MS)
    assert findings_of(planted) == [("delay.late", "Orders", offset, 1)]


def test_fault_11_a_delayed_message_that_has_not_come(planted):
    planted.delayed("D9", level=2)
    assert findings_of(planted) == [("delay.lost", "SCHEDULE_TOPIC_XXXX", 0, 1)]
    assert audited(planted.store.root, planted.store.last_ms) == []  # it is not due yet


def test_fault_12_dead_letters(planted):
    for key in ("U0001", "U0003"):
        planted.add("%DLQ%group", key=key)
    assert findings_of(planted) == [("dead_letter", "%DLQ%group", 0, 2)]


def test_fault_13_a_group_that_is_too_far_behind():
    offsets = {
        "Orders@slow": {0: 10, 1: 5},
        "Orders@quick": {0: 99, 1: 9},
        "Orders@each@broadcast": {0: 0},
        "Orders@CID_RMQ_SYS_TRANS": {0: 0},
        "Gone@slow": {0: 1},
    }
    known = lags(offsets, {("Orders", 0): 100, ("Orders", 1): 5}, "a")
    assert [(lag.group, lag.queue_id, lag.behind) for lag in known] == [
        *(("quick", 0, 1), ("quick", 1, 0), ("slow", 0, 90), ("slow", 1, 0)),
    ]
    found = [each for lag in known if (each := lag_finding(lag, 50)) is not None]
    assert [(each.check, each.queue_id, each.queue_offset, each.count) for each in found] == [("lag", 0, 10, 90)]
    assert found[0].text == "group slow is 90 messages behind in Orders/0; 50 are allowed"


def test_several_faults_are_each_found_once(planted):
    offset = planted.store.next["Bills", 1]
    planted.add("Bills", 1, queue_offset=offset + 3)
    planted.add("Bills", 1, queue_offset=offset + 1)
    planted.store.next["Bills", 1] = offset + 4
    planted.half("T9")
    planted.add(key="U0003")
    assert [each[0] for each in findings_of(planted)] == [
        *("key.duplicate", "queue.gap", "queue.gap", "queue.order", "transaction.open"),
    ]


def test_a_topic_that_was_made_anew_is_no_fault(planted):
    planted.store.next["Bills", 1] = 0
    planted.orders()
    assert findings_of(planted) == []
    found = audited(planted.store.root, planted.store.last_ms)
    assert [(each.check, each.queue_offset, each.fault) for each in found] == [("queue.restart", 0, False)]


def test_messages_of_an_archive_in_any_order_make_the_same_runs(planted):
    planted.add("Bills", 1, queue_offset=99)
    planted.store.write()
    batches, _ = scanned(planted.store.root)
    table = pa.Table.from_batches(batches)
    shuffled = table.take(pa.array([(number * 37) % table.num_rows for number in range(table.num_rows)]))
    assert len({*shuffled["commitLogOffset"].to_pylist()}) == table.num_rows
    pieces = [shuffled.slice(at, 7) for at in range(0, table.num_rows, 7)]
    found = queue_findings([queue_runs(piece) for piece in pieces])
    assert [each for each in found if each.check != "queue.order"] == queue_findings(queue_runs(table))
    assert queue_runs(shuffled).sort_by("firstLog") == queue_runs(table).sort_by("firstLog")


# What an audit says of Java's stores is what happened there.
TOLD = {
    "crash/recovered": {"delay.late"},  # messages were due while the broker was down
    "crash/torn-recovered": {"delay.late"},
    "mqadmin": {"key.duplicate"},  # checkMsgSendRT sends one message to several queues
    "retry": {"dead_letter"},
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_java_s_stores(golden, name):
    batches, _ = scanned(golden(name).store)
    newest = max(time.timestamp() for batch in batches for time in batch["storeTimestamp"].to_pylist())
    found = audited(golden(name).store, int(newest * 1000))
    assert {each.check for each in found if each.fault} == TOLD.get(name, set())


def test_open_transactions_of_java_s_store_are_those_whose_producer_never_decided(golden):
    scenario = golden("transaction")
    batches, _ = scanned(scenario.store)
    found = transaction_findings(pa.Table.from_batches(batches), 1 << 50, oldest_ms=0)
    sent = {
        line["properties"]["UNIQ_KEY"]: line["properties"]["KEYS"]
        for line in scenario.messages
        if line["kind"] == "sent" and line["api"] == "transaction"
    }
    assert len(sent) == 21
    assert {each.check for each in found} == {"transaction.open"}
    assert sorted(name for key, name in sent.items() for each in found if key in each.text) == ["late19", "late20"]
    assert len(found) == 2
