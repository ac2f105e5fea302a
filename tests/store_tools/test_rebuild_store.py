"""Rebuilding queues and index in a sibling folder."""

import pytest
from small_store import INDEX

from gantrymq.errors import StoreError
from gantrymq_store_files.index import IndexHeader, IndexLayout, write_header
from gantrymq_store_tools.index_files import find_index_layout, usual_layout
from gantrymq_store_tools.layout import StoreFile, find_layout
from gantrymq_store_tools.open_files import OpenFiles
from gantrymq_store_tools.rebuild_store import rebuild_index, rebuild_queues, sibling_folder


def part(contents, name):
    return {path: data for path, data in contents.items() if path.startswith(f"{name}/")}


def test_what_is_made_equals_what_is_there(small, tmp_path):
    before = small.contents()
    queues = rebuild_queues(small.files, small.root, tmp_path / "made")
    index = rebuild_index(small.files, small.root, tmp_path / "made", lambda time_ms: 0)
    assert small.contents() == before
    assert small.contents(tmp_path / "made") == part(before, "consumequeue") | part(before, "index")
    assert (queues.files, queues.same_files, queues.entries) == (4, 4, 60)
    assert (index.files, index.same_files, index.entries) == (4, 4, 180)
    assert not queues.damaged


def test_nothing_is_written_over(small, tmp_path):
    rebuild_queues(small.files, small.root, tmp_path / "made")
    with pytest.raises(StoreError, match="--to"):
        rebuild_queues(small.files, small.root, tmp_path / "made")


def test_the_folder_is_beside_the_store(tmp_path):
    assert sibling_folder(tmp_path / "store", "rebuilt") == tmp_path / "store.rebuilt"


def test_a_queue_without_a_record_keeps_its_entries_for_records_that_left_the_log(small, tmp_path):
    small.log_file(0)[0].unlink()  # as retention does it
    gone = small.root / "consumequeue" / "Old" / "0"
    gone.mkdir(parents=True)
    source = small.root / "consumequeue" / "Bills" / "0" / f"{0:020d}"
    (gone / source.name).write_bytes(source.read_bytes()[:60].ljust(6_000_000, b"\0"))
    report = rebuild_queues(small.files, small.root, tmp_path / "made")
    kept = tmp_path / "made" / "consumequeue" / "Old" / "0" / source.name
    assert kept.read_bytes() == (gone / source.name).read_bytes()
    assert not report.damaged


def test_offsets_whose_record_is_lost_are_counted(small, tmp_path):
    small.spoil_log(small.records[7][0] + 100, b"?")
    report = rebuild_queues(small.files, small.root, tmp_path / "made")
    assert report.lost == 1
    assert report.damaged


@pytest.mark.parametrize("layout", [INDEX, IndexLayout(7, 200), IndexLayout(1000, 31), IndexLayout(100, 400)])
def test_slots_and_entries_are_found_from_the_files(small, tmp_path, layout):
    rebuild_index(small.files, small.root, tmp_path / "made", lambda time_ms: 0, index_layout=layout)
    (tmp_path / "made" / "commitlog").mkdir()
    (tmp_path / "made" / "commitlog" / f"{0:020d}").write_bytes(bytes(10))
    found = find_layout(small.files, tmp_path / "made")
    assert find_index_layout(found.index, OpenFiles(small.files)) == layout


def test_an_index_of_the_first_message_only_is_not_searched_for_zeros(small, tmp_path):
    """A store that a broker has just opened: the header is on disk, and of the entries nothing."""

    class Counted(OpenFiles):
        reads = 0

        def read(self, path, position, length):
            self.reads += 1
            return super().read(path, position, length)

    path = tmp_path / "20261128000000000"
    path.write_bytes(write_header(IndexHeader(1, 1, 0, 0, 1, 3)) + bytes(84_000))
    opened = Counted(small.files)
    assert find_index_layout([StoreFile(path, 0, 84_040)], opened) is None
    assert opened.reads < 20


def test_rocketmq_s_own_proportion_is_known():
    assert usual_layout(420_000_040) == IndexLayout()
    assert usual_layout(420_000_041) is None
