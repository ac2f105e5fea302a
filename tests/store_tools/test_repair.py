"""Repaired copies: sound, with everything that was not damaged; the original is unchanged."""

import pytest
from small_store import LOG_FILE_BYTES, SmallStore

from gantrymq.errors import StoreError
from gantrymq_store_files.file_names import file_name
from gantrymq_store_files.filler import is_filler
from gantrymq_store_files.log_walk import scan
from gantrymq_store_tools.layout import find_layout
from gantrymq_store_tools.log_reader import LogReader
from gantrymq_store_tools.repair import repair_store
from gantrymq_store_tools.target_files import refuse_store_folder


def repaired(small, tmp_path):
    """Repair and return the report; check that the original is unchanged and the copy sound."""
    before = small.contents()
    report = repair_store(small.files, small.root, tmp_path / "copy", 77, lambda time_ms: 0)
    assert small.contents() == before
    assert report.before.damaged
    assert report.after is not None
    assert [each for each in report.after.findings if each.damage] == []
    assert not report.damaged
    return report


def records(small, root):
    """Log offset to bytes of the records that are messages."""
    layout = find_layout(small.files, root)
    found = scan(LogReader(small.files, layout.log))
    return {each.log_offset: bytes(each.raw) for each in found if not is_filler(each)}


def expected(small, lost):
    content = b"".join(path.read_bytes() for path in sorted((small.root / "commitlog").iterdir()))
    return {place: content[place : place + size] for place, size in small.records if place not in lost}


def test_a_sound_store_is_not_copied(small, tmp_path):
    report = repair_store(small.files, small.root, tmp_path / "copy", 77, lambda time_ms: 0)
    assert report.target is None
    assert not report.damaged
    assert not (tmp_path / "copy").exists()


def test_a_damaged_record_in_the_middle_becomes_a_filler_and_is_kept(small, tmp_path):
    place, size = small.records[7]
    small.spoil_log(place + 100, b"?")
    bad, position = small.log_file(place)
    damaged = bad.read_bytes()[position : position + size]
    repaired(small, tmp_path)
    assert records(small, tmp_path / "copy") == expected(small, {place})
    kept = tmp_path / "copy" / "recovered" / "77" / "commitlog" / file_name(place)
    assert kept.read_bytes() == damaged


def test_a_truncated_last_file_has_the_size_of_the_others_again(small, tmp_path):
    last = sorted((small.root / "commitlog").iterdir())[-1]
    content = last.read_bytes()
    start, cut = int(last.name), 700
    last.write_bytes(content[:cut])
    repaired(small, tmp_path)
    lost = {place for place, size in small.records if place >= start and place + size > start + cut}
    assert lost
    assert records(small, tmp_path / "copy") == expected(small, lost)
    assert {each.stat().st_size for each in (tmp_path / "copy" / "commitlog").iterdir()} == {LOG_FILE_BYTES}


