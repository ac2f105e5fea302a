"""Behaviour of real files only: other processes, blocks on disk, and failing calls."""

import errno
import os
import subprocess
import sys
import threading

import pytest

from gantrymq.world.real import RealFiles
from gantrymq.world.real import file as file_module
from gantrymq.world.real.lock import held_elsewhere

posix = pytest.mark.skipif(os.name != "posix", reason="POSIX record locks")

# Java's FileChannel.tryLock(0, 1, false) in a separate process without our code.
TRY_LOCK = """
import fcntl, os, sys
descriptor = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
try:
    fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
except OSError:
    print("taken", flush=True)
else:
    print("free", flush=True)
    sys.stdin.read()
"""


def ask_other_process(path):
    command = [sys.executable, "-c", TRY_LOCK, str(path)]
    return subprocess.run(command, input="", capture_output=True, text=True, check=True, timeout=30).stdout.strip()


@posix
def test_another_process_sees_the_lock(tmp_path):
    files = RealFiles()
    lock = files.lock(tmp_path / "lock", b"lock")
    assert ask_other_process(tmp_path / "lock") == "taken"
    lock.release()
    assert ask_other_process(tmp_path / "lock") == "free"


@posix
def test_a_refused_open_does_not_lose_the_lock_whatever_the_name(tmp_path):
    files = RealFiles()
    lock = files.lock(tmp_path / "lock", b"lock")
    os.link(tmp_path / "lock", tmp_path / "other")
    for name in ("lock", "other"):
        with pytest.raises(OSError, check=lambda error: error.errno == errno.EBUSY):
            files.open(tmp_path / name, read_only=True)
    assert ask_other_process(tmp_path / "lock") == "taken"
    before = len(os.listdir("/dev/fd"))
    lock.release()
    assert before - len(os.listdir("/dev/fd")) == 3
    assert ask_other_process(tmp_path / "lock") == "free"


