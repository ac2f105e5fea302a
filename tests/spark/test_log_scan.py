"""Whole store folders as rows, and their damage: against Java's reading of them, wherever the log is cut."""

import asyncio
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from golden_stores import SCENARIOS
from spark_columns import described, recorded

from gantrymq.world.real import RealFiles
from gantrymq.world.real.files import RealFile
from gantrymq_spark.batches import RowOptions
from gantrymq_spark.columns import schema
from gantrymq_spark.log_scan import LogScan
from gantrymq_spark.store_options import plan
from gantrymq_store_files.filler import fillers
from gantrymq_store_files.log_walk import LogDamage, scan
from gantrymq_store_tools.layout import find_layout
from gantrymq_store_tools.log_reader import LogReader


def read(root, split_bytes=1 << 26, **shown):
    """All rows, and all damage."""
    files, batches, damages = RealFiles(), [], []
    for part in plan(files, root, split_bytes):
        found = LogScan(files, part)
        batches += found.batches(RowOptions(**shown))
        damages += found.damages
    return pa.Table.from_batches(batches, schema=shown.get("schema", schema())), damages


@pytest.mark.parametrize("split_bytes", [1 << 26, 10_007])
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_store_is_what_java_reads(golden, name, split_bytes):
    scenario = golden(name)
    table, damages = read(scenario.store, split_bytes, stored_bodies=True)
    table.validate(full=True)
    said = recorded(scenario.records)
    if name == "crash/torn":  # Java's client decoder, which checks no CRC, takes what is torn for a record
        assert said.pop()["topic"] == ""
        assert [(each.kind, each.damage) for each in damages] == [("torn", False)]
    else:
        assert not damages
    size = scenario.size("mappedFileSizeCommitLog")
    assert [described(row, size) for row in table.to_pylist()] == said


def found_by_walking(root):
    """What the walk record by record says: log offsets of sound records, and damage."""
    reader = LogReader(RealFiles(), find_layout(RealFiles(), root).log)
    sound, damages = [], []
    for each in scan(reader):
        if isinstance(each, LogDamage):
            damages.append((each.kind, each.log_offset, each.size))
        else:
            sound.append(each.log_offset)
    reader.close()
    return sound, damages


def overwrite(scenario, log_offset, data):
    """Put *data* into the log."""
    size = scenario.size("mappedFileSizeCommitLog")
    path = scenario.store / "commitlog" / f"{log_offset // size * size:020}"
    with path.open("r+b") as file:
        file.seek(log_offset % size)
        file.write(data)


def spoil_body(scenario, record):
    overwrite(scenario, record.log_offset + 88, bytes([record.body[0] ^ 1]))


def spoil_log_offset(scenario, record):
    overwrite(scenario, record.log_offset + 28, b"\1")


def spoil_magic(scenario, record):
    overwrite(scenario, record.log_offset + 4, b"\0")


def spoil_size(scenario, record):
    overwrite(scenario, record.log_offset, (record.total_size + 1).to_bytes(4, "big"))


def spoil_body_length(scenario, record):
    overwrite(scenario, record.log_offset + 84, b"\x7f")


def spoil_topic_length(scenario, record):
    overwrite(scenario, record.log_offset + 88 + len(record.body), b"\0")


def spoil_topic(scenario, record):
    overwrite(scenario, record.log_offset + 89 + len(record.body), b"\xff")


def spoil_properties_length(scenario, record):
    at = record.log_offset + record.total_size - len(record.properties_bytes) - 2
    overwrite(scenario, at, (len(record.properties_bytes) - 1).to_bytes(2, "big"))


def spoil_properties(scenario, record):
    overwrite(scenario, record.log_offset + record.total_size - 3, b"\xff")


def spoil_with_zeros(scenario, record):
    overwrite(scenario, record.log_offset, bytes(record.total_size))


def spoil_end(scenario, record):
    overwrite(scenario, record.log_offset + record.total_size - 1, b"\0")


SPOILERS = [value for name, value in globals().items() if name.startswith("spoil_")]


@pytest.mark.parametrize("split_bytes", [1 << 26, 5003])
@pytest.mark.parametrize("spoil", SPOILERS)
def test_a_damaged_record_is_a_row_of_damage_and_costs_no_other(golden_copy, spoil, split_bytes):
    scenario = golden_copy("crash/recovered")
    before, _ = found_by_walking(scenario.store)
    records = scenario.log_records()
    for number in (20, 150):
        spoil(scenario, records[number])
    lost = [records[number].log_offset for number in (20, 150)]
    table, damages = read(scenario.store, split_bytes)
    assert table["commitLogOffset"].to_pylist() == [at for at in before if at not in lost]
    assert [each.log_offset for each in damages] == lost
    assert all(each.damage and each.problem and each.timestamp and each.path for each in damages)
    assert [(each.kind, each.log_offset, each.size) for each in damages] == found_by_walking(scenario.store)[1]


