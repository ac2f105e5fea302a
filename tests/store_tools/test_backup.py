"""Backups of stores in any state, and stores restored from them."""

import json
import os

import pytest
from small_store import INDEX, LOG_FILE_BYTES, START_MS, SmallStore

from gantrymq.errors import StoreError, StoreLocked
from gantrymq_store_files.checkpoint import Checkpoint, decode_checkpoint, encode_checkpoint
from gantrymq_store_files.file_names import file_name
from gantrymq_store_tools.backup import backup_store
from gantrymq_store_tools.backup_manifest import read_manifest
from gantrymq_store_tools.check import check_store
from gantrymq_store_tools.restore import restore_store
from gantrymq_testing.forwarding import ForwardingFiles


def back_up(small, tmp_path, files=None, name="backup", **options):
    """Back up, check that the store is unchanged, and restore into `restored`."""
    before = small.contents()
    report = backup_store(files or small.files, small.root, tmp_path / name, 77, **options)
    assert small.contents() == before
    restore_store(small.files, tmp_path / name, tmp_path / f"{name}.restored")
    return report


def restored(small, tmp_path, name="backup"):
    """Return the files of the restored store without its lock."""
    return {path: data for path, data in small.contents(tmp_path / f"{name}.restored").items() if path != "lock"}


def make_running(small, covered, *, index=0):
    """Leave the store as a running broker: the checkpoint covers the first *covered* records."""
    durable = START_MS + 500 * covered + 3000 if covered else 0
    (small.root / "checkpoint").write_bytes(encode_checkpoint(Checkpoint(durable, durable + 1, index)))
    (small.root / "abort").write_text("1")


def entries(files, queue):
    return [data[at : at + 20] for name, data in files.items() if queue in name for at in range(0, len(data), 20)]


class Meanwhile(ForwardingFiles):
    """Calls a function once, before the first call on a path with the given name."""

    def __init__(self, inner, name, path, then):
        super().__init__(inner)
        self.at, self.then = (name, path), then

    def around(self, name, path, proceed, *, position=0, length=0):
        if (name, path.name) == self.at and self.then is not None:
            then, self.then = self.then, None
            then()
        return proceed()


def test_a_store_that_was_shut_down_is_restored_byte_for_byte(small, tmp_path):
    (small.root / "checkpoint.json").write_text("{}")
    (small.root / "plugin").mkdir()
    (small.root / "plugin" / "state").write_bytes(b"state\0\0")
    (small.root / "empty").touch()
    report = back_up(small, tmp_path)
    assert restored(small, tmp_path) == small.contents()
    manifest = report.manifest
    assert (manifest.clean, manifest.records, manifest.damaged) == (True, 60, False)
    last, size = small.records[-1]
    assert (manifest.log_start, manifest.log_end) == (0, last + size)
    assert read_manifest(small.files, tmp_path / "backup") == manifest


def test_locks_and_what_recoveries_kept_are_not_copied(small, tmp_path):
    for name in ("recovered", "dropped"):
        (small.root / name).mkdir()
        (small.root / name / "1").write_bytes(b"old")
    (small.root / "lock").write_text("lock")
    (small.root / "config" / "reserve").write_bytes(bytes(100))
    (small.root / "config" / "topics.json.tmp").write_text("{")
    before = {"recovered/1", "dropped/1", "lock", "config/reserve", "config/topics.json.tmp"}
    back_up(small, tmp_path)
    assert small.contents().keys() - restored(small, tmp_path).keys() == before


@pytest.mark.parametrize("covered", [0, 1, 20, 53])
def test_a_running_store_has_queue_entries_up_to_the_checkpoint_and_the_whole_log(small, tmp_path, covered):
    make_running(small, covered)
    report = back_up(small, tmp_path)
    found = restored(small, tmp_path)
    for name, data in small.contents().items():
        if name.startswith("commitlog/"):
            assert found[name] == data
    assert not report.damaged
    assert not report.manifest.clean
    assert report.manifest.queues_to == small.records[covered][0]
    assert found["abort"] == b""
    checkpoint = decode_checkpoint(found["checkpoint"])
    assert checkpoint.log_timestamp == checkpoint.queue_timestamp == (START_MS + 500 * covered if covered else 0)
    assert not any(name.startswith("index/") for name in found)
    total = [entry for entry in entries(found, "consumequeue/") if any(entry)]
    assert len(total) == covered
    assert all(int.from_bytes(entry[:8], "big") < small.records[covered][0] for entry in total)
    after = check_store(small.files, tmp_path / "backup.restored")
    assert (after.damaged, after.records) == (False, 60)


