"""The disk after a power cut: synced data always, other data as the plan says."""

import pytest

from gantrymq_storage_faults import PAGE_BYTES, FaultPlan, FaultyFiles

ALL, NOTHING = FaultPlan(lose=1.0, tear=0.0, write_back=0.0), FaultPlan(lose=0.0, tear=0.0, write_back=0.0)
TORN = FaultPlan(seed=3, lose=0.0, tear=1.0, write_back=0.0)


def made(files, path, data):
    """A durable file."""
    file = files.open(path, create=True)
    file.pwrite(data, 0)
    file.datasync()
    files.sync_dir(path.parent)
    return file


def test_what_was_synced_stays(disk):
    inner, folder = disk
    files = FaultyFiles(inner, ALL)
    made(files, folder / "f", b"durable")
    cut = files.power_cut()
    assert inner.read(folder / "f") == b"durable"
    assert (cut.pages_lost, cut.names_lost) == (0, ())


def test_writes_after_the_last_sync_are_lost(disk):
    inner, folder = disk
    files = FaultyFiles(inner, ALL)
    file = made(files, folder / "f", b"a" * 3 * PAGE_BYTES)
    file.pwrite(b"one", 0)
    file.pwrite(b"two", PAGE_BYTES)
    cut = files.power_cut()
    assert inner.read(folder / "f") == b"a" * 3 * PAGE_BYTES
    assert cut.pages_lost == 2


def test_a_sync_of_any_descriptor_covers_all_writes(disk):
    inner, folder = disk
    files = FaultyFiles(inner, ALL)
    file = made(files, folder / "f", bytes(PAGE_BYTES))
    file.pwrite(b"middle", 10)
    files.open(folder / "f").datasync()
    files.power_cut()
    assert inner.read(folder / "f")[10:16] == b"middle"


def test_a_kill_takes_nothing(disk):
    inner, folder = disk
    files = FaultyFiles(inner, ALL)
    file = files.open(folder / "f", create=True)
    file.pwrite(b"page cache", 0)
    files.crash()
    assert inner.read(folder / "f") == b"page cache"


def test_everything_may_get_to_the_disk_by_itself(disk):
    inner, folder = disk
    files = FaultyFiles(inner, NOTHING)
    files.open(folder / "f", create=True).pwrite(b"lucky", 0)
    cut = files.power_cut()
    assert inner.read(folder / "f") == b"lucky"
    assert cut.pages_kept == 1


def test_a_torn_page_has_sectors_of_both(disk):
    inner, folder = disk
    files = FaultyFiles(inner, TORN)
    file = made(files, folder / "f", b"o" * PAGE_BYTES)
    file.pwrite(b"n" * PAGE_BYTES, 0)
    cut = files.power_cut()
    data = inner.read(folder / "f")
    sectors = [data[at : at + 512] for at in range(0, PAGE_BYTES, 512)]
    assert set(sectors) == {b"o" * 512, b"n" * 512}
    assert cut.pages_torn == 1


def test_pages_are_lost_each_by_itself_whatever_the_order_of_writes(disk):
    inner, folder = disk
    seen = set()
    for seed in range(40):
        files = FaultyFiles(inner, FaultPlan(seed=seed, sector_bytes=PAGE_BYTES))
        path = folder / str(seed)
        file = made(files, path, b"oo".ljust(2 * PAGE_BYTES, b"o"))
        file.pwrite(b"n" * PAGE_BYTES, 0)
        file.pwrite(b"n" * PAGE_BYTES, PAGE_BYTES)
        files.power_cut()
        data = inner.read(path)
        seen.add((data[:1], data[PAGE_BYTES : PAGE_BYTES + 1]))
        assert set(data[:PAGE_BYTES]) in ({ord("o")}, {ord("n")})  # 4 KiB do not tear here
    assert seen == {(b"o", b"o"), (b"o", b"n"), (b"n", b"o"), (b"n", b"n")}