def test_a_torn_last_record_is_cut_off_and_kept(small, tmp_path):
    place, size = small.records[-1]
    small.spoil_log(place + size // 2, bytes(size - size // 2))
    report = repaired(small, tmp_path)
    assert report.after.log_end == place
    assert records(small, tmp_path / "copy") == expected(small, {place})
    assert (tmp_path / "copy" / "recovered" / "77" / "commitlog" / file_name(place)).stat().st_size == size


def test_zeros_up_to_the_end_of_a_file_become_a_blank(small, tmp_path):
    last = max(place for place, _ in small.records if place < LOG_FILE_BYTES)
    small.spoil_log(last, bytes(LOG_FILE_BYTES - last))
    repaired(small, tmp_path)
    assert records(small, tmp_path / "copy") == expected(small, {last})


def test_a_missing_file_becomes_a_blank(small, tmp_path):
    small.log_file(LOG_FILE_BYTES)[0].unlink()
    repaired(small, tmp_path)
    there = {place for place, _ in small.records if place // LOG_FILE_BYTES != 1}
    assert set(records(small, tmp_path / "copy")) == there


def test_a_short_file_gets_its_length_again(small, tmp_path):
    path, _ = small.log_file(0)
    path.write_bytes(path.read_bytes()[:3000])
    repaired(small, tmp_path)
    there = {place for place, size in small.records if place + size <= 3000 or place >= LOG_FILE_BYTES}
    assert set(records(small, tmp_path / "copy")) == there


@pytest.mark.parametrize("part", ["consumequeue", "index"])
def test_queues_and_index_are_made_anew(small, tmp_path, part):
    sound = small.contents()
    small.spoil(_first_file(small.root / part), 105, b"\x77" * 50)
    repaired(small, tmp_path)
    made = small.contents(tmp_path / "copy")
    assert {name: data for name, data in made.items() if name.startswith(("consumequeue/", "commitlog/"))} == {
        name: data for name, data in sound.items() if name.startswith(("consumequeue/", "commitlog/"))
    }
    index = [data for name, data in sorted(made.items()) if name.startswith("index/")]
    assert index == [data for name, data in sorted(sound.items()) if name.startswith("index/")]


def _first_file(folder):
    return min(path for path in folder.rglob("*") if path.is_file())


def test_a_broken_config_file_is_replaced_by_its_backup_and_kept(small, tmp_path):
    path = small.root / "config" / "topics.json"
    good = path.read_bytes()
    path.with_name("topics.json.bak").write_bytes(good)
    path.write_bytes(good[:20])
    repaired(small, tmp_path)
    assert (tmp_path / "copy" / "config" / "topics.json").read_bytes() == good
    assert (tmp_path / "copy" / "recovered" / "77" / "config" / "topics.json").read_bytes() == good[:20]


def test_topics_that_are_lost_are_made_from_the_queues(small, tmp_path):
    from gantrymq.formats.config import TopicsFile
    from gantrymq.loose_json import loads

    (small.root / "config" / "topics.json").write_text("{")
    repaired(small, tmp_path)
    made = TopicsFile.from_json(loads((tmp_path / "copy" / "config" / "topics.json").read_bytes()))
    assert {name: topic.read_queues for name, topic in made.topics.items()} == {"Bills": 2, "Orders": 2}


def test_other_files_are_copied_and_a_clean_start_follows(small, tmp_path):
    small.spoil_log(small.records[7][0] + 100, b"?")
    (small.root / "abort").write_text("1")
    (small.root / "lock").write_text("lock")
    (small.root / "timerlog").mkdir()
    (small.root / "timerlog" / file_name(0)).write_bytes(b"timer")
    report = repaired(small, tmp_path)
    assert report.after.clean_stop
    assert (tmp_path / "copy" / "timerlog" / file_name(0)).read_bytes() == b"timer"
    assert not (tmp_path / "copy" / "lock").exists()


def test_a_copy_that_is_there_or_inside_the_store_is_refused(small, tmp_path):
    small.spoil_log(small.records[7][0] + 100, b"?")
    (tmp_path / "copy").mkdir()
    with pytest.raises(StoreError, match="already exists"):
        repair_store(small.files, small.root, tmp_path / "copy", 77, lambda time_ms: 0)
    with pytest.raises(StoreError, match="inside the store"):
        repair_store(small.files, small.root, small.root / "copy", 77, lambda time_ms: 0)


def test_folders_of_stores_are_refused_for_output(small, tmp_path):
    for folder in ("archive", "commitlog/archive", "consumequeue/Orders/0", "", "config/a/b"):
        with pytest.raises(StoreError, match="is inside the store"):
            refuse_store_folder(small.files, small.root / folder)
    for folder in (tmp_path, tmp_path.parent):
        with pytest.raises(StoreError, match="contains the store"):
            refuse_store_folder(small.files, folder, small.root)
        refuse_store_folder(small.files, folder)
    (tmp_path / "link").symlink_to(small.root)
    with pytest.raises(StoreError, match="is inside the store"):
        refuse_store_folder(small.files, tmp_path / "link" / "archive")
    with pytest.raises(StoreError, match="contains the store"):
        refuse_store_folder(small.files, tmp_path, tmp_path / "link")
    (tmp_path / "other" / "commitlog").mkdir(parents=True)  # the log of a store in another folder
    refuse_store_folder(small.files, tmp_path / "other" / "archive", small.root)
    (tmp_path / "other" / "lock").touch()  # of a new store
    with pytest.raises(StoreError, match="is inside the store"):
        refuse_store_folder(small.files, tmp_path / "other" / "archive")


def test_large_damage_is_filled_by_several_records(tmp_path, monkeypatch):
    from gantrymq_store_files import filler

    monkeypatch.setattr(filler, "MAX_FILLER_BYTES", 1000)
    store = SmallStore(tmp_path / "store")
    for body in (b"a", b"b" * 5000, b"c", b"d"):
        store.add("T", 0, body, "k")
    store.write()
    store.spoil_log(store.records[1][0] + 100, b"?")
    repaired(store, tmp_path)
    assert set(records(store, tmp_path / "copy")) == {place for place, size in store.records if size < 5000}


@pytest.mark.parametrize("number", [0, 1, 20, 40])
@pytest.mark.parametrize("stated", [0, 3, 1 << 56, -1])
def test_a_wrong_queue_offset_in_a_record_is_corrected(small, tmp_path, number, stated):
    place, _ = small.records[number]
    path, position = small.log_file(place)
    sound = path.read_bytes()
    right = sound[position + 20 : position + 28]
    data = stated.to_bytes(8, "big", signed=True)
    if data == right:
        return
    small.spoil_log(place + 20, data)
    repaired(small, tmp_path)
    assert (tmp_path / "copy" / "commitlog" / path.name).read_bytes() == sound


@pytest.mark.parametrize("stated", [0, 3, 11, 1 << 56, -1])
def test_a_wrong_queue_offset_in_a_queue_s_last_record_leaves_a_sound_copy(small, tmp_path, stated):
    small.spoil_log(small.records[59][0] + 20, stated.to_bytes(8, "big", signed=True))
    repaired(small, tmp_path)


def test_a_topic_that_leads_elsewhere_makes_no_folder(small, tmp_path):
    from gantrymq_store_tools.rebuild_store import rebuild_queues

    path, _ = small.log_file(small.records[0][0])
    data = path.read_bytes().replace(b"\x05Bills", b"\x05../..", 1)
    path.write_bytes(data)
    report = rebuild_queues(small.files, small.root, tmp_path / "made")
    assert [each.kind for each in report.findings if each.kind == "queue.unusable"] == ["queue.unusable"]
    assert sorted(path.name for path in (tmp_path / "made" / "consumequeue").iterdir()) == ["Bills", "Orders"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["made", "store"]


def test_offsets_of_lost_records_stay_taken(small, tmp_path):
    first, last = small.records[12][0], small.records[54][0]  # offset 2 of Bills/0, and 9, its last one
    small.spoil_log(first + 100, b"?")
    small.spoil_log(last + 100, b"?")
    repaired(small, tmp_path)
    queue = "consumequeue/Bills/0/" + file_name(0)
    before, after = (root / queue for root in (small.root, tmp_path / "copy"))
    old, new = ([path.read_bytes()[at : at + 20] for at in range(0, 220, 20)] for path in (before, after))
    assert new[:2] + new[3:9] == old[:2] + old[3:9]
    assert new[2] == old[3]
    assert new[9] == old[8]
    assert new[10] == bytes(20)