def test_index_files_that_the_checkpoint_covers_are_copied(small, tmp_path):
    names = sorted(path.name for path in (small.root / "index").iterdir())
    assert len(names) > 2
    header = (small.root / "index" / names[1]).read_bytes()[8:16]
    make_running(small, 53, index=int.from_bytes(header, "big"))
    report = back_up(small, tmp_path)
    found = [name for name in restored(small, tmp_path) if name.startswith("index/")]
    assert found == [f"index/{name}" for name in names[:2]]
    assert len(restored(small, tmp_path)[found[0]]) == INDEX.file_bytes
    assert not report.damaged


@pytest.mark.parametrize("covered_index", [0, 1])
def test_a_restore_can_rebuild_the_whole_index(small, tmp_path, covered_index):
    names = sorted(path.name for path in (small.root / "index").iterdir())
    end_ms = [int.from_bytes((small.root / "index" / name).read_bytes()[8:16], "big") for name in names]
    make_running(small, 53, index=end_ms[1] if covered_index else 0)
    backup_store(small.files, small.root, tmp_path / "backup", 77)
    made = tmp_path / "backup.restored"
    restore_store(small.files, tmp_path / "backup", made, index=lambda time_ms: 0)
    found = restored(small, tmp_path)
    of_store = {name: data for name, data in small.contents().items() if name.startswith("index/")}
    assert {name: data for name, data in found.items() if name.startswith("index/")} == of_store
    checkpoint = decode_checkpoint(found["checkpoint"])
    assert checkpoint.index_timestamp == end_ms[-1]
    assert checkpoint.log_timestamp == START_MS + 500 * 53
    assert not (made / "commitlog" / "restore.incomplete").exists()
    assert not check_store(small.files, made).damaged


def test_the_index_of_a_clean_backup_is_not_rebuilt(small, tmp_path):
    backup_store(small.files, small.root, tmp_path / "backup", 77)
    restore_store(small.files, tmp_path / "backup", tmp_path / "backup.restored", index=lambda time_ms: 1 / 0)
    assert restored(small, tmp_path) == small.contents()


