"""Archives: each message once after any failed call, in a folder that every Parquet reader can read."""

import contextlib
import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from gantrymq.errors import FormatError, InvalidParameter, StoreError, StoreLocked
from gantrymq.model.queue import Queue
from gantrymq.world.real import RealFiles
from gantrymq_spark.columns import schema
from gantrymq_spark.jobs import archive_manifest
from gantrymq_spark.jobs.archive_layout import (
    ArchivedFile,
    ArchiveState,
    Commit,
    QueueProgress,
    commit_version,
    folder_of,
)
from gantrymq_spark.jobs.archive_manifest import Archive, data_path, read_state
from gantrymq_spark.jobs.archive_plan import (
    ArchiveRange,
    days_before,
    deletable_log_files,
    deletable_offsets,
    live_from,
    next_ranges,
    refuse_unnamed,
)
from gantrymq_spark.jobs.archive_write import archive_batches
from gantrymq_store_tools.layout import Series, StoreFile
from gantrymq_testing.failing_files import FailingFiles

START = datetime(2026, 11, 23, 23, 59, 50, tzinfo=UTC)
ORDERS, BILLS, RETRY = Queue("Orders", 0), Queue("Bills", 3), Queue("%RETRY%group", 0)


def messages(queue, first, end, broker_name="broker-a"):
    """A batch of one queue, a second between two messages; the day changes with the tenth."""
    rows = [
        {
            "topic": queue.topic,
            "brokerName": broker_name,
            "queueId": queue.queue_id,
            "queueOffset": offset,
            "body": b"body %d" % offset,
            "properties": [("KEYS", str(offset))],
            "storeTimestamp": START + timedelta(seconds=offset),
        }
        for offset in range(first, end)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=schema())


def read_archive(root, bounds, files=None, most=None, broker_name="broker-a", **more):
    """Archive what is new of *bounds*, as a job does."""
    with Archive(files or RealFiles(), root) as archive:
        wanted = next_ranges(archive.state, broker_name, bounds, most)
        batches = [messages(queue, first, end, broker_name) for queue, (first, end) in bounds.items()]
        archive_batches(archive, wanted, batches, **more)
        return archive.state


def contents(root):
    """Queue and offset of every message by the manifest, how often it is there."""
    state = read_state(RealFiles(), root)
    found = Counter()
    for file in state.files.values():
        path = data_path(RealFiles(), root, file)
        table = pq.ParquetFile(path).read()
        assert table.num_rows == file.rows
        assert path.stat().st_size == file.bytes
        found.update(
            zip(table["topic"].to_pylist(), table["queueId"].to_pylist(), table["queueOffset"].to_pylist(), strict=True)
        )
    return state, found


def expected(bounds):
    return Counter((*queue, offset) for queue, span in bounds.items() for offset in range(*span))


