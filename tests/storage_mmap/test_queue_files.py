import errno

import pytest

from gantrymq_storage_mmap.queues import files as queue_files
from gantrymq_storage_mmap.queues.files import MOST_PINNED, QueueFiles
from gantrymq_storage_mmap.queues.segmented_file import SegmentedFile


class RecordedOpens:
    """Files that know each one that was opened, and whether it is closed."""

    def __init__(self, inner, faults):
        self._inner, self.faults = inner, faults
        self.all = []

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def open(self, path, *, create=False):
        file = self._inner.open(path, create=create)
        self.all.append(file)
        file.closed = 0
        close = file.close

        def closing():
            file.closed += 1
            close()

        file.close = closing
        return file

    def of(self, segments):
        return [file for file in self.all if file.path.parent == segments.folder]


@pytest.fixture
def disk(rig):
    return RecordedOpens(rig.world.files, rig.faults)


@pytest.fixture
def files(rig, disk):
    made = QueueFiles(disk, rig.root / "queues", 100, 2)
    yield made
    made.close()
    assert all(file.closed == 1 for file in disk.all)


def segmented_files(files, count):
    return [SegmentedFile(files, "T", n) for n in range(count)]


def write(files, *segmented_files, data=b"x"):
    for segments in segmented_files:
        files.write(segments, 0, data, 0)


def closed(disk, *segmented_files):
    return [[file.closed for file in disk.of(segments)] for segments in segmented_files]


def test_a_file_that_was_written_stays_open_until_it_is_synced(files, disk):
    all_rows = segmented_files(files, 5)
    write(files, *all_rows)
    assert files.open_count == 5  # two unwritten files may be open
    taken, folders = files.begin_sync()
    assert taken == disk.all
    assert [folder.name for folder in folders] == ["queues", "T", "0", "1", "2", "3", "4"]
    assert closed(disk, *all_rows) == [[0]] * 5
    files.end_sync(failed=False)
    assert closed(disk, *all_rows) == [[1], [1], [1], [0], [0]]
    assert files.begin_sync() == ([], [])


def test_a_file_that_is_read_only_is_closed_when_others_are_used(files, disk):
    all_rows = segmented_files(files, 3)
    write(files, *all_rows)
    files.begin_sync()
    files.end_sync(failed=False)
    for segments in all_rows:
        files.existing(segments, 0)
    assert closed(disk, *all_rows) == [[1, 1], [1, 0], [1, 0]]


def test_one_that_fell_out_of_use_before_its_sync_is_not_opened_again(files, disk):
    all_rows = segmented_files(files, 5)
    write(files, *all_rows)
    write(files, all_rows[0])
    assert closed(disk, all_rows[0]) == [[0]]
    files.begin_sync()
    write(files, all_rows[1])
    assert closed(disk, all_rows[1]) == [[0]]
    files.end_sync(failed=False)
    assert closed(disk, *all_rows) == [[0], [0], [1], [1], [1]]
    assert files.begin_sync()[0] == disk.of(all_rows[1])


def test_eviction_closes_neither_what_is_written_nor_what_a_thread_syncs(files, disk):
    all_rows = segmented_files(files, 6)
    write(files, *all_rows[:2])
    files.begin_sync()
    write(files, *all_rows[2:])
    for segments in all_rows:
        files.existing(segments, 0)
    assert not any(file.closed for file in disk.all)
    files.end_sync(failed=False)
    assert [bool(file.closed) for segments in all_rows for file in disk.of(segments)] == [True, True, *[False] * 4]


def test_beyond_the_bound_no_file_is_kept_for_the_sync(files, disk):
    all_rows = segmented_files(files, MOST_PINNED + 3)
    write(files, *all_rows[:MOST_PINNED])
    assert (files.many, files.open_count) == (False, MOST_PINNED)
    write(files, all_rows[MOST_PINNED])
    assert (files.many, files.open_count) == (True, 2)
    write(files, *all_rows[MOST_PINNED + 1 :])
    assert files.open_count == 2
    taken, folders = files.begin_sync()
    assert (taken, len(folders), files.many) == ([], 2 + len(all_rows), False)
    write(files, all_rows[0])
    files.end_sync(failed=False)
    assert files.begin_sync()[0] == disk.of(all_rows[0])[-1:]


