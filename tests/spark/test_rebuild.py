"""Rebuilding in steps: continued after a crash, with misfit ranges read again, identical to our broker's files."""

import pickle
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "store_tools"))

from small_store import LOG_FILE_BYTES, SmallStore

from gantrymq.errors import FormatError, StoreError, StoreLayoutError
from gantrymq.formats.record import encode_record
from gantrymq.world.real import RealFiles
from gantrymq_spark.jobs import rebuild as module
from gantrymq_spark.jobs.rebuild import rebuild
from gantrymq_spark.jobs.rebuild_plan import RangeStep, cut_ranges
from gantrymq_store_files.delay_levels import DELAY_LEVELS, DelayLevels
from gantrymq_store_tools.layout import Series, StoreFile
from gantrymq_store_tools.part_file import read_head
from gantrymq_store_tools.rebuild_store import rebuild_index, rebuild_queues
from gantrymq_store_tools.record_entries import EntryRules
from gantrymq_testing.failing_files import FailingFiles


@pytest.fixture
def small(tmp_path):
    store = SmallStore(tmp_path / "store")
    for number in range(60):
        store.add("Orders" if number % 3 else "Bills", number % 2, f"body {number} ".encode() * 20, f"key-{number}")
    return store


def utc(time_ms):
    return 0


def contents(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def whole(store, target):
    rebuild_queues(RealFiles(), store, target)
    rebuild_index(RealFiles(), store, target, utc)
    return contents(target)


def pickled(work, steps):
    """Steps and results go through pickle, in an order of their own, as between machines."""
    return [pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(work))(step))) for step in reversed(steps)]


@pytest.mark.parametrize("range_bytes", [500, 3000, 1 << 20])
@pytest.mark.parametrize("shares", [1, 3, 100])
def test_steps_may_be_worked_on_anywhere_in_any_order(small, tmp_path, range_bytes, shares):
    small.write()
    done = rebuild(RealFiles(), small.root, tmp_path / "made", utc, run=pickled, range_bytes=range_bytes, shares=shares)
    assert contents(tmp_path / "made") == whole(small.root, tmp_path / "whole")
    assert (done.queues.same_files, done.queues.entries) == (4, 60)
    assert (done.index.same_files, done.index.files, done.index.entries) == (4, 4, 180)
    assert not done.damaged


@pytest.mark.slow
@pytest.mark.parametrize("done", [False, True])
def test_a_rebuild_that_failed_at_any_call_goes_on_and_leaves_nothing_behind(small, tmp_path, done):
    small.write()
    wanted = whole(small.root, tmp_path / "whole")
    counting = FailingFiles(RealFiles())
    rebuild(counting, small.root, tmp_path / "counted", utc, range_bytes=9000)
    assert counting.changes > 50
    for number in range(0, counting.changes, 3):
        target = tmp_path / str(number)
        with pytest.raises(OSError):
            rebuild(FailingFiles(RealFiles(), number, done=done), small.root, target, utc, range_bytes=9000)
        made = {path.name for path in target.iterdir()} - {".rebuild"} if target.exists() else set()
        for name in made:  # what is there is whole
            assert (
                contents(target / name).items()
                <= {path.split("/", 1)[1]: data for path, data in wanted.items() if path.startswith(name)}.items()
            )
        if not made:
            rebuild(RealFiles(), small.root, target, utc, range_bytes=9000)
            assert contents(target) == wanted


