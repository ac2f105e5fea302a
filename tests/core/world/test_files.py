"""Common behaviour of all `Files`: names, folders and locks."""

import errno

import pytest


@pytest.fixture
def files(place):
    return place[0]


@pytest.fixture
def root(place):
    return place[1]


def test_a_file_is_made_only_on_request(files, root):
    with pytest.raises(FileNotFoundError):
        files.open(root / "a")
    files.open(root / "a", create=True).close()
    assert files.stat(root / "a").size == 0
    files.open(root / "a").close()


def test_a_file_needs_its_folder(files, root):
    with pytest.raises(FileNotFoundError):
        files.open(root / "none" / "a", create=True)


@pytest.mark.parametrize("read_only", [True, False])
def test_a_folder_does_not_open_as_a_file(files, root, read_only):
    with pytest.raises(IsADirectoryError):
        files.open(root, read_only=read_only)


def test_stat_tells_files_folders_and_nothing_apart(files, root):
    files.replace(root / "a", b"12345")
    found = files.stat(root / "a")
    assert (found.size, found.is_dir) == (5, False)
    assert found.modified_ms > 1_600_000_000_000
    assert found.mode & 0o600 == 0o600
    assert files.stat(root).is_dir
    assert files.stat(root / "b") is None
    assert files.stat(root / "a" / "below") is None


def test_a_plain_file_is_no_link_and_belongs_to_this_process(files, root):
    files.replace(root / "a", b"")
    found = files.stat(root / "a")
    assert (found.is_own, found.is_link) == (True, False)


def test_list_is_sorted_and_empty_without_a_folder(files, root):
    for name in ("00000000000000000200", "b", "00000000000000000100"):
        files.replace(root / name, b"")
    files.make_dirs(root / "a" / "below")
    assert files.list(root) == ["00000000000000000100", "00000000000000000200", "a", "b"]
    assert files.list(root / "a") == ["below"]
    assert files.list(root / "none") == []
    assert files.list(root / "b") == []


def test_make_dirs_twice_is_fine_and_over_a_file_is_not(files, root):
    files.make_dirs(root / "a" / "b")
    files.make_dirs(root / "a" / "b")
    files.replace(root / "file", b"")
    with pytest.raises(FileExistsError):
        files.make_dirs(root / "file")
    with pytest.raises(NotADirectoryError):
        files.make_dirs(root / "file" / "below")


def test_replace_leaves_the_new_content_and_no_temporary_name(files, root):
    files.replace(root / "config.json", b"old")
    files.replace(root / "config.json.tmp", b"left by an interrupted call, and longer")
    files.replace(root / "config.json", b"new")
    assert files.read(root / "config.json") == b"new"
    assert files.list(root) == ["config.json"]


def test_a_file_with_secrets_is_readable_by_its_owner_only(files, root):
    files.replace(root / "users.json.tmp", b"left by an interrupted call", 0o644)
    files.replace(root / "users.json", b"secret", 0o600)
    assert files.stat(root / "users.json").mode == 0o600
    files.replace(root / "users.json", b"shared", 0o640)
    assert files.stat(root / "users.json").mode == 0o640


def test_replace_needs_the_folder(files, root):
    with pytest.raises(FileNotFoundError):
        files.replace(root / "none" / "a", b"")
    with pytest.raises(FileNotFoundError):
        files.read(root / "none" / "a")


def test_rename_replaces_and_moves_folders_with_what_they_hold(files, root):
    files.make_dirs(root / "topic" / "0")
    files.replace(root / "topic" / "0" / "a", b"a")
    files.replace(root / "topic" / "0" / "b", b"b")
    files.rename(root / "topic" / "0" / "a", root / "topic" / "0" / "b")
    files.rename(root / "topic", root / "other")
    assert files.read(root / "other" / "0" / "b") == b"a"
    assert files.list(root / "other" / "0") == ["b"]
    assert files.stat(root / "topic") is None
    with pytest.raises(FileNotFoundError):
        files.rename(root / "topic", root / "again")


def test_a_link_is_a_second_name_of_the_same_content(files, root):
    files.replace(root / "a", b"abc")
    files.link(root / "a", root / "b")
    opened = files.open(root / "b")
    opened.pwrite(b"x", 1)
    opened.close()
    assert files.read(root / "a") == b"axc"
    files.remove(root / "a")
    assert files.read(root / "b") == b"axc"
    with pytest.raises(FileExistsError):
        files.link(root / "b", root / "b")
    for old, new in ((root / "a", root / "c"), (root / "b", root / "none" / "c")):
        with pytest.raises(FileNotFoundError):
            files.link(old, new)
    files.make_dirs(root / "folder")
    with pytest.raises(PermissionError):
        files.link(root / "folder", root / "c")
    assert files.list(root) == ["b", "folder"]


def test_remove_of_what_is_gone_is_fine_and_an_open_file_lives_on(files, root):
    files.replace(root / "a", b"abc")
    opened = files.open(root / "a")
    files.remove(root / "a")
    files.remove(root / "a")
    assert files.stat(root / "a") is None
    assert opened.pread(3, 0) == b"abc"
    opened.close()


def test_remove_dir_takes_only_an_empty_folder(files, root):
    files.make_dirs(root / "topic")
    files.replace(root / "topic" / "a", b"")
    with pytest.raises(OSError, check=lambda error: error.errno == errno.ENOTEMPTY):
        files.remove_dir(root / "topic")
    files.remove(root / "topic" / "a")
    files.remove_dir(root / "topic")
    files.remove_dir(root / "topic")
    assert files.list(root) == []


def test_sync_dir_needs_the_folder(files, root):
    files.sync_dir(root)
    with pytest.raises(FileNotFoundError):
        files.sync_dir(root / "none")


def test_disk_use_answers_for_paths_that_are_not_there_yet(files, root):
    use = files.disk_use(root / "none" / "below")
    assert 0 < use.usable <= use.free <= use.total


def test_a_lock_is_held_once_and_free_after_release(files, root):
    lock = files.lock(root / "lock", b"lock")
    assert files.lock(root / "lock", b"other") is None
    assert files.read(root / "lock") == b"lock"
    lock.release()
    lock.release()
    again = files.lock(root / "lock", b"b")
    assert files.read(root / "lock") == b"b"
    again.release()
    assert files.read(root / "lock") == b"b"


def test_a_locked_file_does_not_open_because_closing_it_would_lose_the_lock(files, root):
    lock = files.lock(root / "lock", b"lock")
    with pytest.raises(OSError, check=lambda error: error.errno == errno.EBUSY):
        files.open(root / "lock")
    lock.release()
    files.open(root / "lock").close()


def test_a_peek_leaves_off_nothing_but_zeros_at_the_end(place):
    files, root = place
    opened = files.open(root / "a", create=True)
    opened.truncate(500_000)
    opened.pwrite(b"head", 10)
    opened.pwrite(b"more", 100_000)
    opened.close()
    for path in (root / "a", str(root / "a")):
        found = files.peek(path, 400_000, 8)
        assert len(found) <= 400_000
        assert found.ljust(400_000, b"\0") == bytes(2) + b"head" + bytes(99_986) + b"more" + bytes(300_004)
        assert files.peek(path, 4, 10) == b"head"
        assert files.peek(path, 400_000, 200_000).strip(b"\0") == b""
    assert files.peek(root / "b", 5000, 0) is None
