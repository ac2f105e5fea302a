"""Checks of a store that a broker has open or was killed with: up to the checkpoint, and after it."""

import pytest
from small_store import LOG_FILE_BYTES, START_MS, SmallStore

from gantrymq.errors import StoreError
from gantrymq.model.names import SCHEDULE_TOPIC
from gantrymq.world.real import RealFiles
from gantrymq_store_files.checkpoint import Checkpoint, encode_checkpoint
from gantrymq_store_files.file_names import file_name
from gantrymq_store_files.queue_entry import ENTRY
from gantrymq_store_tools.check import check_open_store, check_store
from gantrymq_store_tools.repair import repair_store

VOUCHED = 40  # the record whose store time the checkpoint has
MARGIN = 6  # records of the three seconds that are left to a broker that runs
ORDERS = "consumequeue/Orders/0"


@pytest.fixture
def left(small):
    """The small store after its broker was killed: the checkpoint covers records up to one in the middle."""
    vouched_ms = START_MS + 500 * VOUCHED
    (small.root / "checkpoint").write_bytes(encode_checkpoint(Checkpoint(vouched_ms, vouched_ms, 0)))
    (small.root / "abort").write_text("1")
    return small


def opened(store, **options):
    before = store.contents()
    report = check_open_store(RealFiles(), store.root, **options)
    assert store.contents() == before
    return report


def killed(store):
    return check_store(RealFiles(), store.root)


def kinds(report):
    return {(each.kind, each.damage, each.recovery) for each in report.findings}


def lose_entries(store, first):
    """Queue entries of the records from number *first* on are not in the files yet."""
    place = store.records[first][0]
    for path in sorted((store.root / "consumequeue").rglob("0" * 19 + "*")):
        data = bytearray(path.read_bytes())
        for at in range(0, len(data) - 19, 20):
            if ENTRY.unpack_from(data, at)[0] >= place:
                data[at : at + 20] = bytes(20)
        path.write_bytes(data)


def test_an_open_store_is_judged_up_to_its_checkpoint_less_a_margin(left):
    report = opened(left)
    assert report.findings == []
    assert (report.in_use, report.damaged) == (True, False)
    assert report.vouched_to == report.log_end == left.records[VOUCHED - MARGIN][0]
    assert report.records == report.queue_entries == VOUCHED - MARGIN
    assert report.to_json()["vouched_to"] == report.vouched_to


def test_a_delayed_message_with_an_older_time_begins_a_file_after_the_clock_was_set_back(tmp_path):
    store = SmallStore(tmp_path)
    for number in range(8):  # three in a file
        delayed = {"properties": b"DELAY\x013\x02", "store_timestamp": START_MS} if number == 3 else {}
        store.add(SCHEDULE_TOPIC if delayed else "Orders", 2 if delayed else 0, b"x" * 2500, **delayed)
    assert store.records[3][0] == LOG_FILE_BYTES
    store.write()
    (tmp_path / "checkpoint").write_bytes(encode_checkpoint(Checkpoint(START_MS + 500, START_MS + 500, 0)))
    (tmp_path / "abort").write_text("1")
    report = killed(store)
    assert (report.vouched_to, report.damaged) == (store.records[1][0], False)


def test_what_a_broker_has_in_its_memory_alone_is_no_damage(left):
    lose_entries(left, VOUCHED - MARGIN)
    place, size = left.records[-1]
    left.spoil_log(place + size // 2, bytes(size - size // 2))
    for path in (left.root / "index").iterdir():
        left.spoil(path, 40, b"\x7f")
    assert opened(left).findings == []


def test_damage_before_the_checkpoint_is_damage_also_while_a_broker_runs(left):
    left.spoil_log(left.records[7][0] + 100, b"?")
    report = opened(left)
    assert ("log.damaged", True, False) in kinds(report)
    assert report.damaged
    lose_entries(left, 20)
    assert ("queue.missing", True, False) in kinds(opened(left))


@pytest.mark.parametrize("content", [None, b"", bytes(4096)])
def test_without_a_checkpoint_nothing_of_an_open_store_is_judged(left, content):
    path = left.root / "checkpoint"
    path.unlink() if content is None else path.write_bytes(content)
    lose_entries(left, 0)
    report = opened(left)
    assert (report.vouched_to, report.records, report.findings) == (0, 0, [])


def test_a_finding_that_is_gone_at_the_second_look_does_not_count(left):
    """A file that is being made has another size for a moment."""
    half = left.root / "commitlog" / file_name(3 * 8192)
    looks = []

    class Filling(RealFiles):
        def list(self, folder):
            if folder == left.root / "commitlog":
                looks.append(half.stat().st_size)
                half.write_bytes(bytes(100 if len(looks) < 3 else 8192))
            return super().list(folder)

    half.write_bytes(bytes(100))
    report = check_open_store(Filling(), left.root)
    assert looks[0] == 100
    assert report.findings == []


@pytest.mark.parametrize(("times", "works"), [(2, True), (9, False)])
def test_files_that_retention_deletes_are_looked_for_again(left, times, works):
    class Deleting(RealFiles):
        left_to_fail = times

        def open(self, path, *, create=False, read_only=False):
            if path.parent.name == "commitlog" and self.left_to_fail:
                self.left_to_fail -= 1
                raise FileNotFoundError(2, "No such file or directory", str(path))
            return super().open(path, create=create, read_only=read_only)

    if works:
        assert check_open_store(Deleting(), left.root).findings == []
    else:
        with pytest.raises(StoreError, match="was deleted while"):
            check_open_store(Deleting(), left.root)


def test_what_a_killed_broker_left_for_the_next_start_is_no_damage(left):
    lose_entries(left, VOUCHED)
    place, size = left.records[-1]
    left.spoil_log(place + size // 2, bytes(size - size // 2))
    report = killed(left)
    assert (report.damaged, report.in_use, report.clean_stop) == (False, False, False)
    assert report.vouched_to == left.records[VOUCHED][0]
    assert kinds(report) >= {("queue.missing", False, True), ("log.torn", False, True), ("store.abort", False, False)}
    assert report.for_recovery == len(report.findings) - 1


def test_the_same_after_a_clean_stop_is_damage(left):
    (left.root / "abort").unlink()
    lose_entries(left, VOUCHED)
    assert ("queue.missing", True, False) in kinds(killed(left))


def test_what_no_kill_explains_stays_damage(left):
    lose_entries(left, VOUCHED - 1)  # one that was durable is missing
    assert ("queue.missing", True, False) in kinds(killed(left))
    left.spoil_log(left.records[50][0] + 100, b"?")  # sound records follow it
    assert ("log.damaged", True, False) in kinds(killed(left))


def test_entries_that_are_ahead_of_a_torn_log_are_cut_at_the_next_start(left):
    end = left.next["Orders", 0]
    left.spoil(left.root / ORDERS / file_name(0), end * 20, ENTRY.pack(sum(left.records[-1]), 300, 0))
    report = killed(left)
    assert ("queue.no_record", False, True) in kinds(report)
    assert not report.damaged


def test_an_empty_checkpoint_is_normal_for_a_broker_that_was_killed_young(left):
    (left.root / "checkpoint").write_bytes(bytes(4096))
    assert ("checkpoint.empty", False, True) in kinds(killed(left))


def test_a_repair_mends_what_a_killed_broker_left(left, tmp_path):
    lose_entries(left, VOUCHED)
    report = repair_store(RealFiles(), left.root, tmp_path / "copy", START_MS, lambda time_ms: 0)
    assert not report.before.damaged
    assert report.after is not None
    assert report.after.findings == []
