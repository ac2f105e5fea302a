"""A process that ends at a chosen call: later calls fail, and its resources are released."""

import pytest

from gantrymq_storage_faults import Crashed, FaultPlan, FaultyFiles, Machine

QUIET = {"write_back": 0.0}


def work(files, folder):
    """Twelve calls of every kind."""
    files.make_dirs(folder / "a")  # 1
    lock = files.lock(folder / "lock", b"me")  # 2
    file = files.open(folder / "a" / "f", create=True)  # 3
    file.truncate(8192)  # 4
    file.allocate(8192)  # 5
    file.pwrite(b"plain", 0)  # 6
    file.datasync()  # 7
    files.sync_dir(folder / "a")  # 8
    files.replace(folder / "a" / "g", b"whole")  # 9
    files.rename(folder / "a" / "g", folder / "a" / "h")  # 10
    files.remove(folder / "a" / "h")  # 11
    file.close()  # 12
    lock.release()


CALLS = 12


def test_calls_are_counted_and_the_plan_meets_each(disk):
    inner, folder = disk
    files = FaultyFiles(inner, FaultPlan(**QUIET))
    work(files, folder)
    assert files.calls == files.counts.total() == CALLS
    assert (files.counts["pwrite"], files.counts["create"]) == (1, 1)
    for number in range(1, CALLS + 1):
        place = folder / str(number)
        inner.make_dirs(place)
        files = FaultyFiles(inner, FaultPlan(crash_at=number, **QUIET))
        with pytest.raises(Crashed):
            work(files, place)
        assert files.calls == number
        assert files.crashed
        assert f"{number} " in files.trace(1)


def test_nothing_of_a_dead_process_gets_through_and_nothing_swallows_it(disk):
    inner, folder = disk
    files = FaultyFiles(inner, FaultPlan(crash_at=3))
    file = files.open(folder / "f", create=True)
    file.pwrite(b"one", 0)
    try:
        file.pwrite(b"two", 0)
    except Exception:  # as careless code does
        pytest.fail("a crash is no Exception")
    except BaseException:
        pass
    for late in (
        lambda: file.pwrite(b"late", 0),
        lambda: file.datasync(),
        lambda: files.stat(folder),
        lambda: files.remove(folder / "f"),
    ):
        with pytest.raises(Crashed):
            late()
    file.close()  # harmless, as in a finally
    assert inner.read(folder / "f") != b"late"


def test_locks_are_given_back(disk):
    inner, folder = disk
    files = FaultyFiles(inner)
    assert files.lock(folder / "lock", b"one") is not None
    assert inner.lock(folder / "lock", b"two") is None
    files.crash()
    files.crash()
    lock = inner.lock(folder / "lock", b"two")
    assert lock is not None
    lock.release()


def test_a_write_may_end_in_its_middle(disk):
    inner, folder = disk
    seen = set()
    for seed in range(60):
        files = FaultyFiles(inner, FaultPlan(seed=seed, crash_at=2))
        file = files.open(folder / str(seed), create=True)
        with pytest.raises(Crashed):
            file.pwrite(b"0123456789", 0)
        seen.add(inner.read(folder / str(seed)))
    assert {b"", b"0123456789"} < seen
    assert all(b"0123456789".startswith(data) for data in seen)


def test_a_replacement_is_old_or_new_at_whatever_moment_it_ends(disk):
    inner, folder = disk
    names, kills, cuts = set(), set(), set()
    for seed in range(60):
        path = folder / str(seed) / "f"
        inner.make_dirs(path.parent)
        inner.replace(path, b"old")
        files = FaultyFiles(inner, FaultPlan(seed=seed, crash_at=1))
        with pytest.raises(Crashed):
            files.replace(path, b"new content")
        kills.add(inner.read(path))
        names.add(tuple(inner.list(path.parent)))
        files.power_cut()
        cuts.add(inner.read(path))
    assert kills == cuts == {b"old", b"new content"}
    assert names == {("f",), ("f", "f.tmp")}


def test_the_owner_of_the_process_is_told(disk):
    inner, folder = disk
    told = []
    files = FaultyFiles(inner, FaultPlan(crash_at=1), on_crash=lambda: told.append(files.calls))
    with pytest.raises(Crashed):
        files.stat(folder)
    files.crash()
    assert told == [1]


def test_what_a_process_left_of_a_replacement_is_gone_with_the_next_one(disk):
    inner, folder = disk
    inner.replace(folder / "f", b"old")
    left = 0
    for seed in range(20):
        machine = Machine(inner)
        first = FaultyFiles(machine, FaultPlan(seed=seed, crash_at=1))
        with pytest.raises(Crashed):
            first.replace(folder / "f", b"new content")
        left += inner.stat(folder / "f.tmp") is not None
        FaultyFiles(machine).replace(folder / "f", b"newer content")
        machine.power_cut()
        assert inner.list(folder) == ["f"]
        assert inner.read(folder / "f") == b"newer content"
    assert left
