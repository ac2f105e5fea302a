"""Checks of a store: problems are found with their position; nothing is written."""

import pytest
from small_store import START_MS

from gantrymq.errors import StoreLayoutError
from gantrymq.world.real import RealFiles
from gantrymq_store_files.checkpoint import Checkpoint, encode_checkpoint
from gantrymq_store_files.file_names import file_name
from gantrymq_store_files.filler import fillers
from gantrymq_store_files.queue_entry import ENTRY, PRE_BLANK
from gantrymq_store_tools.check import check_store
from gantrymq_testing.recording import RecordingFiles

ORDERS = "consumequeue/Orders/0"


def checked(small, **options):
    before = small.contents()
    report = check_store(small.files, small.root, **options)
    assert small.contents() == before
    return report


def found(small):
    """Kind, path and place of each damage."""
    return [(each.kind, each.path, each.place) for each in checked(small).findings if each.damage]


def queue_file(small):
    return small.root / ORDERS / file_name(0)


def test_a_sound_store_has_no_findings_and_is_counted(small):
    report = checked(small)
    assert report.findings == []
    assert not report.damaged
    assert (report.records, report.queue_entries, report.index_entries) == (60, 60, 180)
    assert report.log_end == sum(small.records[-1])
    assert report.to_json()["damaged"] is False


def test_everything_is_opened_for_reading_only(small):
    class ReadOnly(RealFiles):
        def open(self, path, *, create=False, read_only=False):
            assert read_only
            assert not create
            return super().open(path, read_only=True)

    recorded = RecordingFiles(ReadOnly())
    assert not check_store(recorded, small.root).damaged
    assert {call.name for call in recorded.calls} <= {"stat", "list", "open", "read", "pread", "size", "close"}


def test_a_damaged_record_is_found_in_the_log_the_queue_and_the_index(small):
    place, size = small.records[7]
    small.spoil_log(place + 100, b"?")
    kinds = found(small)
    assert kinds[0] == ("log.damaged", small.log_file(place)[0].relative_to(small.root).as_posix(), place)
    assert {kind for kind, _, _ in kinds} == {"log.damaged", "queue.missing", "index.no_record"} - {"queue.missing"} | {
        "queue.no_record"
    }
    first = checked(small).findings[0]
    assert first.extent == size
    assert "CRC" in first.text


@pytest.mark.parametrize(
    ("entry", "kind"),
    [
        (bytes(20), "queue.missing"),
        (PRE_BLANK, "queue.missing"),
        (ENTRY.pack(5, 300, 1), "queue.wrong"),
    ],
)
def test_a_wrong_queue_entry_is_found(small, entry, kind):
    small.spoil(queue_file(small), 3 * 20, entry)
    assert found(small) == [(kind, ORDERS, 3)]


def test_a_wrong_tags_code_is_found(small):
    small.spoil(queue_file(small), 3 * 20 + 19, b"\x55")
    assert found(small) == [("queue.code", ORDERS, 3)]


def test_an_ext_address_without_a_unit_is_found(small):
    small.spoil(queue_file(small), 3 * 20 + 12, (-(1 << 63)).to_bytes(8, "big", signed=True))
    assert found(small) == [("ext.wrong", ORDERS, 3)]


def test_neighbouring_entries_make_one_finding(small):
    small.spoil(queue_file(small), 3 * 20, bytes(4 * 20))
    (finding,) = checked(small).findings
    assert (finding.kind, finding.place, finding.extent) == ("queue.missing", 3, 4)


def test_an_entry_ahead_of_the_log_is_found(small):
    end = small.next["Orders", 0]
    small.spoil(queue_file(small), end * 20, ENTRY.pack(sum(small.records[-1]), 300, 0))
    assert found(small) == [("queue.no_record", ORDERS, end)]


def test_bytes_behind_a_queue_s_end_are_found(small):
    end = small.next["Orders", 0]
    small.spoil(queue_file(small), (end + 9) * 20, ENTRY.pack(0, 300, 0))
    small.spoil(queue_file(small), (end + 20) * 20, b"\xff" * 5)
    assert found(small) == [("queue.stray", ORDERS, end + 9), ("queue.stray", ORDERS, end + 20)]


def test_a_missing_queue_is_found(small):
    queue_file(small).unlink()
    (finding,) = checked(small).findings
    assert (finding.kind, finding.place, finding.extent) == ("queue.missing", 0, small.next["Orders", 0])


def test_a_topic_that_was_deleted_is_no_damage(small):
    for number in (0, 1):
        (small.root / "consumequeue" / "Orders" / str(number) / file_name(0)).unlink()
    (small.root / "config" / "topics.json").write_text('{"topicConfigTable":{"Bills":{"topicName":"Bills"}}}')
    report = checked(small)
    assert not report.damaged
    assert [each.kind for each in report.findings] == ["queue.deleted"]


def test_a_topic_made_anew_is_no_damage_but_an_offset_used_twice_is(tmp_path):
    from small_store import SmallStore

    for again, kind in ((0, "queue.restarted"), (3, "queue.double")):
        store = SmallStore(tmp_path / str(again))
        for offset in (0, 1, 2, 3, 4, again, again + 1):
            store.add("T", 0, b"x", f"k{offset}", queue_offset=offset)
        store.write()
        report = checked(store)
        assert [each.kind for each in report.findings] == [kind]
        assert report.damaged is (kind == "queue.double")


