"""Full log files of a backup as hard links, to the store or to an earlier backup; the limit of the rate."""

import errno
import json

import pytest
from click.testing import CliRunner
from small_store import LOG_FILE_BYTES, START_MS

from gantrymq.cli import main
from gantrymq.errors import StoreError
from gantrymq_store_files.checkpoint import Checkpoint, encode_checkpoint
from gantrymq_store_files.file_names import file_name
from gantrymq_store_tools.backup import backup_store
from gantrymq_store_tools.backup_manifest import read_manifest
from gantrymq_store_tools.commands.progress import Paced
from gantrymq_store_tools.findings import ProgressListener
from gantrymq_store_tools.restore import restore_store
from gantrymq_testing.forwarding import ForwardingFiles


class NoLinks(ForwardingFiles):
    """A file system without hard links."""

    def around(self, name, path, proceed, *, position=0, length=0):
        if name == "link":
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        return proceed()


class Reads(ForwardingFiles):
    """Counts the bytes read from each log file of the store."""

    def __init__(self, inner, folder):
        super().__init__(inner)
        self.folder, self.read_bytes = folder, {}

    def around(self, name, path, proceed, *, position=0, length=0):
        if name == "pread" and path.parent == self.folder:
            self.read_bytes[path.name] = self.read_bytes.get(path.name, 0) + length
        return proceed()


def log_files(folder):
    return {path.name: path.stat() for path in (folder / "commitlog").iterdir()}


def linked(one, other):
    """Return the names of the log files that are one file in both folders."""
    first, second = log_files(one), log_files(other)
    return sorted(name for name in first.keys() & second.keys() if first[name].st_ino == second[name].st_ino)


def running(small, covered):
    durable = START_MS + 500 * covered + 3000
    (small.root / "checkpoint").write_bytes(encode_checkpoint(Checkpoint(durable, durable, 0)))
    (small.root / "abort").write_text("1")


def names_before(log_offset):
    return [file_name(start) for start in range(0, log_offset - LOG_FILE_BYTES + 1, LOG_FILE_BYTES)]


@pytest.mark.parametrize("covered", [5, 30, 53])
def test_files_before_the_checkpoint_are_linked_and_others_copied(small, tmp_path, covered):
    running(small, covered)
    before = small.contents()
    report = backup_store(small.files, small.root, tmp_path / "backup", 77, link=True)
    expected = names_before(small.records[covered][0])
    assert linked(small.root, tmp_path / "backup" / "store") == expected
    assert report.linked == len(expected)
    assert not report.damaged
    copied = backup_store(small.files, small.root, tmp_path / "copied", 77)
    assert (copied.linked, copied.manifest) == (0, report.manifest)
    restore_store(small.files, tmp_path / "backup", tmp_path / "made")
    assert linked(tmp_path / "backup" / "store", tmp_path / "made") == []
    assert small.contents() == before


def test_the_last_file_of_a_clean_store_is_copied(small, tmp_path):
    backup_store(small.files, small.root, tmp_path / "backup", 77, link=True)
    last, size = small.records[-1]
    assert linked(small.root, tmp_path / "backup" / "store") == names_before(last + size)


def test_files_are_copied_if_the_file_system_has_no_links(small, tmp_path):
    first = backup_store(small.files, small.root, tmp_path / "first", 77)
    found = backup_store(
        NoLinks(small.files), small.root, tmp_path / "backup", 77, link=True, previous=tmp_path / "first"
    )
    assert (found.linked, found.manifest) == (0, first.manifest)


def test_an_earlier_backup_is_linked_and_not_read_again(small, tmp_path):
    running(small, 30)
    backup_store(small.files, small.root, tmp_path / "first", 77)
    running(small, 53)
    files = Reads(small.files, small.root / "commitlog")
    report = backup_store(files, small.root, tmp_path / "second", 78, previous=tmp_path / "first")
    # The second one has more before its checkpoint: the first has these files, too, and its checksums.
    expected = names_before(small.records[53][0])
    assert linked(tmp_path / "first" / "store", tmp_path / "second" / "store") == expected
    assert report.linked == len(expected)
    assert read_manifest(small.files, tmp_path / "second").files != ()
    assert not report.damaged
    restore_store(small.files, tmp_path / "second", tmp_path / "made")
    assert files.read_bytes[expected[0]] < 2 * LOG_FILE_BYTES  # only to find the checkpoint and the samples


@pytest.mark.parametrize("place", ["first", "last", "after"])
def test_a_file_that_differs_from_that_of_the_earlier_backup_is_copied(small, tmp_path, place):
    name = file_name(0)
    backup_store(small.files, small.root, tmp_path / "first", 77)
    stored = next(
        file for file in read_manifest(small.files, tmp_path / "first").files if file.path == f"commitlog/{name}"
    )
    at = {"first": 90, "last": stored.used - 1, "after": stored.used}[place]
    data = bytearray((small.root / "commitlog" / name).read_bytes())
    data[at] ^= 1
    (small.root / "commitlog" / name).write_bytes(data)
    backup_store(small.files, small.root, tmp_path / "second", 78, previous=tmp_path / "first", check=False)
    assert name not in linked(tmp_path / "first" / "store", tmp_path / "second" / "store")
    assert (tmp_path / "second" / "store" / "commitlog" / name).read_bytes() == data


def test_an_earlier_backup_must_be_complete(small, tmp_path):
    (tmp_path / "first").mkdir()
    with pytest.raises(StoreError, match="is not a backup"):
        backup_store(small.files, small.root, tmp_path / "second", 78, previous=tmp_path / "first")
    assert not (tmp_path / "second").exists()


def test_the_options_of_the_command(small, tmp_path):
    for name, options in (
        ("first", ["--link"]),
        ("second", ["--previous", tmp_path / "first", "--mb-per-second", "1000"]),
    ):
        words = ["store", "backup", small.root, tmp_path / name, *options, "--output", "json"]
        done = CliRunner().invoke(main, list(map(str, words)))
        assert done.exit_code == 0, done.output
        assert json.loads(done.stdout)["linked"] > 0


def test_reads_are_paced():
    time, pauses, told = [100.0], [], []

    class Progress(ProgressListener):
        def advance(self, read_bytes):
            told.append(read_bytes)

    def pause(seconds):
        pauses.append(seconds)
        time[0] += seconds

    paced = Paced(Progress(), 1000.0, lambda: time[0], pause)
    paced.begin("reading", 5000)
    paced.advance(500)
    assert pauses == [pytest.approx(0.5)]
    time[0] += 0.1
    paced.advance(500)
    assert time[0] == pytest.approx(101.1)
    time[0] += 60.0  # a pause of the command itself is not made up for
    for _ in range(2):
        paced.advance(1000)
    paced.end()
    assert time[0] == pytest.approx(163.1)
    for _ in range(20):
        paced.advance(1)  # too short to pause for each
    assert len(pauses) < 10
    assert time[0] <= 163.13
    assert sum(told) == 3020