@pytest.mark.parametrize("split_bytes", [1 << 26, 10_007])
def test_a_missing_file_is_one_row_of_damage(golden_copy, split_bytes):
    scenario = golden_copy("crash/recovered")
    paths = scenario.log_files()
    size = scenario.size("mappedFileSizeCommitLog")
    gone = int(paths[1].name)
    sound, _ = found_by_walking(scenario.store)
    paths[1].unlink()
    table, damages = read(scenario.store, split_bytes)
    assert table["commitLogOffset"].to_pylist() == [at for at in sound if not gone <= at < gone + size]
    assert [(each.path, each.kind, each.damage, each.log_offset, each.size) for each in damages] == [
        (None, "missing", True, gone, size)
    ]


@pytest.mark.parametrize("split_bytes", [1 << 26, 10_007])
@pytest.mark.parametrize("first", [0, 5])
def test_a_file_of_zeros_before_others_is_damage(golden_copy, split_bytes, first):
    """Pages that never reached the disk, from record *first* of the second file on."""
    scenario = golden_copy("crash/recovered")
    path, size = scenario.log_files()[1], scenario.size("mappedFileSizeCommitLog")
    start = int(path.name)
    sound, _ = found_by_walking(scenario.store)
    at = [each for each in sound if each >= start][first]
    path.write_bytes(path.read_bytes()[: at - start] + bytes(size - (at - start)))
    table, damages = read(scenario.store, split_bytes)
    assert table["commitLogOffset"].to_pylist() == [each for each in sound if not at <= each < start + size]
    assert [(each.kind, each.damage, each.log_offset, each.size) for each in damages] == [
        ("zeros", True, at, start + size - at)
    ]