def index_file(small, number=0):
    return sorted((small.root / "index").iterdir())[number]


@pytest.mark.parametrize(
    ("position", "data", "kinds"),
    [
        (16 + 7, b"\x11", {"index.header"}),  # begin offset
        (24 + 7, b"\x11", {"index.header"}),  # end offset
        (32 + 3, b"\x01", {"index.header"}),  # used slots
        (40 + 4 * 3 + 3, b"\x7f", {"index.chain"}),  # a slot
        (40 + 20 * 4 + 20 * 5 + 3, b"\x55", {"index.wrong", "index.chain"}),  # an entry's hash
        (40 + 20 * 4 + 20 * 5 + 12, b"\x55", {"index.wrong"}),  # its seconds
        (40 + 20 * 4 + 20 * 5 + 19, b"\x2a", {"index.chain"}),  # its predecessor
    ],
)
def test_a_wrong_field_of_an_index_file_is_found(small, position, data, kinds):
    small.spoil(index_file(small), position, data)
    report = checked(small)
    assert report.damaged
    assert kinds <= {each.kind for each in report.findings}


def test_a_missing_index_file_is_found_wherever_it_was(small):
    names = sorted((small.root / "index").iterdir())
    assert len(names) == 4
    for path in names:
        content = path.read_bytes()
        path.unlink()
        assert {kind for kind, _, _ in found(small)} == {"index.missing"}
        path.write_bytes(content)
    for path in names:
        path.unlink()
    report = checked(small)
    assert [(each.kind, each.damage) for each in report.findings] == [("index.absent", False)]


def test_an_index_file_that_recovery_makes_anew_is_worth_knowing_only(small):
    small.spoil(index_file(small, 3), 40 + 4 * 3 + 3, b"\x7f")
    (small.root / "abort").write_text("1")
    vouched = Checkpoint(small.last_ms, small.last_ms, START_MS)
    (small.root / "checkpoint").write_bytes(encode_checkpoint(vouched))
    report = checked(small)
    assert {(each.kind, each.damage) for each in report.findings} == {("index.chain", False), ("store.abort", False)}
    assert not report.clean_stop


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (bytes(4096), "checkpoint.empty"),
        (b"\0" * 20, "checkpoint.short"),
        (encode_checkpoint(Checkpoint(1 << 50, 5, 5)), "checkpoint.ahead"),
        (encode_checkpoint(Checkpoint(5, -5, 5)), "checkpoint.ahead"),
    ],
)
def test_a_checkpoint_that_cannot_be_is_found(small, content, kind):
    (small.root / "checkpoint").write_bytes(content)
    assert [each for each, _, _ in found(small)] == [kind]


def test_without_a_checkpoint_the_store_is_sound(small):
    (small.root / "checkpoint").unlink()
    report = checked(small)
    assert [(each.kind, each.damage) for each in report.findings] == [("checkpoint.missing", False)]


def test_a_config_file_that_is_no_json_is_found(small):
    path = small.root / "config" / "topics.json"
    path.with_name("topics.json.bak").write_bytes(path.read_bytes())
    path.write_text('{"topicConfigTable":{')
    (finding,) = checked(small).findings
    assert finding.kind == "config.broken"
    assert "topics.json.bak is sound" in finding.text


def test_a_log_without_one_sound_record_is_refused(small):
    for path in (small.root / "commitlog").iterdir():
        path.write_bytes(b"\x55" * path.stat().st_size)
    with pytest.raises(StoreLayoutError, match="no sound record"):
        check_store(small.files, small.root)


def test_progress_reaches_the_log_s_length(small):
    from gantrymq_store_tools.findings import ProgressListener

    class Told(ProgressListener):
        total = read = 0

        def begin(self, what, total_bytes):
            self.total += total_bytes

        def advance(self, read_bytes):
            self.read += read_bytes

    told = Told()
    checked(small, progress=told)
    assert told.read == told.total > 0


def test_a_filler_is_no_message(small):
    place, size = small.records[7]
    ((_, filler),) = fillers(place, size, START_MS, "note")
    small.spoil_log(place, filler)
    report = checked(small)
    assert report.records == 59
    assert {each.kind for each in report.findings} == {"queue.no_record", "index.no_record"}


def test_an_entry_equal_to_its_neighbour_indicates_a_lost_record(small):
    place, size = small.records[12]  # Bills/0, queue offset 2
    ((_, filler),) = fillers(place, size, START_MS, "note")
    small.spoil_log(place, filler)
    queue = small.root / "consumequeue" / "Bills" / "0" / file_name(0)
    content = queue.read_bytes()
    for neighbour, kind in ((1, "queue.lost"), (3, "queue.lost"), (5, "queue.no_record")):
        small.spoil(queue, 2 * 20, content[neighbour * 20 : neighbour * 20 + 20])
        findings = [each for each in checked(small).findings if each.kind.startswith("queue.")]
        assert [(each.kind, each.place, each.damage) for each in findings] == [(kind, 2, kind != "queue.lost")]