def test_after_a_failed_sync_nothing_says_which_files_and_names_are_durable(files):
    write(files, *segmented_files(files, 1))
    files.begin_sync()
    files.end_sync(failed=True)
    assert files.many
    files.begin_sync()
    files.end_sync(failed=False)
    assert not files.many


def test_a_row_that_is_forgotten_while_its_file_is_synced_is_closed_behind_that(files, disk):
    gone, stays = segmented_files(files, 2)
    write(files, gone, stays)
    files.begin_sync()
    files.forget(gone)
    assert closed(disk, gone) == [[0]]
    files.end_sync(failed=False)
    assert closed(disk, gone, stays) == [[1], [0]]


def test_a_row_that_is_forgotten_is_not_synced_any_more(files, disk):
    gone, stays, more, most = segmented_files(files, 4)
    write(files, gone, stays, more, most)  # the first is not among the recent ones
    files.forget(gone)
    assert closed(disk, gone) == [[1]]
    assert files.begin_sync()[0] == [disk.of(segments)[0] for segments in (stays, more, most)]
    files.end_sync(failed=False)


def test_one_file_of_a_row_is_forgotten_alone(files, disk):
    (segments,) = segmented_files(files, 1)
    files.write(segments, 0, b"x", 0)
    files.write(segments, 100, b"y", 0)
    files.forget_file(segments, 0)
    assert closed(disk, segments) == [[1, 0]]
    assert files.begin_sync()[0] == disk.of(segments)[1:]
    files.end_sync(failed=False)


def test_a_row_made_anew_under_the_same_name_has_files_of_its_own(files, disk):
    (gone,), (anew,) = segmented_files(files, 1), segmented_files(files, 1)
    write(files, gone, data=b"gone")
    files.begin_sync()
    files.forget(gone)
    gone.folder.rename(files.folder / "aside")
    write(files, anew, data=b"anew")
    files.end_sync(failed=False)
    assert files.existing(anew, 0).pread(5, 0) == b"anew\0"
    assert [file.closed for file in disk.all] == [1, 0]


def test_closing_closes_each_file_once(files, disk):
    all_rows = segmented_files(files, 4)
    write(files, *all_rows)
    files.begin_sync()
    write(files, *all_rows[:2])
    files.close()
    assert all(file.closed == 1 for file in disk.all)
    assert files.open_count == 0


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_without_descriptors_left_even_files_that_wait_for_their_sync_are_let_go(files, disk, number):
    all_rows = segmented_files(files, 6)
    write(files, *all_rows[:5])
    disk.faults.once, disk.faults.once_number = "create", number
    write(files, all_rows[5])
    assert (files.many, files.open_count) == (True, 1)
    assert [bool(file.closed) for file in disk.all] == [True] * 5 + [False]


def test_a_process_that_has_nothing_to_give_back_is_told(files, disk):
    disk.faults.failing = {"create": errno.EMFILE}
    with pytest.raises(OSError, match="Too many open files"):
        write(files, *segmented_files(files, 1))
    disk.faults.failing = {}


def test_a_short_file_gets_its_length_when_it_is_written(files):
    (segments,) = segmented_files(files, 1)
    segments.folder.mkdir(parents=True)
    path = segments.folder / f"{0:020d}"
    path.write_bytes(b"")
    assert files.existing(segments, 0).pread(4, 0) == b""
    assert path.stat().st_size == 0
    write(files, segments, data=b"abc")
    assert path.read_bytes() == b"abc".ljust(100, b"\0")


def test_the_bound_of_open_files_holds_for_reading(rig, disk, monkeypatch):
    monkeypatch.setattr(queue_files, "MOST_PINNED", 0)
    files = QueueFiles(disk, rig.root / "queues", 100, 3)
    all_rows = segmented_files(files, 10)
    write(files, *all_rows)
    assert all(files.existing(segments, 0).pread(1, 0) == b"x" for segments in all_rows)
    assert files.open_count == 3
    files.close()
