"""A stream over a growing log: its position, and each record in exactly one micro-batch."""

import pyarrow as pa
import pytest

from gantrymq.errors import StoreError
from gantrymq.model.names import CHECK_MAX_TIME_TOPIC, HALF_TOPIC, OP_TOPIC
from gantrymq_spark.store_options import EARLIEST, LATEST, StoreOptions
from gantrymq_spark.store_reading import LogTail, plan_read, rows_of_range


def offsets_of(options, parts):
    batches = [batch for part in parts for batch in rows_of_range(options, part, ("commitLogOffset",))]
    return [at for batch in batches for at in batch.column(0).to_pylist()]


class Growing:
    """A copy of a log that is written again byte by byte, into files of their full size."""

    def __init__(self, scenario, folder):
        self.size = scenario.size("mappedFileSizeCommitLog")
        self.files = [path.read_bytes() for path in scenario.log_files()]
        self.first = int(scenario.log_files()[0].name)
        self.log = b"".join(self.files)
        self.root = folder
        (folder / "commitlog").mkdir(parents=True)
        (folder / "abort").touch()
        self.to(0)

    def to(self, length):
        """Show the first *length* bytes of the log."""
        for at in range(0, length + 1, self.size):
            data = self.log[at : min(at + self.size, length)]
            (self.root / "commitlog" / f"{self.first + at:020}").write_bytes(data.ljust(self.size, b"\0"))


@pytest.mark.parametrize("step", [701, 5_000, 70_000])
@pytest.mark.parametrize("limit", [None, 3_000])
def test_each_record_is_in_one_micro_batch(golden, tmp_path, step, limit):
    scenario = golden("crash/recovered")
    log = Growing(scenario, tmp_path / "store")
    options = StoreOptions(log.root, split_bytes=4_096)
    tail, found = LogTail(options), []
    at = tail.initial()
    last = max(record.log_offset + record.total_size for record in scenario.log_records())
    shown = 0
    while at < last:
        if shown < last:
            shown = min(shown + step, last)
            log.to(shown)
        end = LogTail(options).end(at, limit)
        assert at <= end <= shown + scenario.size("mappedFileSizeCommitLog")
        if limit is not None:
            assert end <= at + limit + 5_000
        found += offsets_of(options, tail.partitions(at, end))
        at = end
    assert found == [record.log_offset for record in scenario.log_records()]


@pytest.fixture
def copy(golden_copy):
    return golden_copy("crash/recovered")


def test_earliest_latest_and_a_place(copy):
    records = copy.log_records()
    last = records[-1].log_offset + records[-1].total_size
    assert LogTail(StoreOptions(copy.store, starting=EARLIEST)).initial() == 0
    assert LogTail(StoreOptions(copy.store, starting=LATEST)).initial() == last
    inside = StoreOptions(copy.store, starting=records[7].log_offset + 1)
    assert LogTail(inside).initial() == records[8].log_offset


def test_deleted_files_are_said(copy):
    for path in copy.log_files()[:2]:
        path.unlink()
    first = int(copy.log_files()[0].name)
    with pytest.raises(StoreError, match=f"the log starts at {first}, after 100, which is next"):
        LogTail(StoreOptions(copy.store)).end(100)
    lenient = StoreOptions(copy.store, fail_on_data_loss=False)
    end = LogTail(lenient).end(100)
    kept = [record.log_offset for record in copy.log_records()]
    assert kept[0] == first
    assert offsets_of(lenient, LogTail(lenient).partitions(100, end)) == kept


def test_a_log_that_was_cut_is_said(copy):
    records = copy.log_records()
    end = LogTail(StoreOptions(copy.store)).end()
    last = records[-1]
    size = copy.size("mappedFileSizeCommitLog")
    path = copy.store / "commitlog" / f"{last.log_offset // size * size:020}"
    data = path.read_bytes()
    path.write_bytes(data[: last.log_offset % size].ljust(size, b"\0"))
    with pytest.raises(StoreError, match=f"the log ends at {last.log_offset}, but was read up to {end}"):
        LogTail(StoreOptions(copy.store)).end(end)
    assert LogTail(StoreOptions(copy.store, fail_on_data_loss=False)).end(end) == end


def test_a_file_that_goes_while_it_is_read_is_said(copy):
    options = StoreOptions(copy.store)
    parts = plan_read(options)
    gone = copy.log_files()[0]
    gone.unlink()
    with pytest.raises(StoreError) as problem:
        offsets_of(options, parts)
    assert str(problem.value).startswith(f"{gone} was deleted during the query")
    lenient = StoreOptions(copy.store, fail_on_data_loss=False)
    assert offsets_of(lenient, parts) == [record.log_offset for record in copy.log_records()]


def test_a_missing_folder_is_one_sentence(tmp_path):
    with pytest.raises(StoreError, match="nothing is not a folder; give the store's folder"):
        plan_read(StoreOptions(tmp_path / "nothing"))


def test_no_right_to_read_is_one_sentence(copy, monkeypatch):
    def refused(*_):
        raise PermissionError(13, "Permission denied", str(copy.store / "commitlog"))

    monkeypatch.setattr("gantrymq.world.real.files.RealFiles.list", refused)
    with pytest.raises(StoreError) as problem:
        plan_read(StoreOptions(copy.store))
    assert "commitlog may not be read by the user that Spark runs as" in str(problem.value)


def test_system_topics_can_be_left_out(golden):
    names = {}
    for wanted in (True, False):
        options = StoreOptions(golden("transaction").store, system_topics=wanted)
        batches = [batch for part in plan_read(options) for batch in rows_of_range(options, part, ("topic",))]
        names[wanted] = set(pa.Table.from_batches(batches)["topic"].to_pylist())
    assert names[True] - names[False] == {HALF_TOPIC, OP_TOPIC, CHECK_MAX_TIME_TOPIC}
    assert names[False]
