"""Every index file of every golden store against the entries expected from its log, byte for byte."""

import pytest
from golden_stores import SCENARIOS

from gantrymq.model.java import string_hash
from gantrymq_store_files.index import (
    ENTRY,
    HEADER_BYTES,
    SLOT,
    IndexEntry,
    IndexHeader,
    IndexLayout,
    is_index_file_name,
    read_header,
    walk,
    write_header,
)
from gantrymq_store_files.index_hash import index_hash, index_hashes, index_keys
from gantrymq_store_files.index_table import IndexTable

EMPTY = IndexHeader()
# The index has entries of deleted log files, was built in two runs, or was truncated by us: each is tested below.
OTHERWISE = ("cleaned/cleaned", "crash/recovered", "crash/torn")


def layout_of(scenario):
    return IndexLayout(int(scenario.conf["maxHashSlotNum"]), int(scenario.conf["maxIndexNum"]))


def index_files(scenario):
    """Content of each file, oldest first."""
    return [path.read_bytes() for path in sorted((scenario.store / "index").iterdir())]


def keys_of(scenario):
    """Topic, key, log offset and store time of every entry for the log's records, in order."""
    found = []
    for record in scenario.log_records():
        for key in index_keys(bytes(record.properties_bytes), record.sys_flag):
            found.append((record.topic, key, record.log_offset, record.store_timestamp))
        if scenario.name == "v550" and record.properties.get("TAGS"):  # 5.5.0 adds an entry for the tag
            found.append((record.topic, f"T#{record.properties['TAGS']}".encode(), *found[-1][2:]))
    return found


def rebuilt(layout, keys, header=EMPTY):
    """The files that *keys* produce; *header* is the header of the first of them."""
    topics, texts, offsets, times = (list(column) for column in zip(*keys, strict=True))
    hashes = index_hashes(topics, texts)
    files, done = [], 0
    while done < len(hashes):
        table = IndexTable(layout, header)
        data = bytearray(layout.file_bytes)
        put = table.put(hashes, offsets, times, done)
        done += put.taken
        header = table.header
        data[:HEADER_BYTES] = write_header(header)
        slots = table.slot_bytes(0, layout.slots)
        data[HEADER_BYTES : HEADER_BYTES + len(slots)] = slots
        data[layout.entry_at(1) : layout.entry_at(1) + len(put.entries)] = put.entries
        files.append(bytes(data))
        header = header.following()
    return files


@pytest.mark.parametrize("name", [name for name in SCENARIOS if name not in OTHERWISE])
def test_an_index_built_from_the_log_equals_javas(golden, name):
    scenario = golden(name)
    assert rebuilt(layout_of(scenario), keys_of(scenario)) == index_files(scenario)


def test_an_index_whose_newest_file_is_gone_lacks_only_that(golden):
    scenario = golden("crash/torn")
    files = rebuilt(layout_of(scenario), keys_of(scenario))
    assert files[:1] == index_files(scenario)
    assert len(files) == 2


def test_a_file_built_again_repeats_the_message_in_whose_middle_the_one_before_ended(golden):
    scenario = golden("crash/recovered")
    keys = keys_of(scenario)
    first, second = index_files(scenario)
    header = read_header(first)
    assert rebuilt(layout_of(scenario), keys[: header.index_count - 1]) == [first]
    again = [entry for entry in keys if entry[2] >= header.end_offset]
    assert again[0] in keys[: header.index_count - 1]
    assert rebuilt(layout_of(scenario), again, header.following()) == [second]


def test_an_index_of_a_cleaned_log_holds_more_than_the_log(golden):
    scenario = golden("cleaned/cleaned")
    layout, keys = layout_of(scenario), keys_of(scenario)
    first, second = index_files(scenario)
    count = read_header(second).index_count - 1
    assert read_header(first).begin_offset < int(scenario.log_files()[0].name)
    assert rebuilt(layout, keys[-count:], read_header(first).following()) == [second]
    held = [ENTRY.unpack_from(first, layout.entry_at(number))[:2] for number in range(1, layout.entries)]
    expected = [(index_hash(topic, key.decode()), log_offset) for topic, key, log_offset, _ in keys[:-count]]
    assert held[-len(expected) :] == expected


def found_in(scenario, topic, key, window=(0, 2**62)):
    """Log offsets in the index files, newest first."""
    layout, key_hash = layout_of(scenario), index_hash(topic, key)
    for data in reversed(index_files(scenario)):
        newest = SLOT.unpack_from(data, layout.slot_at(key_hash % layout.slots))[0]

        def entry(number, data=data):
            return IndexEntry._make(ENTRY.unpack_from(data, layout.entry_at(number)))

        yield from walk(read_header(data), newest, entry, key_hash, window)


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_key_is_found(golden, name):
    scenario = golden(name)
    entries = keys_of(scenario)
    if name == "crash/torn":
        entries = entries[: layout_of(scenario).entries - 1]
    for topic, key, log_offset, _ in entries:
        offsets = list(found_in(scenario, topic, key.decode()))
        assert log_offset in offsets
        assert offsets == sorted(offsets, reverse=True)


def test_two_keys_with_one_hash_are_found_together(golden):
    scenario = golden("normal")
    assert index_hash("T", "Aa") == index_hash("T", "BB")
    entries = keys_of(scenario)
    topic = next(topic for topic, key, _, _ in entries if key == b"Aa")
    both = {log_offset for owner, key, log_offset, _ in entries if owner == topic and key in (b"Aa", b"BB")}
    assert set(found_in(scenario, topic, "Aa")) == set(found_in(scenario, topic, "BB")) == both


def test_a_key_whose_hash_java_cannot_make_positive_is_under_0(golden):
    scenario = golden("normal")
    found = [
        (topic, key) for topic, key, _, _ in keys_of(scenario) if string_hash(f"{topic}#{key.decode()}") == -(2**31)
    ]
    assert found
    assert [index_hash(topic, key.decode()) for topic, key in found] == [0] * len(found)


@pytest.mark.parametrize("name", SCENARIOS)
def test_files_are_named_by_their_time(golden, name):
    assert all(is_index_file_name(path.name) for path in (golden(name).store / "index").iterdir())