def last_record_half_written(scenario):
    record = scenario.log_records()[-1]
    overwrite(scenario, record.log_offset + record.total_size // 2, bytes(record.total_size - record.total_size // 2))
    return record


@pytest.mark.parametrize("split_bytes", [1 << 26, 10_007])
def test_what_a_broker_has_not_finished_is_no_damage(golden_copy, split_bytes):
    scenario = golden_copy("crash/killed")  # abort is there; the checkpoint is old
    record = last_record_half_written(scenario)
    table, damages = read(scenario.store, split_bytes)
    assert table["commitLogOffset"].to_pylist()[-1] < record.log_offset
    assert [(each.damage, each.log_offset) for each in damages] == [(False, record.log_offset)]


@pytest.mark.parametrize("split_bytes", [1 << 26, 10_007])
def test_what_the_checkpoint_vouches_for_may_not_be_unfinished(golden_copy, split_bytes):
    scenario = golden_copy("crash/killed")
    record = last_record_half_written(scenario)
    vouched = (record.store_timestamp + 60_000).to_bytes(8, "big")
    (scenario.store / "checkpoint").write_bytes(vouched.ljust(4096, b"\0"))
    _, damages = read(scenario.store, split_bytes)
    assert [(each.damage, each.log_offset) for each in damages] == [(True, record.log_offset)]


def test_the_same_end_in_a_store_that_was_closed_is_damage(golden_copy):
    scenario = golden_copy("crash/recovered")
    record = last_record_half_written(scenario)
    _, damages = read(scenario.store)
    assert [(each.damage, each.log_offset) for each in damages] == [(True, record.log_offset)]


def test_a_log_of_zeros_and_one_without_files_have_no_rows(tmp_path):
    (tmp_path / "commitlog").mkdir()
    (tmp_path / "commitlog" / f"{0:020}").write_bytes(bytes(100_000))
    assert plan(RealFiles(), tmp_path) == []


def test_ranges_cover_the_log_once(golden):
    for name in SCENARIOS:
        parts = plan(RealFiles(), golden(name).store, 4999)
        assert all(part.start < part.end <= part.start + 4999 or part.end == part.log_end for part in parts[-1:])
        for before, after in pairwise(parts):
            assert before.end == after.start


def test_chosen_columns_have_the_values_that_all_have(golden):
    store = golden("normal").store
    table, _ = read(store)
    names = ["tags", "storeTimestamp", "queueOffset", "sysFlag"]
    assert read(store, schema=schema(names))[0].equals(table.select(names))
    for name in table.column_names:
        assert read(store, schema=schema([name]))[0].equals(table.select([name])), name


def test_bodies_are_what_java_consumers_receive(golden):
    scenario = golden("normal")
    table, _ = read(scenario.store)
    rows = {(row["topic"], row["queueId"], row["queueOffset"]): row for row in table.to_pylist()}
    messages = scenario.received("pull")
    assert len(messages) > 100
    for said in messages:
        row = described(rows[said["topic"], said["queueId"], said["queueOffset"]], 1 << 30)
        added = {"MIN_OFFSET", "MAX_OFFSET", "CONSUME_START_TIME"}
        assert {k: v for k, v in said["properties"].items() if k not in added} == {
            k: v for k, v in row["properties"].items() if k not in added
        }
        for name in ("bodyLength", "bodySha256", "sysFlag", "bornTimestamp", "bornHost", "storeTimestamp", "flag"):
            if name in said:
                assert row[name] == said[name], name


def test_rows_are_the_same_however_long_the_stretches(golden, monkeypatch):
    import gantrymq_spark.log_scan as log_scan

    table, _ = read(golden("retry").store)
    monkeypatch.setattr(log_scan, "sound_run", lambda *_, **__: None)
    assert read(golden("retry").store)[0].equals(table)
    assert np.all(np.diff(table["commitLogOffset"].to_numpy()) > 0)


def test_what_the_disk_does_not_give_is_damage(golden_copy, monkeypatch):
    scenario = golden_copy("crash/recovered")
    sound, _ = found_by_walking(scenario.store)
    size = scenario.size("mappedFileSizeCommitLog")
    bad = size + 4096  # the second page of the second file
    pread = RealFile.pread

    def failing(self, length, position):
        start = int(self.path.name) + position
        if self.path.parent.name == "commitlog" and start < bad + 4096 and bad < start + length:
            raise OSError(5, "Input/output error")
        return pread(self, length, position)

    monkeypatch.setattr(RealFile, "pread", failing)
    monkeypatch.setattr("gantrymq_spark.store_options.last_nonzero", lambda read, start, parts: parts[-1][1])
    table, damages = read(scenario.store)
    hit = [at for at, after in pairwise([*sound, 1 << 60]) if at < bad + 4096 and after > bad]
    assert set(sound) - set(table["commitLogOffset"].to_pylist()) == set(hit)
    told = [(each.log_offset, each.size, each.damage) for each in damages if each.kind == "unreadable"]
    assert told == [(bad, 4096, True)]


def test_what_repair_put_in_place_of_damage_is_no_message(golden_copy):
    scenario = golden_copy("crash/recovered")
    record = scenario.log_records()[20]
    (at, filler), *_ = fillers(record.log_offset, record.total_size, record.store_timestamp, "kept elsewhere")
    overwrite(scenario, at, filler)
    sound = [each.log_offset for each in scenario.log_records() if each.log_offset != at]
    table, damages = read(scenario.store)
    assert table["commitLogOffset"].to_pylist() == sound
    assert [(each.kind, each.damage, each.log_offset, each.size) for each in damages] == [
        ("filler", False, at, record.total_size)
    ]


def test_a_store_that_a_broker_of_ours_has_open(tmp_path):
    mmap_store = pytest.importorskip("gantrymq_storage_mmap.store")
    from gantrymq.config import Settings
    from gantrymq.interfaces import StoreContext, StoreMessage
    from gantrymq.world.real import real_world
    from gantrymq_storage_mmap.settings import SCHEMA

    async def run():
        world = real_world()
        settings = Settings(SCHEMA, {"mappedFileSizeCommitLog": 64 * 1024})
        store = mmap_store.MmapStore(StoreContext(world, tmp_path, settings, print))
        await store.start()
        for start in range(0, 600, 100):
            messages = [StoreMessage("Orders", n % 4, b"x" * 900, b"KEYS\1%d\2" % n) for n in range(start, start + 100)]
            store.publish(store.put(messages)[-1].end)
            await asyncio.sleep(0)
            assert (tmp_path / "abort").exists()
            table, damages = read(tmp_path)
            assert sorted(table["keys"].to_pylist(), key=int) == [str(n) for n in range(start + 100)]
            assert not damages
        await store.stop()
        await world.workers.close()

    asyncio.run(run())
    table, damages = read(tmp_path)
    assert (len(table), damages) == (600, [])