def test_messages_lie_by_topic_and_day_as_other_readers_expect(tmp_path):
    bounds = {ORDERS: (0, 20), BILLS: (5, 8), RETRY: (0, 1)}
    read_archive(tmp_path, bounds)
    folders = {path.parent.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.parquet")}
    assert folders == {
        "topic=Orders/date=2026-11-23",
        "topic=Orders/date=2026-11-24",
        "topic=Bills/date=2026-11-23",
        "topic=%25RETRY%25group/date=2026-11-23",
    }
    assert contents(tmp_path)[1] == expected(bounds)
    table = ds.dataset(tmp_path, partitioning=ds.HivePartitioning(pa.schema([("date", pa.string())]))).to_table()
    assert table.num_rows == 24
    assert Counter(table["date"].to_pylist()) == {"2026-11-23": 14, "2026-11-24": 10}
    row = table.filter(pa.compute.equal(table["queueOffset"], 19)).to_pylist()[0]
    assert (row["topic"], row["body"], row["properties"]) == ("Orders", b"body 19", [("KEYS", "19")])


def test_a_second_run_takes_only_what_is_new(tmp_path):
    read_archive(tmp_path, {ORDERS: (0, 20), BILLS: (5, 8)})
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")}
    bounds = {ORDERS: (3, 25), BILLS: (5, 8), RETRY: (0, 2)}
    state = read_archive(tmp_path, bounds)
    assert contents(tmp_path)[1] == expected(bounds | {ORDERS: (0, 25)})
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert state.progress["broker-a", ORDERS] == QueueProgress(0, 25)
    assert state.progress["broker-a", BILLS] == QueueProgress(5, 8)


def test_queues_of_one_name_on_two_brokers_are_two(tmp_path):
    read_archive(tmp_path, {ORDERS: (0, 5)})
    read_archive(tmp_path, {ORDERS: (0, 3)}, broker_name="broker-b")
    state, found = contents(tmp_path)
    assert found["Orders", 0, 2] == 2
    assert deletable_offsets(state, "broker-b") == {ORDERS: 3}


def everything(root, bounds, files):
    """Two commits of the same run, with a small bound on memory; returns the states between."""
    states = []
    for most in (12, None):
        states.append(read_archive(root, bounds, files, most, file_bytes=500, log_ends={"broker-a": 10 * (most or 2)}))
    return states


@pytest.mark.slow
@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("state_every", [16, 1])
def test_a_failure_at_any_call_leaves_the_old_or_the_new_archive(tmp_path, monkeypatch, done, state_every):
    monkeypatch.setattr(archive_manifest, "STATE_EVERY", state_every)
    bounds = {ORDERS: (0, 20), BILLS: (5, 8)}
    first, both = dict(bounds), dict(bounds)
    counting = FailingFiles(RealFiles())
    with Archive(RealFiles(), tmp_path / "shares") as archive:
        shares = {each.queue: (each.start, each.end) for each in next_ranges(archive.state, "broker-a", bounds, 12)}
    first = expected(shares)
    assert sum(first.values()) in range(12, 15)
    everything(tmp_path / "counted", both, counting)
    assert counting.changes > 30
    seen = set()
    for number in range(counting.changes):
        root = tmp_path / str(number)
        with pytest.raises(OSError):
            everything(root, bounds, FailingFiles(RealFiles(), number, done=done))
        state, found = contents(root)  # what a reader sees before the repair
        assert found in ([Counter()], [first], [expected(bounds)])[min(state.version, 2)]
        assert state.version == (0 if not found else 1 if found == first else 2)
        seen.add(state.version)
        placed = {path.relative_to(root).as_posix() for path in root.glob("topic=*/**/*.parquet")}
        assert placed <= set(state.files)  # folders never contain uncommitted files
        with Archive(RealFiles(), root) as archive:  # repair
            assert archive.state == state
        assert {path.relative_to(root).as_posix() for path in root.glob("topic=*/**/*.parquet")} == set(state.files)
        assert list((root / "_staging").iterdir()) == []
        read_archive(root, bounds)  # and the run is gone on with
        assert contents(root)[1] == expected(bounds)
        assert not list(root.rglob("*.tmp"))
    assert seen == {0, 1, 2}


def test_files_of_workers_that_no_commit_names_are_removed(tmp_path):
    with Archive(RealFiles(), tmp_path) as archive:
        archive.stage("broker-a-lost.parquet", b"half of a task that was tried again")
    assert read_state(RealFiles(), tmp_path).files == {}
    with Archive(RealFiles(), tmp_path):
        assert list((tmp_path / "_staging").iterdir()) == []


def test_one_process_writes_at_a_time_and_others_may_read(tmp_path):
    with Archive(RealFiles(), tmp_path) as archive:
        with pytest.raises(StoreLocked, match="being written by another process"):
            Archive(RealFiles(), tmp_path)
        assert read_state(RealFiles(), tmp_path) == archive.state
    Archive(RealFiles(), tmp_path).close()


def test_the_manifest_stays_short(tmp_path):
    for end in range(1, 40):
        read_archive(tmp_path, {ORDERS: (0, end)})
    names = sorted(path.name for path in (tmp_path / "_manifest").iterdir())
    assert len(names) <= 16 + 2
    state, found = contents(tmp_path)
    assert state.version == 39
    assert found == expected({ORDERS: (0, 39)})
    commits = [name for name in names if commit_version(name) is not None]
    (tmp_path / "_manifest" / commits[-3]).unlink()
    with pytest.raises(FormatError, match=f"commit {commit_version(commits[-3])} is missing"):
        read_state(RealFiles(), tmp_path)


def test_a_reader_whose_commit_was_taken_over_by_a_state_looks_again(tmp_path, monkeypatch):
    read_archive(tmp_path, {ORDERS: (0, 1)})
    read_archive(tmp_path, {ORDERS: (0, 2)})
    load = archive_manifest._read
    monkeypatch.setattr(archive_manifest, "STATE_EVERY", 1)

    def meanwhile(files, path):
        monkeypatch.setattr(archive_manifest, "_read", load)
        read_archive(tmp_path, {ORDERS: (0, 3)})
        return load(files, path)

    monkeypatch.setattr(archive_manifest, "_read", meanwhile)
    assert read_state(RealFiles(), tmp_path).progress["broker-a", ORDERS].next == 3


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 2}', '{"format": 1}', '{"format": 1, "files": [{}]}'])
def test_a_manifest_that_is_none_is_named(tmp_path, text):
    read_archive(tmp_path, {ORDERS: (0, 1)})
    path = tmp_path / "_manifest" / f"{1:020d}.json"
    path.write_text(text)
    with pytest.raises(FormatError, match=f"{path.name} is no"):
        read_state(RealFiles(), tmp_path)
    with pytest.raises(FormatError, match=f"{path.name} is no"):
        Archive(RealFiles(), tmp_path)
    path.unlink()
    Archive(RealFiles(), tmp_path).close()  # its lock was given back


