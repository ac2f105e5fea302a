"""Detection of a store's layout."""

import pytest
from small_store import LOG_FILE_BYTES

from gantrymq.errors import StoreLayoutError
from gantrymq.model.queue import Queue
from gantrymq.world.real import RealFiles
from gantrymq_store_tools.layout import find_layout


def kinds(layout):
    return [finding.kind for finding in layout.findings]


def test_sizes_are_found_from_the_files(small):
    layout = find_layout(small.files, small.root)
    assert layout.log.file_bytes == LOG_FILE_BYTES
    assert layout.queues[Queue("Orders", 1)].file_bytes == 6_000_000
    assert layout.findings == ()
    assert [file.path.name for file in layout.configs] == ["topics.json"]
    assert not layout.abort


def test_a_file_of_another_size_is_a_finding_and_does_not_change_the_size(small):
    path = sorted((small.root / "commitlog").iterdir())[-1]
    path.write_bytes(path.read_bytes()[:1000])
    layout = find_layout(small.files, small.root)
    assert layout.log.file_bytes == LOG_FILE_BYTES
    assert kinds(layout) == ["layout.log_size"]
    assert "instead of 8192 (mappedFileSizeCommitLog)" in layout.findings[0].text


def test_a_single_log_file_that_was_cut_gets_a_size_that_fits_its_name(tmp_path):
    folder = tmp_path / "commitlog"
    folder.mkdir()
    (folder / f"{8192 * 3:020d}").write_bytes(bytes(5000))
    layout = find_layout(RealFiles(), tmp_path)
    assert layout.log.file_bytes == 6144  # the smallest size whose multiple the name is
    assert kinds(layout) == ["layout.log_size"]


def test_what_does_not_belong_there_is_a_finding(small):
    (small.root / "commitlog" / "notes.txt").write_text("x")
    (small.root / "consumequeue" / "Orders" / "x").mkdir()
    (small.root / "consumequeue" / "Orders" / "0" / "y").write_text("x")
    (small.root / "index" / "z").write_text("x")
    layout = find_layout(small.files, small.root)
    assert kinds(layout) == ["layout.stray"] * 4


@pytest.mark.parametrize("name", ["consumequeue", "batchconsumequeue", "commitlog"])
def test_rocksdb_is_refused(tmp_path, name):
    (tmp_path / "commitlog").mkdir()
    if name != "commitlog":
        (tmp_path / "commitlog" / f"{0:020d}").write_bytes(bytes(100))
    (tmp_path / name).mkdir(exist_ok=True)
    for file in ("CURRENT", "MANIFEST-000005", "000012.sst"):
        (tmp_path / name / file).write_bytes(b"x")
    with pytest.raises(StoreLayoutError, match="RocksDB"):
        find_layout(RealFiles(), tmp_path)


def test_the_rocksdb_folder_of_5_5_beside_the_queues_is_no_reason_to_refuse(small):
    (small.root / "rocksdbstore").mkdir()
    (small.root / "rocksdbstore" / "CURRENT").write_text("MANIFEST-000005")
    assert find_layout(small.files, small.root).findings == ()


@pytest.mark.parametrize(
    ("made", "sentence"),
    [
        ([], "commitlog is missing or empty"),
        (["store/commitlog/00000000000000000000"], r"did you mean .*store\?"),
        (["dledger-n0/data/00000000000000000000"], "DLedger"),
        (["commitlog/data.bin"], "no file named for a log offset"),
    ],
)
def test_other_folders_are_refused_with_a_sentence(tmp_path, made, sentence):
    for name in made:
        path = tmp_path / "root" / name
        path.parent.mkdir(parents=True)
        path.write_bytes(b"x")
    (tmp_path / "root").mkdir(exist_ok=True)
    with pytest.raises(StoreLayoutError, match=sentence):
        find_layout(RealFiles(), tmp_path / "root")
    with pytest.raises(StoreLayoutError, match="not a folder"):
        find_layout(RealFiles(), tmp_path / "nowhere")


def test_the_log_may_lie_elsewhere_and_in_several_folders(small, tmp_path):
    names = sorted(path.name for path in (small.root / "commitlog").iterdir())
    for number, name in enumerate(names):
        target = tmp_path / f"log{number % 2}"
        target.mkdir(exist_ok=True)
        (small.root / "commitlog" / name).rename(target / name)
    layout = find_layout(small.files, small.root, [tmp_path / "log0", tmp_path / "log1"])
    assert [file.path.name for file in layout.log.files] == names
    assert layout.findings == ()
