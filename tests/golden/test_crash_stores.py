"""Our recovery of the crash stores, compared with Java's.

| Store | Java's recovery | ours | |---|---|---| | killed | every record kept; the preallocated file after the end is
deleted | the same, and the empty file stays | | torn | the torn record ends the log, its first half is overwritten |
the same end; the half is saved next to the store | | cleaned, queues removed | queues of the remaining log, their lower
part pre-blank | the same, byte for byte |

In all three, Java's broker then continued and stored due messages, so its logs and queues are longer than ours.
"""

import shutil

import pytest
from mmap_stores import contents, read_queue, with_open_store
from test_queues import rebuilt, stored

from gantrymq_store_files.checkpoint import decode_checkpoint
from gantrymq_store_files.queue_entry import ENTRY, PRE_BLANK

TORN_AT = 292663
TORN_BYTES_KEPT = 1054


async def everything(store, report):
    """The report, and every record by queue."""
    queues = sorted(store.queues())
    return report, {queue: await read_queue(store, queue) for queue in queues}


def queue_entries(scenario):
    """Queue to queue offset to packed entry, as the files hold them."""
    return {queue: stored(scenario, paths) for queue, paths in scenario.queue_files().items()}


def as_java_had_it(entries, log_end):
    """Java's entries of *entries* for records before *log_end*."""
    return {
        queue: kept
        for queue, found in entries.items()
        if (kept := {offset: raw for offset, raw in found.items() if ENTRY.unpack(raw)[0] < log_end})
    }


@pytest.mark.parametrize(
    ("left", "java", "log_end"), [("killed", "recovered", 294772), ("torn", "torn-recovered", TORN_AT)]
)
def test_a_crashed_store_has_the_messages_and_entries_that_java_found(golden, golden_copy, left, java, log_end):
    scenario = golden_copy(f"crash/{left}")
    report, queues = with_open_store(scenario, everything)
    assert not report.clean
    assert report.log_end == log_end
    recovered = golden(f"crash/{java}")
    java_records = {record.log_offset: bytes(record.raw) for record in recovered.log_records()}
    ours = {record.log_offset: bytes(record.raw) for record in scenario.log_records()}
    assert ours == {offset: raw for offset, raw in java_records.items() if offset < log_end}
    assert sum(len(records) for records in queues.values()) == len(ours)
    assert queue_entries(scenario) == rebuilt(scenario) == as_java_had_it(queue_entries(recovered), log_end)
    checkpoint = decode_checkpoint((scenario.store / "checkpoint").read_bytes())
    assert checkpoint.log_timestamp == checkpoint.queue_timestamp == scenario.log_records()[-1].store_timestamp
    again, queues_again = with_open_store(scenario, everything)
    assert again.clean
    assert (again.log_end, again.cut_bytes, again.entries_rebuilt) == (log_end, 0, 0)
    assert {queue: len(records) for queue, records in queues_again.items()} == {
        queue: len(records) for queue, records in queues.items()
    }


def test_a_killed_broker_loses_nothing(golden, golden_copy):
    scenario = golden_copy("crash/killed")
    before = contents(scenario.store / "commitlog"), contents(scenario.store / "consumequeue")
    report, _ = with_open_store(scenario, everything)
    assert (report.cut_bytes, report.kept) == (0, ())
    assert (contents(scenario.store / "commitlog"), contents(scenario.store / "consumequeue")) == before
    files = {path.name for path in golden("crash/recovered").log_files()}
    assert {path.name for path in scenario.log_files()} - files == {"00000000000000327680"}  # preallocated, empty


def test_the_torn_record_is_kept_beside_the_store(golden, golden_copy):
    torn, scenario = golden("crash/torn"), golden_copy("crash/torn")
    report, _ = with_open_store(scenario, everything)
    assert report.cut_bytes == TORN_BYTES_KEPT
    (kept,) = (data for path, data in contents(scenario.store / "recovered").items() if "/commitlog/" in path)
    name = "00000000000000262144"
    place = TORN_AT - int(name)
    data = (torn.store / "commitlog" / name).read_bytes()
    assert kept == data[place : place + TORN_BYTES_KEPT]
    assert not any(data[place + TORN_BYTES_KEPT :])
    cut = data[:place] + bytes(len(data) - place)
    assert contents(scenario.store / "commitlog") == contents(torn.store / "commitlog") | {name: cut}
    assert any(str(TORN_AT) in note for note in report.notes)


def test_queues_that_were_lost_are_rebuilt_from_what_is_left_of_the_log(golden, golden_copy):
    scenario = golden_copy("cleaned/cleaned")
    for part in ("consumequeue", "index"):
        shutil.rmtree(scenario.store / part)
    (scenario.store / "abort").write_text("1")
    report, _ = with_open_store(scenario, everything)
    java = golden("cleaned/rebuilt")
    assert report.entries_rebuilt == len(java.log_records()) == 19
    assert contents(scenario.store / "consumequeue") == contents(java.store / "consumequeue")
    assert any(PRE_BLANK in data for data in contents(scenario.store / "consumequeue").values())
