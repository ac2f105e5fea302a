"""`gantrymq store` on stores written by Java: sound stores are reported as sound, and rebuilt files equal Java's."""

import json

import pytest
from golden_stores import SCENARIOS
from mmap_stores import contents, read_queue, with_open_store

from gantrymq.world.real import RealFiles
from gantrymq_store_files.filler import FILLER_TOPIC
from gantrymq_store_files.queue_entry import ENTRY, PRE_BLANK
from gantrymq_store_tools.check import check_store
from gantrymq_store_tools.rebuild_store import rebuild_index, rebuild_queues
from gantrymq_store_tools.repair import repair_store

INTACT = [name for name in SCENARIOS if name != "crash/torn"]
CLEANED = "cleaned/cleaned"  # queues and index contain records that have left the log
REPEATED = "crash/recovered"  # dispatch repeated index entries of one record after the crash


def check(store):
    return check_store(RealFiles(), store)


@pytest.mark.parametrize("name", INTACT)
def test_what_java_left_intact_is_sound(golden, name):
    scenario = golden(name)
    before = contents(scenario.store)
    report = check(scenario.store)
    assert [finding for finding in report.findings if finding.damage] == []
    assert report.records == len([line for line in scenario.records if line["kind"] == "record"])
    assert report.index_entries > 0
    assert contents(scenario.store) == before


def test_each_line_of_the_damage_is_found(golden):
    scenario = golden("crash/torn")
    report = check(scenario.store)
    found = {
        (each.kind, each.path, each.place, each.extent) for each in report.findings if each.damage or each.recovery
    }
    assert not report.damaged  # its broker was killed, and the next start repairs all of it
    said = json.loads((scenario.folder / "damage.json").read_text())
    for line in said:
        words = line.replace(":", " ").split()
        if line.startswith("commitlog/"):  # <file>: record at <place> (size <n>) zeroed from its byte <m> on
            place, size = int(words[3]), int(words[5].rstrip(")"))
            assert ("log.torn", words[0], place, size) in found
        elif line.startswith("consumequeue/"):  # <file>: <n> units, <m> kept
            queue, kept = words[0].rpartition("/")[0], int(words[3])
            assert any(each[:3] == ("queue.missing", queue, kept) for each in found), line
        elif line.startswith("index/"):
            ((place, count),) = [each[2:] for each in found if each[0] == "index.missing"]
            assert (place, count) == (196608, 203)  # after the content of the previous file
        else:
            assert line == "checkpoint zeroed"
            assert ("checkpoint.empty", "checkpoint", 0, 40) in found
    assert len(found) == len(said) == 7


@pytest.mark.parametrize("name", SCENARIOS)
def test_rebuilt_queues_are_java_s_byte_for_byte(golden, tmp_path, name):
    scenario = golden(name)
    rebuild_queues(RealFiles(), scenario.store, tmp_path)
    made, theirs = contents(tmp_path / "consumequeue"), contents(scenario.store / "consumequeue")
    assert contents(tmp_path / "batchconsumequeue") == contents(scenario.store / "batchconsumequeue")
    assert made.keys() == theirs.keys()
    if name == "crash/torn":
        assert entries(made).items() >= entries(theirs).items()
        killed = entries(contents(golden("crash/killed").store / "consumequeue"))
        assert len(killed.items() - entries(made).items()) == 1
        assert entries(made).items() <= killed.items()
    elif name == CLEANED:
        start = int(scenario.log_files()[0].name)
        in_log = {key: raw for key, raw in entries(theirs).items() if ENTRY.unpack(raw)[0] >= start}
        assert entries(made) == in_log
    else:
        assert made == theirs


def entries(files):
    """File and place to packed entry, empty and pre-blank ones left out."""
    found = {}
    for name, data in files.items():
        for at in range(0, len(data), 20):
            raw = data[at : at + 20]
            if any(raw) and raw != PRE_BLANK:
                found[str(name), at] = raw
    return found


@pytest.mark.parametrize("name", [name for name in SCENARIOS if name != CLEANED])
def test_a_rebuilt_index_is_java_s_byte_for_byte(golden, tmp_path, name):
    scenario = golden(name)
    rebuild_index(RealFiles(), scenario.store, tmp_path, lambda time_ms: 0)
    made = [path.read_bytes() for path in sorted((tmp_path / "index").iterdir())]
    theirs = [path.read_bytes() for path in sorted((scenario.store / "index").iterdir())]
    if name == REPEATED:
        assert made[0] == theirs[0]
        assert len(made) == len(theirs)
    else:
        assert made[: len(theirs)] == theirs
        assert len(made) - len(theirs) == (name == "crash/torn")


async def everything(store, report):
    """The report, and every record by its place in the log."""
    found = {}
    for queue in store.queues():
        for record in await read_queue(store, queue):
            found[record.log_offset] = bytes(record.raw)
    return report, found


def spoil(scenario, place):
    """Flip a bit in the body of the record at log offset *place*."""
    path = next(path for path in reversed(scenario.log_files()) if int(path.name) <= place)
    data = bytearray(path.read_bytes())
    data[place - int(path.name) + 90] ^= 4
    path.write_bytes(data)


@pytest.mark.parametrize("name", ["normal", "crash/killed", "v497"])
def test_our_broker_s_store_opens_a_repaired_copy_and_has_every_other_message(golden_copy, name):
    scenario = golden_copy(name)
    records = {record.log_offset: bytes(record.raw) for record in scenario.log_records()}
    lost = {sorted(records)[number] for number in (3, 50, 51, 120)}
    for place in lost:
        spoil(scenario, place)
    copy = golden_copy(name)
    report = repair_store(RealFiles(), scenario.store, copy.folder / "copy", 1, lambda time_ms: 0)
    assert not report.damaged
    copy.store = copy.folder / "copy"
    opened, found = with_open_store(copy, everything)
    assert opened.clean
    assert opened.cut_bytes == 0
    assert found == {place: raw for place, raw in records.items() if place not in lost}
    assert FILLER_TOPIC not in {path.name for path in (copy.store / "consumequeue").iterdir()}


def test_a_repaired_torn_store_has_what_java_s_recovery_found(golden, golden_copy, tmp_path):
    scenario = golden_copy("crash/torn")
    report = repair_store(RealFiles(), scenario.store, scenario.folder / "copy", 1, lambda time_ms: 0)
    assert not report.damaged
    scenario.store = scenario.folder / "copy"
    opened, found = with_open_store(scenario, everything)
    assert opened.clean
    java = {record.log_offset: bytes(record.raw) for record in golden("crash/torn-recovered").log_records()}
    assert found == {place: raw for place, raw in java.items() if place < opened.log_end}