def file(first, end, path="topic=Orders/date=2026-11-23/a.parquet"):
    return ArchivedFile(path, "broker-a", "Orders", "2026-11-23", end - first, 1, 0, 0, {0: (first, end)})


def test_a_commit_that_would_tell_lies_is_refused(tmp_path):
    state = ArchiveState()
    key = "broker-a", ORDERS
    state.apply(Commit(1, (file(0, 10),), progress={key: QueueProgress(0, 10)}))
    with pytest.raises(StoreError, match="cannot go back to 9"):
        state.check(Commit(2, progress={key: QueueProgress(0, 9)}))
    with pytest.raises(StoreError, match="is already in the archive"):
        state.check(Commit(2, (file(10, 11),), progress={key: QueueProgress(0, 11)}))
    for span in ((9, 11), (10, 13), (0, 5)):
        with pytest.raises(StoreError, match="this commit archives 10 to 11"):
            state.check(Commit(2, (file(*span, "b"),), progress={key: QueueProgress(0, 12)}))
    state.check(Commit(2, (file(10, 12, "b"),), progress={key: QueueProgress(0, 12)}))
    with pytest.raises(FormatError, match="commit 2 is missing"):
        state.apply(Commit(3))
    with Archive(RealFiles(), tmp_path) as archive, pytest.raises(StoreError):
        archive.commit([file(0, 1)])
    assert read_state(RealFiles(), tmp_path).version == 0


def test_what_the_broker_had_no_more_is_noted_and_not_waited_for():
    state = ArchiveState(progress={("broker-a", ORDERS): QueueProgress(2, 10, ((0, 2),))})
    (wanted,) = next_ranges(state, "broker-a", {ORDERS: (15, 20)})
    assert wanted == ArchiveRange("broker-a", ORDERS, 15, 20, (10, 15))
    assert wanted.after(state.progress[wanted.key]) == QueueProgress(2, 20, ((0, 2), (10, 15)))
    (wanted,) = next_ranges(state, "broker-a", {ORDERS: (15, 15)})  # everything is gone
    assert (wanted.start, wanted.end, wanted.lost) == (15, 15, (10, 15))
    assert next_ranges(state, "broker-a", {ORDERS: (0, 10)}) == []
    with pytest.raises(StoreError, match="deleted and recreated"):
        next_ranges(state, "broker-a", {ORDERS: (0, 9)})


def test_a_bound_on_messages_gives_each_queue_its_share_and_every_run_goes_on():
    state = ArchiveState()
    bounds = {ORDERS: (0, 1000), BILLS: (100, 110)}
    runs = 0
    while wanted := next_ranges(state, "broker-a", bounds, 100):
        assert all(each.end > each.start for each in wanted)
        assert sum(each.end - each.start for each in wanted) <= 102
        state.apply(Commit(state.version + 1, progress={each.key: each.after(None) for each in wanted}))
        runs += 1
    assert runs < 20
    assert live_from(state, "broker-a", bounds) == {ORDERS: 1000, BILLS: 110}


def test_archive_and_broker_together_give_each_message_once(tmp_path):
    read_archive(tmp_path, {ORDERS: (0, 20)})
    state, found = contents(tmp_path)
    bounds = {ORDERS: (10, 30), BILLS: (5, 8)}
    starts = live_from(state, "broker-a", bounds)
    found.update(expected({queue: (starts[queue], end) for queue, (_, end) in bounds.items()}))
    assert found == expected({ORDERS: (0, 30), BILLS: (5, 8)})