def test_a_record_that_is_being_written_is_not_copied(small, tmp_path):
    make_running(small, 20)
    place, size = small.records[-1]
    small.spoil_log(place + size // 2, bytes(size - size // 2))
    report = back_up(small, tmp_path)
    assert report.manifest.log_end == place
    path, position = small.log_file(place)
    data = restored(small, tmp_path)[f"commitlog/{path.name}"]
    assert data == path.read_bytes()[:position].ljust(LOG_FILE_BYTES, b"\0")


def test_messages_of_files_that_were_copied_before_the_log_are_in_the_log(small, tmp_path):
    """The timer log is such a file: its entries refer to messages."""
    make_running(small, 20)
    place, size = small.records[-1]
    path, position = small.log_file(place)
    record = path.read_bytes()[position : position + size]
    small.spoil_log(place, bytes(size))
    (small.root / "timerlog").mkdir()
    files = Meanwhile(small.files, "list", "timerlog", lambda: small.spoil_log(place, record))
    assert backup_store(files, small.root, tmp_path / "backup", 77).manifest.log_end == place + size


def test_allocated_log_files_without_records_are_not_copied(small, tmp_path):
    make_running(small, 20)
    end = LOG_FILE_BYTES * len(list((small.root / "commitlog").iterdir()))
    for start in (end, end + LOG_FILE_BYTES):
        (small.root / "commitlog" / file_name(start)).write_bytes(bytes(LOG_FILE_BYTES))
    back_up(small, tmp_path)
    assert f"commitlog/{file_name(end)}" not in restored(small, tmp_path)


def test_records_after_a_hole_are_copied(small, tmp_path):
    make_running(small, 20)
    small.spoil_log(small.records[40][0] + 100, b"?")
    report = back_up(small, tmp_path)
    assert report.manifest.log_end == sum(small.records[-1])
    assert "log.damaged" in [finding.kind for finding in report.findings if finding.damage]  # sound records follow it


def test_a_damaged_store_is_backed_up_and_told(small, tmp_path):
    small.spoil_log(small.records[7][0] + 100, b"?")
    report = back_up(small, tmp_path)
    assert report.damaged
    assert report.manifest.damaged
    assert restored(small, tmp_path) == small.contents()


def test_log_files_that_age_deletes_meanwhile_are_left_out(small, tmp_path):
    make_running(small, 53)
    folder = small.root / "commitlog"
    names = sorted(path.name for path in folder.iterdir())
    assert len(names) > 2

    def delete():
        for name in names[:2]:
            (folder / name).unlink()

    files = Meanwhile(small.files, "create", names[-1], delete)
    report = backup_store(files, small.root, tmp_path / "backup", 77)
    assert report.manifest.log_start == LOG_FILE_BYTES * 2
    assert not report.damaged
    kept = sorted(path.name for path in (tmp_path / "backup" / "store" / "commitlog").iterdir())
    assert kept == names[2:]


def test_a_log_that_vanishes_is_an_error(small, tmp_path):
    make_running(small, 53)

    def delete():
        for path in (small.root / "commitlog").iterdir():
            path.unlink()

    index = min(path.name for path in (small.root / "index").iterdir())
    files = Meanwhile(small.files, "peek", index, delete)
    with pytest.raises(StoreError, match="deleted before they were copied"):
        backup_store(files, small.root, tmp_path / "backup", 77)
    with pytest.raises(StoreError, match="not a backup|incomplete"):
        read_manifest(small.files, tmp_path / "backup")


def test_queues_of_a_topic_that_is_deleted_meanwhile_are_left_out(small, tmp_path):
    make_running(small, 53)
    offsets = {"offsetTable": {"Orders@g": {"0": 7}, "Bills@g": {"0": 5}}}
    (small.root / "config" / "consumerOffset.json").write_text(json.dumps(offsets))

    def delete():
        os.rename(small.root / "consumequeue" / "Orders", tmp_path / "gone")
        (small.root / "config" / "topics.json").write_text('{"topicConfigTable":{"Bills":{"topicName":"Bills"}}}')
        (small.root / "droppedTopics.json").write_text('{"Orders":999999}')

    files = Meanwhile(small.files, "list", "index", delete)  # once the queues were listed
    report = backup_store(files, small.root, tmp_path / "backup", 77)
    assert not report.damaged
    restore_store(small.files, tmp_path / "backup", tmp_path / "backup.restored")
    found = restored(small, tmp_path)
    assert not any("Orders" in name for name in found)
    assert json.loads(found["config/consumerOffset.json"]) == {"offsetTable": {"Bills@g": {"0": 5}}}
    assert json.loads(found["droppedTopics.json"]) == {"Orders": 999999}


def test_offsets_are_read_before_the_log_and_topics_after_it(small, tmp_path):
    make_running(small, 53)
    offsets, topics = small.root / "config" / "consumerOffset.json", small.root / "config" / "topics.json"
    offsets.write_text('{"offsetTable":{"Orders@g":{"0":7}}}')

    def later():
        offsets.write_text('{"offsetTable":{"Orders@g":{"0":9999}}}')
        topics.write_text('{"topicConfigTable":{"Orders":{},"Bills":{},"New":{}}}')

    (small.root / "plugin").mkdir()
    backup_store(Meanwhile(small.files, "list", "plugin", later), small.root, tmp_path / "backup", 77)
    stored = small.contents(tmp_path / "backup" / "store")
    assert b"9999" not in stored["config/consumerOffset.json"]
    assert b"New" in stored["config/topics.json"]


@pytest.mark.parametrize("content", [None, b"", b'{"offsetTable":{"Ord'])
def test_a_config_file_that_is_being_replaced_is_read_from_its_backup(small, tmp_path, content):
    path = small.root / "config" / "consumerOffset.json"
    path.with_name("consumerOffset.json.bak").write_text('{"offsetTable":{"Orders@g":{"0":7}}}')
    if content is not None:
        path.write_bytes(content)
    back_up(small, tmp_path)
    assert restored(small, tmp_path)["config/consumerOffset.json"] == b'{"offsetTable":{"Orders@g":{"0":7}}}'


def test_a_broker_that_opens_a_clean_store_meanwhile_is_noticed(small, tmp_path):
    def start():
        (small.root / "abort").write_text("1")

    (small.root / "plugin").mkdir()
    with pytest.raises(StoreError, match="a broker began to use"):
        backup_store(Meanwhile(small.files, "list", "plugin", start), small.root, tmp_path / "backup", 77)


def test_another_folder_of_the_log(small, tmp_path):
    expected = {name: data for name, data in small.contents().items() if name.startswith("commitlog/")}
    os.rename(small.root / "commitlog", tmp_path / "log")
    back_up(small, tmp_path, log_folders=[tmp_path / "log"])
    found = restored(small, tmp_path)
    assert {name: data for name, data in found.items() if name.startswith("commitlog/")} == expected


def test_an_empty_log_is_backed_up(tmp_path):
    small = SmallStore(tmp_path / "store")
    (small.root / "commitlog").mkdir(parents=True)
    (small.root / "commitlog" / file_name(LOG_FILE_BYTES)).write_bytes(bytes(LOG_FILE_BYTES))
    (small.root / "abort").touch()
    report = back_up(small, tmp_path)
    assert (report.manifest.log_start, report.manifest.log_end) == (LOG_FILE_BYTES, LOG_FILE_BYTES)


def test_folders_that_cannot_be_used_are_refused(small, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").touch()
    for folder, said in ((small.root / "b", "contain each other"), (tmp_path, "contain each other")):
        with pytest.raises(StoreError, match=said):
            backup_store(small.files, small.root, folder, 77)
    with pytest.raises(StoreError, match="not empty: it has mine"):
        backup_store(small.files, small.root, tmp_path / "full", 77)
    with pytest.raises(StoreError, match="is not a folder"):
        backup_store(small.files, tmp_path / "none", tmp_path / "backup", 77)
    assert not (tmp_path / "backup").exists()
    backup_store(small.files, small.root, tmp_path / "backup", 77)
    with pytest.raises(StoreError, match="already has a backup"):
        backup_store(small.files, small.root, tmp_path / "backup", 77)


# --- restores ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def backup(small, tmp_path):
    """The folder of a backup."""
    backup_store(small.files, small.root, tmp_path / "backup", 77)
    return tmp_path / "backup"


def first_file(backup, folder):
    return min(path for path in (backup / "store" / folder).rglob("*") if path.is_file())


@pytest.mark.parametrize("dry_run", [True, False])
@pytest.mark.parametrize("folder", ["commitlog", "consumequeue", "config"])
@pytest.mark.parametrize("harm", ["bit", "tail", "short", "missing"])
def test_a_damaged_backup_is_refused_by_name(small, tmp_path, backup, folder, harm, dry_run):
    path = first_file(backup, folder)
    data = bytearray(path.read_bytes())
    if harm == "bit":
        data[5] ^= 1
    elif harm == "tail":
        data[-1] ^= 1
    path.write_bytes(data[:-1] if harm == "short" else data)
    if harm == "missing":
        path.unlink()
    with pytest.raises(StoreError, match=f"the backup is damaged: {path}"):
        restore_store(small.files, backup, tmp_path / "made", dry_run=dry_run)
    if not dry_run:
        with pytest.raises(StoreError, match="has an interrupted restore"):
            restore_store(small.files, backup, tmp_path / "made")


def test_a_damaged_manifest_is_refused(small, tmp_path, backup):
    path = backup / "backup.json"
    sound = path.read_bytes()
    for data in (sound[:-20], sound.replace(b'"log_start": 0', b'"log_start": 1'), b"", b"{}", b"\xff"):
        path.write_bytes(data)
        with pytest.raises(StoreError, match=r"the backup is damaged: .*backup\.json"):
            restore_store(small.files, backup, tmp_path / "made")
    path.unlink()
    with pytest.raises(StoreError, match="its backup was interrupted"):
        restore_store(small.files, backup, tmp_path / "made")
    with pytest.raises(StoreError, match="is not a backup"):
        restore_store(small.files, tmp_path / "none", tmp_path / "made")
    assert not (tmp_path / "made").exists()


def test_a_dry_run_writes_nothing(small, tmp_path, backup):
    before = small.contents(tmp_path)
    report = restore_store(small.files, backup, tmp_path / "made", dry_run=True)
    assert not report.restored
    assert report.manifest.records == 60
    assert small.contents(tmp_path) == before
    assert not (tmp_path / "made").exists()


def test_a_store_that_is_used_is_refused(small, tmp_path, backup):
    used = tmp_path / "used"
    used.mkdir()
    (used / "lost+found").mkdir()
    lock = small.files.lock(used / "lock", b"lock")
    with pytest.raises(StoreLocked, match="a broker has"):
        restore_store(small.files, backup, used)
    lock.release()
    with pytest.raises(StoreError, match="not empty: it has lock"):
        restore_store(small.files, backup, used)
    (used / "lock").unlink()
    restore_store(small.files, backup, used)
    with pytest.raises(StoreError, match="not empty"):
        restore_store(small.files, backup, used)
    with pytest.raises(StoreError, match="contain each other"):
        restore_store(small.files, backup, backup / "store")


def test_paths_that_lead_elsewhere_are_refused(small, tmp_path, backup):
    from gantrymq_store_tools import backup_manifest

    manifest = read_manifest(small.files, backup)
    for path in ("../evil", "/evil", "config/../../evil"):
        stored = backup_manifest.StoredFile(path, 0, 0, "")
        evil = backup_manifest.Manifest(**{**_members(manifest), "files": (stored,)})
        backup_manifest.write_manifest(small.files, backup, evil)
        with pytest.raises(StoreError, match="is outside the store"):
            restore_store(small.files, backup, tmp_path / "made")


def _members(manifest):
    return {name: getattr(manifest, name) for name in manifest.__slots__ if not name.startswith("__")}
