"""The tools on stores whose broker has delay levels of its own."""

import json

import pytest
from click.testing import CliRunner
from small_store import SmallStore

from gantrymq.cli import main
from gantrymq.errors import StoreError
from gantrymq.model.names import SCHEDULE_TOPIC
from gantrymq.world.real import RealFiles
from gantrymq_store_files.delay_levels import DELAY_LEVELS, DelayLevels
from gantrymq_store_files.queue_entry import ENTRY
from gantrymq_store_tools.check import check_store
from gantrymq_store_tools.record_entries import EntryRules
from gantrymq_store_tools.repair import repair_store
from gantrymq_testing.running_broker import RunningBroker

LEVELS = "20m 30m 1h"


def run(*words, code=0):
    done = CliRunner().invoke(main, ["store", *map(str, words)])
    assert done.exit_code == code, done.output
    return done


def filled(root):
    store = SmallStore(root)
    for number in range(6):
        level = number % 2 + 1
        store.add(SCHEDULE_TOPIC, level - 1, b"later", properties=f"DELAY\x01{level}\x02REAL_TOPIC\x01T\x02".encode())
        store.add("T", 0, b"now")
    return store


@pytest.fixture
def java(tmp_path):
    """A sound store of a broker that does not record its delay levels."""
    store = filled(tmp_path / "store")
    store.write(EntryRules(delay_levels=DelayLevels.of(LEVELS)))
    return store


@pytest.fixture
def ours(java):
    (java.root / DELAY_LEVELS).write_bytes(DelayLevels.of(LEVELS).pack())
    return java


def due_times(root):
    data = b"".join((root / "consumequeue" / SCHEDULE_TOPIC / each / f"{0:020d}").read_bytes() for each in "01")
    return [entry for entry in ENTRY.iter_unpack(data) if entry[1]]


def test_a_store_that_records_its_levels_is_sound(ours, tmp_path):
    assert "sound" in run("check", ours.root).stdout
    assert "nothing to repair" in run("repair", ours.root).stdout
    run("rebuild-queues", ours.root)
    assert due_times(ours.root.with_name("store.rebuilt")) == due_times(ours.root)
    run("backup", ours.root, tmp_path / "backup")
    run("restore", tmp_path / "backup", tmp_path / "restored")
    assert "sound" in run("check", tmp_path / "restored").stdout


def test_a_damaged_store_that_records_its_levels_is_repaired_with_its_due_times(ours):
    ours.spoil_log(ours.records[1][0] + 89, b"?")
    assert "gantrymq store repair" in run("check", ours.root, code=1).stderr
    run("repair", ours.root)
    target = ours.root.with_name("store.repaired")
    assert due_times(target) == due_times(ours.root)
    assert "sound" in run("check", target).stdout


def test_unknown_levels_are_asked_for_and_a_repair_is_not_advised(java):
    done = run("check", java.root, code=1)
    assert "sound except for 6 due times of delayed messages" in done.stdout
    assert "damaged" not in done.stdout
    assert "--delay-levels" in done.stderr
    assert "store repair" not in done.stderr
    report = json.loads(run("check", java.root, "--output", "json", code=1).stdout)
    assert report["only_due_times"]
    assert {each["kind"] for each in report["findings"] if each["damage"]} == {"queue.due_time"}
    assert "sound" in run("check", java.root, "--delay-levels", LEVELS).stdout
    assert json.loads(run("check", java.root, "--delay-levels", LEVELS, "--output", "json").stdout)["damaged"] is False


def test_a_repair_with_unknown_levels_is_refused(java):
    assert "--delay-levels" in run("repair", java.root, code=1).stderr
    java.spoil_log(java.records[1][0] + 89, b"?")
    advice = run("check", java.root, code=1).stderr
    assert "gantrymq store repair --delay-levels" in advice
    assert "--delay-levels" in run("repair", java.root, code=1).stderr
    target = java.root.with_name("store.repaired")
    assert not target.exists()
    run("repair", java.root, "--delay-levels", LEVELS)
    assert due_times(target) == due_times(java.root)
    assert "sound" in run("check", target).stdout  # the copy records the levels


def test_a_killed_broker_s_due_times_are_not_left_to_the_next_start(java):
    (java.root / "abort").write_bytes(b"")
    (java.root / "checkpoint").write_bytes(bytes(4096))
    report = check_store(RealFiles(), java.root)
    assert (report.due_times, report.only_due_times) == (6, True)
    with pytest.raises(StoreError, match="--delay-levels"):
        repair_store(RealFiles(), java.root, java.root.with_name("copy"), 0, lambda _: 0)


def test_rebuilt_queues_with_other_due_times_are_reported(java):
    done = run("rebuild-queues", java.root, code=1)
    assert "3 delayed messages of level 1 would be due at other times" in done.stdout
    assert "--delay-levels" in done.stdout
    run("rebuild-queues", java.root, "--delay-levels", LEVELS, "--to", java.root.with_name("right"))
    assert due_times(java.root.with_name("right")) == due_times(java.root)


def test_a_backup_does_not_advise_a_repair_that_changes_due_times(java, tmp_path):
    done = run("backup", java.root, tmp_path / "backup", code=1)
    assert "--delay-levels" in done.stderr
    assert "store repair" not in done.stderr
    run("backup", java.root, tmp_path / "checked", "--delay-levels", LEVELS)


def test_levels_apply_from_the_log_offset_where_they_changed(tmp_path):
    store = filled(tmp_path / "store")
    levels = DelayLevels((0, store.records[5][0]), (LEVELS, "1s 2s"))
    store.write(EntryRules(delay_levels=levels))
    (store.root / DELAY_LEVELS).write_bytes(levels.pack())
    assert "sound" in run("check", store.root).stdout
    for text in (b"{", b"[]", b"{}", b'{"0": "x"}', b'{"9": "1s", "0": "2s"}'):  # as in a store without the file
        (store.root / DELAY_LEVELS).write_bytes(text)
        assert "--delay-levels" in run("check", store.root, code=1).stderr


def test_a_store_of_our_broker_with_its_own_levels(tmp_path):
    pytest.importorskip("gantrymq_storage_mmap")
    pytest.importorskip("gantrymq_schedule")
    settings = {"plugins": "storage_mmap,schedule", "store": "mmap", "mappedFileSizeCommitLog": 65536}

    def sent(levels):
        with RunningBroker(tmp_path / "ours", {**settings, "messageDelayLevel": levels}) as broker:
            broker.create_topic("T", 1)
            for level in (1, 2, 3):
                broker.send("T", b"later", system_properties={"DELAY": str(level)})

    root = tmp_path / "ours" / "store"
    for levels in (LEVELS, "40m 50m 60m", LEVELS):
        sent(levels)
        assert run("check", root).stdout == f"{root}: sound\n"
    before = due_times(root)
    assert len(before) == 6
    run("rebuild-queues", root)
    assert due_times(root.with_name("store.rebuilt")) == before