def test_a_topic_made_anew_is_read_live_from_its_first_message():
    state = ArchiveState(progress={("broker-a", ORDERS): QueueProgress(0, 20)})
    assert live_from(state, "broker-a", {ORDERS: (0, 5)}) == {ORDERS: 0}
    assert live_from(state, "broker-a", {ORDERS: (20, 20)}) == {ORDERS: 20}


def test_a_store_without_its_broker_s_name_is_not_mixed_with_named_ones():
    named = ArchiveState(progress={("broker-a", ORDERS): QueueProgress(0, 20)})
    unnamed = ArchiveState(progress={("", ORDERS): QueueProgress(0, 20)})
    for state, given in ((named, []), (ArchiveState(), [""]), (named, ["broker-b"]), (unnamed, [""])):
        refuse_unnamed(state, given, "/archive")
    for state, given in ((named, [""]), (unnamed, ["broker-a"])):
        with pytest.raises(StoreError, match="messages could be duplicated; name a store's broker"):
            refuse_unnamed(state, given, "/archive")


def test_retention_may_delete_what_is_archived_and_nothing_else():
    log = Series(tuple(StoreFile(Path(str(start)), start, 100) for start in (300, 400, 500)), 100)
    state = ArchiveState(logs={"broker-a": 400})
    assert [each.start for each in deletable_log_files(state, "broker-a", log)] == [300]
    state.logs["broker-a"] = 499
    assert [each.start for each in deletable_log_files(state, "broker-a", log)] == [300]
    state.logs["broker-a"] = 10_000
    assert [each.start for each in deletable_log_files(state, "broker-a", log)] == [300, 400]
    assert deletable_log_files(state, "broker-b", log) == []


def test_old_days_are_taken_out_by_a_commit(tmp_path):
    read_archive(tmp_path, {ORDERS: (0, 20), BILLS: (5, 8)})
    state = read_state(RealFiles(), tmp_path)
    assert days_before(state, "2026-11-23") == []
    assert {each.topic for each in days_before(state, "2026-11-24")} == {"Orders", "Bills"}
    old = [each.path for each in days_before(state, "2026-11-24", ["Orders"])]
    with Archive(FailingFiles(RealFiles()), tmp_path) as archive:
        archive.commit(removed=old)
    assert contents(tmp_path)[1] == expected({ORDERS: (10, 20), BILLS: (5, 8)})
    assert not any((tmp_path / path).exists() for path in old)
    assert read_archive(tmp_path, {ORDERS: (0, 20), BILLS: (5, 8)}).version == 3
    assert contents(tmp_path)[1] == expected({ORDERS: (10, 20), BILLS: (5, 8)})  # they do not come back


@pytest.mark.parametrize("done", [False, True])
def test_files_that_a_failed_removal_left_are_removed_by_the_next_writer(tmp_path, done):
    for number in range(8):
        root = tmp_path / str(number)
        read_archive(root, {ORDERS: (0, 20)})
        old = [each.path for each in days_before(read_state(RealFiles(), root), "2026-11-24")]
        files = FailingFiles(RealFiles())
        archive = Archive(files, root)
        files._fail_at, files._done = files.changes + number, done
        with contextlib.suppress(OSError):
            archive.commit(removed=old)
        archive.close()
        gone = read_state(RealFiles(), root).version == 2
        Archive(RealFiles(), root).close()
        assert [(root / path).exists() for path in old] == [not gone]


def test_a_message_without_a_time_has_a_day_of_its_own(tmp_path):
    batch = messages(ORDERS, 0, 2)
    at = batch.schema.get_field_index("storeTimestamp")
    batch = batch.set_column(at, batch.schema.field(at), pa.nulls(2, batch.schema.field(at).type))
    with Archive(RealFiles(), tmp_path) as archive:
        (made,) = archive_batches(archive, next_ranges(archive.state, "broker-a", {ORDERS: (0, 2)}), [batch])
    assert made.date == "__HIVE_DEFAULT_PARTITION__"


def test_names_that_no_folder_can_have():
    assert folder_of("a/b=c%d|é", "2026-11-24") == "topic=a%2Fb%3Dc%25d|é/date=2026-11-24"
    with pytest.raises(InvalidParameter, match="too long"):
        folder_of("%" * 100, "2026-11-24")


def test_the_manifest_can_be_read_by_people(tmp_path):
    read_archive(tmp_path, {ORDERS: (0, 2)})
    said = json.loads((tmp_path / "_manifest" / f"{1:020d}.json").read_text())
    assert said["progress"] == [["broker-a", "Orders", 0, 0, 2, []]]
    assert said["files"][0]["queues"] == {"0": [0, 2]}