@posix
def test_the_lock_of_another_process_is_seen_and_its_content_kept(tmp_path):
    path = tmp_path / "lock"
    path.write_bytes(b"theirs")
    with subprocess.Popen(
        [sys.executable, "-c", TRY_LOCK, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout.readline().strip() == "free"
        assert RealFiles().lock(path, b"ours") is None
        assert path.read_bytes() == b"theirs"
        other.stdin.close()
    lock = RealFiles().lock(path, b"ours")
    assert path.read_bytes() == b"ours"
    lock.release()


@posix
def test_nothing_this_process_does_with_the_path_loses_the_lock(tmp_path):
    path = tmp_path / "lock"
    (tmp_path / "alias").symlink_to(path)
    lock = RealFiles().lock(path, b"lock")
    for files, name in ((RealFiles(), path), (RealFiles(), tmp_path / "alias")):
        assert files.lock(name, b"again") is None
        assert files.read(name) == b"lock"
        with pytest.raises(OSError):
            files.open(name)
    assert ask_other_process(path) == "taken"
    lock.release()


def test_a_lock_in_a_missing_folder_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        RealFiles().lock(tmp_path / "none" / "lock", b"")


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="no posix_fallocate here")
def test_allocated_files_take_their_blocks_and_truncated_ones_do_not(tmp_path):
    files = RealFiles()
    for name, size in (("reserved", 1 << 20), ("sparse", 1 << 20)):
        opened = files.open(tmp_path / name, create=True)
        if name == "reserved":
            opened.allocate(size)
        else:
            opened.truncate(size)
        opened.close()
    assert os.stat(tmp_path / "reserved").st_blocks * 512 >= 1 << 20
    assert os.stat(tmp_path / "sparse").st_blocks * 512 < 1 << 20


@pytest.mark.parametrize("number", [errno.EINVAL, errno.EOPNOTSUPP])
def test_zeros_are_written_where_the_file_system_cannot_reserve(tmp_path, monkeypatch, number):
    def refuse(*_):
        raise OSError(number, "cannot")

    monkeypatch.setattr(os, "posix_fallocate", refuse, raising=False)
    monkeypatch.setattr(file_module, "ZEROS_BYTES", 1000)
    opened = RealFiles().open(tmp_path / "a", create=True)
    opened.pwrite(b"abc", 0)
    opened.allocate(4321)
    assert opened.pread(5000, 0) == b"abc" + bytes(4318)
    opened.allocate(100)
    assert opened.size() == 4321
    opened.close()


def test_a_full_disk_is_an_error_at_allocation(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "posix_fallocate", refuse, raising=False)
    opened = RealFiles().open(tmp_path / "a", create=True)
    with pytest.raises(OSError, match="full"):
        opened.allocate(4096)
    assert opened.size() == 0
    opened.close()


def test_room_that_is_there_already_is_not_missed_on_a_full_disk(tmp_path, monkeypatch):
    def refuse(*_):  # so does XFS where there is not as much room again
        raise OSError(errno.ENOSPC, "full")

    opened = RealFiles().open(tmp_path / "a", create=True)
    opened.allocate(8192)
    monkeypatch.setattr(os, "posix_fallocate", refuse, raising=False)
    opened.allocate(8192)
    for length in (8193, 1 << 20):
        with pytest.raises(OSError, match=f"full: '{tmp_path}/a'"):
            opened.allocate(length)
    opened.truncate(1 << 20)  # sparse
    with pytest.raises(OSError, match="full"):
        opened.allocate(1 << 20)
    opened.close()


def test_short_reads_and_writes_are_continued(tmp_path, monkeypatch):
    pread, pwrite = os.pread, os.pwrite
    monkeypatch.setattr(file_module, "pread", lambda fd, length, at: pread(fd, min(length, 3), at))
    monkeypatch.setattr(file_module, "_pwrite", lambda fd, data, at: pwrite(fd, memoryview(data)[:3], at))
    opened = RealFiles().open(tmp_path / "a", create=True)
    opened.pwrite(b"0123456789", 0)
    assert opened.pread(10, 0) == b"0123456789"
    assert opened.pread(20, 2) == b"23456789"
    opened.close()


def test_a_link_is_known_and_its_target_is_read(tmp_path):
    files = RealFiles()
    files.replace(tmp_path / "a", b"12345")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    found = files.stat(tmp_path / "b")
    assert (found.is_link, found.size) == (True, 5)
    (tmp_path / "a").unlink()
    assert files.stat(tmp_path / "b") is None


def test_a_file_of_another_user_is_known(tmp_path, monkeypatch):
    files = RealFiles()
    files.replace(tmp_path / "a", b"")
    monkeypatch.setattr("gantrymq.world.real.files._OWN_ID", os.geteuid() + 1)
    assert not files.stat(tmp_path / "a").is_own


def test_a_private_file_is_never_readable_by_others(tmp_path, monkeypatch):
    files = RealFiles()
    temporary = tmp_path / "a.tmp"
    temporary.write_bytes(b"left over")
    temporary.chmod(0o644)
    modes, inner = [], os.replace
    monkeypatch.setattr(os, "replace", lambda old, new: (modes.append(old.stat().st_mode & 0o777), inner(old, new)))
    files.replace(tmp_path / "a", b"secret", 0o600)
    assert modes == [0o600]
    assert files.stat(tmp_path / "a").mode == 0o600


@pytest.mark.parametrize("call", ["fdatasync", "replace"])
def test_a_failed_replace_leaves_the_old_content_and_nothing_else(tmp_path, monkeypatch, call):
    files = RealFiles()
    files.replace(tmp_path / "a", b"old")

    def fail(*_):
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(os, call, fail, raising=False)
    with pytest.raises(OSError, match="broken"):
        files.replace(tmp_path / "a", b"new")
    assert files.read(tmp_path / "a") == b"old"
    assert files.list(tmp_path) == ["a"]


def test_replace_syncs_the_content_before_the_rename_and_the_folder_after(tmp_path, monkeypatch):
    order = []
    for name in ("fdatasync", "replace", "fsync"):
        if not hasattr(os, name):
            pytest.skip(f"no os.{name} here")
        inner = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *args, n=name, i=inner: (order.append(n), i(*args))[1])
    RealFiles().replace(tmp_path / "a", b"new")
    assert order == ["fdatasync", "replace", "fsync"]


