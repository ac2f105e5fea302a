"""Stores written by a Java broker, damaged place by place: only the damaged place is lost, nothing after it.

docs/recovery.md describes the result of each kind of damage; the names here are its rows.
"""

import shutil

import pytest
from mmap_stores import contents, read_queue, with_open_store

from gantrymq.errors import StoreDamaged
from gantrymq_store_files.check import LogContent
from gantrymq_store_files.checkpoint import CHECKPOINT_BYTES, Checkpoint, decode_checkpoint, encode_checkpoint
from gantrymq_store_files.filler import is_filler

STORE = "normal"  # two log files, a clean stop
MANY = "crash/recovered"  # five log files, a clean stop


def damage(scenario, place, data):
    """Write *data* over byte *place* of the log."""
    size = scenario.size("mappedFileSizeCommitLog")
    path = scenario.store / "commitlog" / f"{place - place % size:020d}"
    with path.open("r+b") as file:
        file.seek(place % size)
        file.write(data)


def crashed(scenario):
    """The records as read from the start of a store."""
    (scenario.store / "abort").write_text("1")
    (scenario.store / "checkpoint").write_bytes(bytes(CHECKPOINT_BYTES))


async def everything(store, report):
    queues = sorted(store.queues())
    return report, {queue: [bytes(r.raw) for r in await read_queue(store, queue)] for queue in queues}


def sound(scenario):
    """Every record of the log as it is now, without fillers, by place."""
    return {r.log_offset: bytes(r.raw) for r in scenario.log_records() if not is_filler(r)}


def flatten(queues):
    return sorted(raw for records in queues.values() for raw in records)


@pytest.mark.parametrize("at", [2, 5, 9, 29, 86, 89], ids=["size", "magic", "crc", "place", "body length", "body"])
def test_one_flipped_bit_in_the_middle_costs_one_message(golden, golden_copy, at):
    scenario = golden_copy(STORE)
    before = sound(golden(STORE))
    places = sorted(before)
    for victim in (places[0], places[len(places) // 2]):
        damage(scenario, victim + at, bytes([before[victim][at] ^ 0x20]))
        del before[victim]
    crashed(scenario)
    report, queues = with_open_store(scenario, everything)
    assert (report.log_end, len(report.kept)) == (places[-1] + len(sound(golden(STORE))[places[-1]]), 2)
    assert sum("damaged and given up" in note for note in report.notes) == 2
    assert sound(scenario) == before
    assert flatten(queues) == sorted(before.values())
    again, queues_again = with_open_store(scenario, everything)
    assert (again.clean, again.cut_bytes, again.entries_rebuilt, again.notes) == (True, 0, 0, ())
    assert queues_again == queues


@pytest.mark.parametrize("page", [512, 4096])
def test_a_zeroed_page_in_the_middle_costs_the_records_on_it(golden, golden_copy, page):
    scenario = golden_copy(STORE)
    before = sound(golden(STORE))
    places = sorted(before)
    start = places[len(places) // 2] // page * page
    damage(scenario, start, bytes(page))
    crashed(scenario)
    report, queues = with_open_store(scenario, everything)
    left = {p: raw for p, raw in before.items() if not (p < start + page and start < p + len(raw))}
    assert len(before) - len(left) > 0
    assert report.log_end == places[-1] + len(before[places[-1]])
    assert sound(scenario) == left
    assert flatten(queues) == sorted(left.values())


def test_a_damaged_blank_costs_nothing(golden, golden_copy):
    scenario = golden_copy(STORE)
    blank = next(p for p in golden(STORE).log() if p.check.found is LogContent.BLANK)
    damage(scenario, int(blank.file) + blank.position + 2, b"\xff\xff\xff")
    crashed(scenario)
    report, queues = with_open_store(scenario, everything)
    assert contents(scenario.store / "commitlog") == contents(golden(STORE).store / "commitlog")
    assert flatten(queues) == sorted(sound(golden(STORE)).values())
    assert "damaged and given up" in report.notes[0]


def test_a_missing_middle_file_refuses_the_start_and_zeros_in_its_place_are_stepped_over(golden, golden_copy):
    scenario = golden_copy(MANY)
    before = sound(golden(MANY))
    missing = scenario.log_files()[1]
    size = missing.stat().st_size
    missing.unlink()
    files = contents(scenario.store)
    with pytest.raises(StoreDamaged, match=f"truncate -s {size} {missing}") as caught:
        with_open_store(scenario, everything)
    assert f"{missing.name} is missing between" in str(caught.value)
    assert contents(scenario.store) == files | {"lock": b"lock"}
    missing.write_bytes(bytes(size))
    report, queues = with_open_store(scenario, everything)
    start = int(missing.name)
    left = {p: raw for p, raw in before.items() if not start <= p < start + size}
    assert flatten(queues) == sorted(left.values())
    assert report.log_end == max(before) + len(before[max(before)])


@pytest.mark.parametrize("crash", [False, True], ids=["clean", "crashed"])
@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "has 0 bytes where 4096 belong"),
        (b"\x7f" * 39, "has 39 bytes where 4096 belong"),
        (bytes(CHECKPOINT_BYTES), None),
        (encode_checkpoint(Checkpoint(2**62, 2**62)), "it is ignored and rewritten"),
        (None, None),
    ],
    ids=["empty", "truncated", "zero", "future", "missing"],
)
def test_a_wrong_checkpoint_loses_nothing_and_is_written_anew(golden, golden_copy, data, told, crash):
    scenario = golden_copy(STORE)
    path = scenario.store / "checkpoint"
    path.unlink()
    if data is not None:
        path.write_bytes(data)
    if crash:
        (scenario.store / "abort").write_text("1")
    report, queues = with_open_store(scenario, everything)
    assert flatten(queues) == sorted(sound(golden(STORE)).values())
    assert [told in note for note in report.notes] == [True] if told else report.notes == ()
    newest = golden(STORE).log_records()[-1].store_timestamp
    assert decode_checkpoint(path.read_bytes())[:2] == (newest, newest)


@pytest.mark.parametrize("crash", [False, True], ids=["clean", "crashed"])
def test_one_missing_queue_is_rebuilt_byte_for_byte_once_the_store_was_ours(golden, golden_copy, crash):
    scenario = golden_copy(STORE)
    with_open_store(scenario, everything)  # leaves the saved end of each queue
    before = contents(scenario.store / "consumequeue")
    quiet = sorted(scenario.queue_files())[0]
    shutil.rmtree(scenario.store / "consumequeue" / quiet.topic / str(quiet.queue_id))
    if crash:
        (scenario.store / "abort").write_text("1")
    report, _ = with_open_store(scenario, everything)
    assert f"({quiet.topic}/{quiet.queue_id})" in report.notes[0]
    assert contents(scenario.store / "consumequeue") == before