def test_a_page_may_be_written_back_between_two_writes(disk):
    inner, folder = disk
    files = FaultyFiles(inner, FaultPlan(lose=1.0, write_back=1.0))
    file = made(files, folder / "f", b"o" * PAGE_BYTES)
    file.pwrite(b"first", 0)
    files.power_cut()
    assert inner.read(folder / "f")[:5] == b"first"


def test_a_length_that_was_not_synced_goes(disk):
    inner, folder = disk
    files = FaultyFiles(inner, ALL)
    grown, cut, reserved = (made(files, folder / name, b"x" * 5000) for name in ("grown", "cut", "reserved"))
    grown.pwrite(b"y" * 5000, 5000)
    cut.truncate(100)
    reserved.allocate(9000)
    files.power_cut()
    for name in ("grown", "cut", "reserved"):
        assert inner.read(folder / name) == b"x" * 5000, name


def test_a_length_may_be_there_without_its_bytes(disk):
    inner, folder = disk
    lengths = set()
    for seed in range(40):
        files = FaultyFiles(inner, FaultPlan(seed=seed, tear=0.0, write_back=0.0))
        path = folder / str(seed)
        made(files, path, b"").pwrite(b"y" * 5000, 0)
        files.power_cut()
        data = inner.read(path)
        lengths.add((len(data), data[:1], data[-1:]))
    assert lengths == {(0, b"", b""), *((5000, a, b) for a in (b"y", b"\0") for b in (b"y", b"\0"))}


def test_names_need_the_sync_of_their_folder(disk):
    inner, folder = disk
    files = FaultyFiles(inner, ALL)
    made(files, folder / "old", b"old")
    made(files, folder / "kept", b"kept")
    files.open(folder / "new", create=True).datasync()
    files.remove(folder / "old")
    files.rename(folder / "kept", folder / "moved")
    assert inner.list(folder) == ["moved", "new"]
    cut = files.power_cut()
    assert inner.list(folder) == ["kept", "old"]
    assert inner.read(folder / "old") == b"old"
    assert len(cut.names_lost) == 3


def test_names_in_a_synced_folder_stay(disk):
    inner, folder = disk
    files = FaultyFiles(inner, ALL)
    made(files, folder / "old", b"old")
    made(files, folder / "kept", b"kept")
    files.remove(folder / "old")
    files.rename(folder / "kept", folder / "moved")
    files.sync_dir(folder)
    assert files.power_cut().names_lost == ()
    assert inner.list(folder) == ["moved"]


def test_a_file_goes_with_a_folder_whose_own_name_was_not_synced(disk):
    inner, folder = disk
    files = FaultyFiles(inner, ALL)
    files.make_dirs(folder / "a" / "b")
    made(files, folder / "a" / "b" / "f", b"synced in vain")
    files.power_cut()
    assert inner.list(folder) == []
    files = FaultyFiles(inner, ALL)
    files.make_dirs(folder / "a" / "b")
    made(files, folder / "a" / "b" / "f", b"durable")
    files.sync_dir(folder / "a")
    files.sync_dir(folder)
    files.power_cut()
    assert inner.read(folder / "a" / "b" / "f") == b"durable"


@pytest.mark.parametrize("synced", ["one", "other"])
def test_a_rename_between_folders_is_durable_with_either(disk, synced):
    inner, folder = disk
    files = FaultyFiles(inner, ALL)
    for name in ("one", "other"):
        files.make_dirs(folder / name)
    files.sync_dir(folder)
    made(files, folder / "one" / "f", b"moved")
    files.rename(folder / "one" / "f", folder / "other" / "g")
    files.sync_dir(folder / synced)
    files.power_cut()
    assert (inner.list(folder / "one"), inner.list(folder / "other")) == ([], ["g"])


def test_a_rename_that_is_lost_brings_back_what_it_replaced(disk):
    inner, folder = disk
    files = FaultyFiles(inner, ALL)
    made(files, folder / "target", b"before")
    made(files, folder / "source", b"after")
    files.rename(folder / "source", folder / "target")
    files.power_cut()
    assert (inner.read(folder / "source"), inner.read(folder / "target")) == (b"after", b"before")