def test_threads_that_replace_one_file_do_not_disturb_each_other(tmp_path):
    files = RealFiles()
    errors = []

    def work(letter):
        try:
            for _ in range(10):
                files.replace(tmp_path / "a", letter * 10_000)
        except OSError as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(letter,)) for letter in (b"a", b"b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert files.read(tmp_path / "a") in (b"a" * 10_000, b"b" * 10_000)
    assert files.list(tmp_path) == ["a"]


def dropped_from_the_page_cache(path, is_gone, tries=100):
    """Advise the system to drop the file's pages; pages in use elsewhere, such as by a write-back, stay."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        for _ in range(tries):
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            if is_gone():
                return True
            os.sync()
    finally:
        os.close(descriptor)
    return False


@pytest.mark.skipif(not hasattr(os, "RWF_NOWAIT"), reason="only Linux tells what is in memory")
def test_only_what_is_in_the_page_cache_is_read_without_waiting(tmp_path):
    opened = RealFiles().open(tmp_path / "a", create=True)
    opened.pwrite(bytes(range(256)) * 64, 0)
    if opened.pread_cached(10, 5) is None:
        pytest.skip("this file system does not tell what is in memory")
    assert opened.pread_cached(10, 5) == bytes(range(5, 15))
    opened.datasync()
    assert dropped_from_the_page_cache(tmp_path / "a", lambda: opened.pread_cached(10, 5) is None)
    assert opened.pread(10, 5) == bytes(range(5, 15))
    assert opened.pread_cached(10, 5) == bytes(range(5, 15))
    opened.close()


def test_a_file_system_that_cannot_tell_is_asked_once(tmp_path, monkeypatch):
    asked = []

    def preadv(*args):
        asked.append(args)
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    monkeypatch.setattr(file_module, "_NOWAIT", 8)
    monkeypatch.setattr(os, "preadv", preadv, raising=False)
    opened = RealFiles().open(tmp_path / "a", create=True)
    opened.pwrite(b"abc", 0)
    assert opened.pread_cached(3, 0) is None
    assert opened.pread_cached(3, 0) is None
    assert len(asked) == 1
    opened.close()


def test_a_disk_that_fails_is_not_taken_for_one_that_cannot_tell(tmp_path, monkeypatch):
    def preadv(*_):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(file_module, "_NOWAIT", 8)
    monkeypatch.setattr(os, "preadv", preadv, raising=False)
    opened = RealFiles().open(tmp_path / "a", create=True)
    with pytest.raises(OSError, match="Input/output"):
        opened.pread_cached(3, 0)
    opened.close()


@pytest.mark.skipif(sys.platform != "linux", reason="only asked on Linux")
def test_the_lock_of_another_process_is_noticed_without_taking_it(tmp_path):
    path = tmp_path / "lock"
    assert not held_elsewhere(path)
    path.write_bytes(b"theirs")
    with subprocess.Popen(
        [sys.executable, "-c", TRY_LOCK, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout.readline().strip() == "free"
        assert held_elsewhere(path)
        other.stdin.close()
    assert not held_elsewhere(path)
    lock = RealFiles().lock(path, b"ours")
    assert not held_elsewhere(path)
    assert ask_other_process(path) == "taken"
    lock.release()


@pytest.mark.skipif(not hasattr(os, "SEEK_DATA"), reason="this platform does not tell holes")
def test_a_file_of_zeros_is_not_read_to_find_that_out(tmp_path):
    files = RealFiles()
    opened = files.open(tmp_path / "a", create=True)
    opened.truncate(1 << 30)
    opened.pwrite(b"x", 5000)
    (part,) = opened.written(0, 1 << 30)
    assert part[0] <= 5000 < part[1] <= 1_000_000
    assert opened.written(part[1], 1 << 30) == []
    assert opened.written(1 << 30, 1 << 30) == []
    assert len(files.peek(tmp_path / "a", 1 << 30, 0)) == part[1]
    opened.close()
