"""Ranges of the log, one by one and joined; plain records many at a time, others one by one."""

import pickle
from itertools import pairwise

import attrs
import pytest
from small_store import LOG_FILE_BYTES, SmallStore

from gantrymq.errors import FormatError
from gantrymq.model.queue import Queue
from gantrymq.model.sys_flag import TRANSACTION_COMMIT, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from gantrymq_store_files import log_walk, plain_entries
from gantrymq_store_files.log_walk import LogWalk
from gantrymq_store_files.queue_entry import ENTRY
from gantrymq_store_files.record_crc import crc_tail
from gantrymq_store_tools.layout import find_layout
from gantrymq_store_tools.log_reader import LogReader
from gantrymq_store_tools.rebuild import join, rebuild_range, split
from gantrymq_store_tools.record_entries import EntryRules, IndexKeys


def one_by_one(monkeypatch, *args, **options):
    """`rebuild_range` that takes no plain records at once."""
    with monkeypatch.context() as patch:
        patch.setattr(LogWalk, "take_plain", lambda self, most: [])
        return rebuild_range(*args, **options)


def reader_of(small):
    return LogReader(small.files, find_layout(small.files, small.root).log)


def entries(parts):
    """Queue offset to entry by queue, and the keys, of joined parts."""
    queues, keys, damages = {}, IndexKeys(), []
    for part in join(parts):
        for queue, runs in part.queues.items():
            for run in runs:
                for number, entry in enumerate(ENTRY.iter_unpack(run.entries)):
                    queues.setdefault(queue, {})[run.start + number] = entry
        keys.extend(part.index)
        damages += part.damages
    return queues, keys, [damage[:3] for damage in damages]


def test_parts_by_file_join_to_the_whole_in_any_order(small):
    reader = reader_of(small)
    whole = rebuild_range(reader, 0, reader.log.end, EntryRules())
    ranges = split(reader, 10)
    assert len(ranges) == len(reader.log.files) > 2
    parts = [pickle.loads(pickle.dumps(rebuild_range(reader, *each, EntryRules()))) for each in reversed(ranges)]
    assert entries(parts) == entries([whole])
    assert whole.records == len(small.records)
    assert len(entries([whole])[1].hashes) == 3 * len(small.records)


@pytest.mark.parametrize("damage", [None, "flip", "zeros", "file"])
def test_ranges_may_begin_anywhere(small, damage):
    if damage == "flip":
        small.spoil_log(small.records[20][0] + 30, b"\1")
    elif damage == "zeros":
        small.spoil_log(small.records[20][0], bytes(small.records[20][1] + 300))
    elif damage == "file":
        small.log_file(LOG_FILE_BYTES)[0].unlink()
    reader = reader_of(small)
    whole = entries([rebuild_range(reader, 0, reader.log.end, EntryRules())])
    for step in (700, 1111, 5000):
        cuts = [*range(0, reader.log.end, step), reader.log.end]
        parts = [rebuild_range(reader, a, b, EntryRules()) for a, b in pairwise(cuts)]
        assert entries(parts) == whole


def test_zeros_that_only_the_next_part_shows_to_be_damage_are_added_when_parts_are_joined(small):
    last = max(place for place, _ in small.records if place < LOG_FILE_BYTES)
    small.spoil_log(last, bytes(LOG_FILE_BYTES - last))
    reader = reader_of(small)
    parts = [rebuild_range(reader, *each, EntryRules()) for each in split(reader, 100)]
    assert parts[0].damages == []
    assert entries(parts)[2] == [("zeros", last, LOG_FILE_BYTES - last)]


def test_parts_that_leave_something_out_are_refused(small):
    reader = reader_of(small)
    first, second, *_ = (rebuild_range(reader, *each, EntryRules()) for each in split(reader, 100))
    third = rebuild_range(reader, 2 * LOG_FILE_BYTES, reader.log.end, EntryRules())
    with pytest.raises(FormatError, match=r"read \[8192, \d+\) again"):
        list(join([first, third]))
    with pytest.raises(FormatError, match="do not fit"):
        list(join([first, attrs.evolve(second, start=5000)]))