def test_a_renamed_folder_comes_back_with_what_it_held(disk):
    inner, folder = disk
    files = FaultyFiles(inner, ALL)
    files.make_dirs(folder / "a")
    files.sync_dir(folder)
    file = made(files, folder / "a" / "f", b"durable")
    files.rename(folder / "a", folder / "b")
    file.pwrite(b"LOST", 0)
    files.power_cut()
    assert inner.list(folder) == ["a"]
    assert inner.read(folder / "a" / "f") == b"durable"


def test_an_emptied_folder_comes_back(disk):
    inner, folder = disk
    files = FaultyFiles(inner, ALL)
    files.make_dirs(folder / "a")
    files.sync_dir(folder)
    made(files, folder / "a" / "f", b"durable")
    files.remove(folder / "a" / "f")
    files.remove_dir(folder / "a")
    files.power_cut()
    assert inner.read(folder / "a" / "f") == b"durable"


def test_a_removed_folder_is_durable_with_all_that_emptied_it(disk):
    inner, folder = disk
    files = FaultyFiles(inner, ALL)
    files.make_dirs(folder / "a" / "b")
    files.sync_dir(folder / "a")
    files.sync_dir(folder)
    made(files, folder / "a" / "b" / "f", b"durable")
    files.remove(folder / "a" / "b" / "f")
    files.remove_dir(folder / "a" / "b")
    files.remove_dir(folder / "a")
    files.sync_dir(folder)
    assert files.power_cut().names_lost == ()
    assert inner.list(folder) == []


def test_a_folder_may_be_synced_under_a_new_name(disk):
    inner, folder = disk
    files = FaultyFiles(inner, ALL)
    files.make_dirs(folder / "a")
    files.sync_dir(folder)
    files.open(folder / "a" / "f", create=True)
    files.rename(folder / "a", folder / "b")
    files.sync_dir(folder / "b")
    files.sync_dir(folder)
    files.power_cut()
    assert inner.list(folder / "b") == ["f"]


def test_a_replacement_that_returned_is_durable(disk):
    inner, folder = disk
    files = FaultyFiles(inner, ALL)
    files.replace(folder / "f", b"one")
    files.replace(folder / "f", b"two")
    assert files.power_cut().names_lost == ()
    assert inner.read(folder / "f") == b"two"


def test_a_replacement_goes_with_a_folder_whose_own_name_was_not_synced(disk):
    inner, folder = disk
    files = FaultyFiles(inner, ALL)
    files.make_dirs(folder / "a")
    files.replace(folder / "a" / "f", b"one")
    files.power_cut()
    assert inner.list(folder) == []


def test_a_journal_keeps_no_name_without_the_earlier_ones(disk):
    inner, folder = disk
    kept = set()
    for seed in range(40):
        files = FaultyFiles(inner, FaultPlan(seed=seed, names_in_order=True))
        place = folder / str(seed)
        inner.make_dirs(place)
        for name in "abc":
            files.open(place / name, create=True)
        files.power_cut()
        kept.add("".join(inner.list(place)))
    assert kept == {"", "a", "ab", "abc"}


def test_without_a_journal_any_name_may_be_missing(disk):
    inner, folder = disk
    kept = set()
    for seed in range(60):
        files = FaultyFiles(inner, FaultPlan(seed=seed))
        place = folder / str(seed)
        inner.make_dirs(place)
        for name in "abc":
            files.open(place / name, create=True)
        files.power_cut()
        kept.add("".join(inner.list(place)))
    assert {"b", "ac", "c"} <= kept


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_same_seed_loses_the_same(disk, seed):
    inner, folder = disk

    def run(place):
        inner.make_dirs(place)
        files = FaultyFiles(inner, FaultPlan(seed=seed))
        for name in "abcdef":
            file = files.open(place / name, create=True)
            for page in range(5):
                file.pwrite(name.encode() * PAGE_BYTES, page * PAGE_BYTES)
            if name in "bd":
                files.sync_dir(place)
        cut = files.power_cut()
        return (cut.pages_kept, cut.pages_lost, cut.pages_torn), {n: inner.read(place / n) for n in inner.list(place)}

    assert run(folder / "one") == run(folder / "two")