def test_parts_that_are_there_are_not_read_again(small, tmp_path, monkeypatch):
    small.write()
    read = []
    work = module.read_range_step
    monkeypatch.setattr(
        module, "read_range_step", lambda plan, step, files: read.append(step) or work(plan, step, files)
    )

    def stopped(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as stop:
        stop.setattr(module, "write_queues", stopped)
        with pytest.raises(KeyboardInterrupt):
            rebuild(RealFiles(), small.root, tmp_path / "made", utc)
    parts = sorted((tmp_path / "made" / ".rebuild" / "parts").iterdir())
    assert len(parts) == len(read) == 3
    times = [path.stat().st_mtime_ns for path in parts]
    parts[1].write_bytes(b"torn")
    with monkeypatch.context() as stop:
        stop.setattr(module, "write_queues", stopped)
        with pytest.raises(KeyboardInterrupt):
            rebuild(RealFiles(), small.root, tmp_path / "made", utc)
    again = [path.stat().st_mtime_ns for path in parts]
    assert [before == after for before, after in zip(times, again, strict=True)] == [True, False, True]
    small.spoil_log(small.records[3][0] + 100, b"?")  # another log now
    done = rebuild(RealFiles(), small.root, tmp_path / "made", utc)
    assert done.damaged
    assert contents(tmp_path / "made") == whole(small.root, tmp_path / "whole")


def test_a_range_that_begins_in_bytes_like_a_record_is_read_again_with_the_one_before(tmp_path):
    inner_at = 2000
    forged = encode_record(topic="Forged", queue_id=9, body=b"x" * 200, properties=b"", log_offset=inner_at)
    small = SmallStore(tmp_path / "forged")
    assert small.add("Forged", 0, b"?" * (inner_at - 88) + forged + b"?" * 1000) == 0
    small.write()
    path, _ = small.log_file(0)
    assert path.read_bytes()[inner_at : inner_at + len(forged)] == forged
    done = rebuild(RealFiles(), small.root, tmp_path / "made", utc, range_bytes=1500)
    assert contents(tmp_path / "made") == whole(small.root, tmp_path / "whole")
    assert done.queues.entries == 1
    assert done.queues.records == 1


def test_lost_records_and_moved_offsets_are_told_as_one_process_tells_them(small, tmp_path):
    small.add("Orders", 0, b"moved", queue_offset=4711)
    small.next["Orders", 0] = 21
    small.add("Orders", 0, b"next")
    small.add("../etc", 0, b"refused")
    small.write()
    small.spoil_log(small.records[7][0] + 100, b"?")
    done = rebuild(RealFiles(), small.root, tmp_path / "made", utc, range_bytes=3000, shares=2)
    one = rebuild_queues(RealFiles(), small.root, tmp_path / "whole")
    assert done.queues.to_json() | {"target": ""} == one.to_json() | {"target": ""}
    assert {finding.kind for finding in one.findings} == {"log.damaged", "queue.offset", "queue.unusable"}
    assert done.queues.lost > 0


def test_only_what_is_asked_for_is_made(small, tmp_path):
    small.write()
    done = rebuild(RealFiles(), small.root, tmp_path / "made", utc, index=False)
    assert done.index is None
    assert list(done.to_json()) == ["queues"]
    assert [path.name for path in (tmp_path / "made").iterdir()] == ["consumequeue"]
    done = rebuild(RealFiles(), small.root, tmp_path / "made", utc, queues=False)
    assert done.queues is None
    assert contents(tmp_path / "made") == whole(small.root, tmp_path / "whole")


def test_nothing_is_written_over(small, tmp_path):
    small.write()
    with pytest.raises(StoreError, match="already exists"):
        rebuild(RealFiles(), small.root, small.root, utc)


def test_bytes_that_are_no_log_are_refused(small, tmp_path):
    small.write()
    for path in (small.root / "commitlog").iterdir():
        path.write_bytes(b"\x5a" * LOG_FILE_BYTES)
    with pytest.raises(StoreLayoutError, match="no sound record"):
        rebuild(RealFiles(), small.root, tmp_path / "made", utc)


def test_ranges_cover_the_log_and_end_where_files_begin():
    log = Series((StoreFile(Path("a"), 100, 100), StoreFile(Path("b"), 200, 100), StoreFile(Path("c"), 400, 50)), 100)
    steps = cut_ranges(log, 70)
    assert steps == [
        *(RangeStep(100, 170), RangeStep(170, 200)),
        *(RangeStep(200, 270), RangeStep(270, 400)),  # a file is missing
        *(RangeStep(400, 470), RangeStep(470, 500)),
    ]
    with pytest.raises(ValueError, match="at least 1"):
        cut_ranges(log, 0)


def test_a_file_that_is_no_part_is_named(tmp_path):
    (tmp_path / "x.part").write_bytes(b"something else")
    with pytest.raises(FormatError, match=r"x\.part is not a part file"):
        read_head(RealFiles(), tmp_path / "x.part")


def test_what_our_broker_wrote_comes_out_byte_for_byte(gantrymq_broker_factory, tmp_path):
    pytest.importorskip("gantrymq_storage_mmap")
    sizes = {"mappedFileSizeCommitLog": 65536, "mappedFileSizeConsumeQueue": 2000, "maxHashSlotNum": 50}
    broker = gantrymq_broker_factory({"store": "mmap", "maxIndexNum": 200, "diskSpaceWarningLevelRatio": 99, **sizes})
    for topic in ("Orders", "Bills"):
        broker.create_topic(topic, 2)
    for number in range(400):
        topic = "Orders" if number % 3 else "Bills"
        broker.send(topic, b"body" * (number % 50 + 1), tags=f"t{number % 5}", keys=f"k{number} all")
    root = Path(broker.settings.text("storePathRootDir"))
    broker.stop()
    before = contents(root)
    done = rebuild(RealFiles(), root, tmp_path / "made", utc, range_bytes=10_000, run=pickled)
    assert not done.damaged
    queues = {path: data for path, data in before.items() if path.startswith("consumequeue/")}
    made = contents(tmp_path / "made")
    assert {path: data for path, data in made.items() if not path.startswith("index/")} == queues
    index = [data for path, data in sorted(before.items()) if path.startswith("index/")]
    assert [data for path, data in sorted(made.items()) if path.startswith("index/")] == index
    assert len(queues) > 4
    assert len(index) > 4


def test_due_times_are_those_of_the_recorded_levels_and_others_are_reported(tmp_path):
    small = SmallStore(tmp_path / "store")
    for number in range(4):
        small.add("SCHEDULE_TOPIC_XXXX", 0, b"later", properties=b"DELAY\x011\x02")
        small.add("Orders", 0, b"%d" % number)
    levels = DelayLevels.of("20m 1h")
    small.write(EntryRules(delay_levels=levels))
    unknown = rebuild(RealFiles(), small.root, tmp_path / "unknown", utc, index=False)
    (finding,) = unknown.queues.findings
    assert (finding.kind, finding.extent, unknown.damaged) == ("queue.due_time", 4, True)
    assert "--delay-levels" in finding.text
    named = rebuild(RealFiles(), small.root, tmp_path / "named", utc, index=False, delay_levels="20m 1h", run=pickled)
    (small.root / DELAY_LEVELS).write_bytes(levels.pack())
    recorded = rebuild(RealFiles(), small.root, tmp_path / "recorded", utc, index=False)
    for each in (named, recorded):
        assert (each.queues.same_files, each.queues.findings) == (2, [])