def odd_store(tmp_path):
    """Records of every kind that are read one by one, among plain ones."""
    store = SmallStore(tmp_path / "odd")

    def plain(count):
        for number in range(count):
            store.add("Plain", number % 3, b"b" * number, f"k{number}", tag="t" * (number % 40 + 1))

    plain(50)
    store.add("Ünïcode", 0, b"x", "schlüssel", tag="grün")
    plain(40)
    store.add("V6", 0, b"x", "a", born_host=bytes(20))
    store.add("V6", 0, b"x", "a", store_host=bytes(20))
    store.add("L" * 200, 0, b"x", "a")
    plain(40)
    for flag in (TRANSACTION_PREPARED, TRANSACTION_ROLLBACK, TRANSACTION_COMMIT):
        store.add("Trans", 0, b"x", "a", sys_flag=flag)
    store.add("SCHEDULE_TOPIC_XXXX", 2, b"x", properties=b"DELAY\x013\x02TAGS\x01a\x02")
    store.add("NoText", 0, b"")
    plain(5)
    for text in (
        b"KEYS\x01  two  keys \x02",
        b"KEYS\x01one\x02KEYS\x01two\x02",
        b"KEYS\x01\x02UNIQ_KEY\x01u\x02",
        b"TAGS\x01open",
        b"TAGS\x01a\x01b\x02",
        b"\x02\x02TAGS\x01b\x02",
        b"loose\x02TAGS\x01c\x02",
        b"KEYS\x01" + b"k" * 300 + b"\x02",
        b"KEYS\x01nul\0inside\x02",
        b"KEYS\x01bad\xff\x02",
        b"MYKEYS\x01no\x02XTAGS\x01no\x02",
        b"KEYS\x01k" + crc_tail(b""),
    ):
        store.add("Texts", 0, b"x", properties=text)
        plain(40)
    store.add("Body", 0, bytes(7000), "big")
    plain(50)
    store.write()
    return store


RULES = EntryRules(tag_keys=True, light_queues=True, batch_topics=frozenset({"Plain"}))


@pytest.mark.parametrize("rules", [EntryRules(), EntryRules(tag_keys=True), RULES])
@pytest.mark.parametrize("read", [plain_entries.plain_entries, plain_entries._plain_entries])
def test_many_at_a_time_give_the_same_as_one_by_one(tmp_path, monkeypatch, rules, read):
    store = odd_store(tmp_path)
    taken = []

    def counted(*args):
        found = read(*args)
        taken.append(len(found))
        return found

    monkeypatch.setattr(log_walk, "plain_entries", counted)
    reader = reader_of(store)
    single = one_by_one(monkeypatch, reader, 0, reader.log.end, rules)
    assert rebuild_range(reader, 0, reader.log.end, rules) == single
    assert sum(taken) > 100
    assert len(single.index.tags) == len(single.index.hashes)
    assert any(single.index.tags) == rules.tag_keys


@pytest.mark.parametrize("at", [1, 4, 9, 29, 46, 84, 89, 95])
def test_damage_among_plain_records_gives_the_same_as_one_by_one(small, at, monkeypatch):
    small.spoil_log(small.records[9][0] + at, b"\x3e")
    reader = reader_of(small)
    single = one_by_one(monkeypatch, reader, 0, reader.log.end, EntryRules())
    assert rebuild_range(reader, 0, reader.log.end, EntryRules()) == single


def test_a_topic_s_records_before_its_deletion_make_no_entries(small):
    reader = reader_of(small)
    cut = small.records[30][0]
    part = rebuild_range(reader, 0, reader.log.end, EntryRules(dropped={"Orders": cut}))
    places = {entry[0] for entry in entries([part])[0][Queue("Orders", 0)].values()}
    assert min(places) >= cut
