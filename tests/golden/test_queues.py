"""Every consume queue of every golden store against the entries expected from its log, byte for byte."""

import pytest
from golden_stores import EXTRAS, SCENARIOS

from gantrymq.formats.tags_code import DEFAULT_DELAY_LEVELS, parse_delay_levels, tags_code_of
from gantrymq.model.names import LMQ_PREFIX
from gantrymq.model.queue import Queue
from gantrymq.model.sys_flag import TRANSACTION_COMMIT, TRANSACTION_MASK
from gantrymq_store_files.queue_entry import ENTRY, ENTRY_BYTES, PRE_BLANK, is_ext_address, read_entry

# Queues shorter than their log because the broker was killed, or we truncated them: every entry they have is right.
LAGGING = ("crash/torn",)


def rebuilt(scenario):
    """Queue to queue offset to packed entry, from the log."""
    levels = parse_delay_levels(scenario.conf.get("messageDelayLevel", DEFAULT_DELAY_LEVELS))
    found = {}
    for record in scenario.log_records():
        if record.sys_flag & TRANSACTION_MASK in (0, TRANSACTION_COMMIT):
            code = tags_code_of(record.topic, record.properties, record.store_timestamp, levels)
            entries = found.setdefault(Queue(record.topic, record.queue_id), {})
            assert record.queue_offset not in entries
            entries[record.queue_offset] = ENTRY.pack(record.log_offset, record.total_size, code)
    return found


def stored(scenario, paths):
    """Queue offset to packed entry, as the files of one queue hold them."""
    file_bytes = -(-scenario.size("mappedFileSizeConsumeQueue") // ENTRY_BYTES) * ENTRY_BYTES
    found = {}
    ended = False
    for path in paths:
        data = memoryview(path.read_bytes())
        assert len(data) == file_bytes
        for index in range(len(data) // ENTRY_BYTES):
            raw = bytes(data[index * ENTRY_BYTES :][:ENTRY_BYTES])
            if read_entry(data, index) is None:
                assert raw == bytes(ENTRY_BYTES)
                ended = True
            else:
                assert not ended, f"{path}: entry {index} stands behind the end"
                found[int(path.name) // ENTRY_BYTES + index] = raw
    return found


@pytest.mark.parametrize("name", [name for name in SCENARIOS if name not in EXTRAS])
def test_queues_hold_what_the_log_says(golden, name):
    scenario = golden(name)
    expected = rebuilt(scenario)
    log_start = int(scenario.log_files()[0].name)
    files = scenario.queue_files()
    assert set(expected) - set(files) == set()
    for queue, paths in files.items():
        entries = stored(scenario, paths)
        in_log = {
            offset: raw for offset, raw in entries.items() if raw != PRE_BLANK and ENTRY.unpack(raw)[0] >= log_start
        }
        below = sorted(set(entries) - set(in_log))  # their records were deleted, or they are pre-blank
        if name in LAGGING:
            assert in_log.items() <= expected.get(queue, {}).items()
        else:
            assert in_log == expected.get(queue, {})
        if not name.startswith("cleaned/"):
            assert below == []
        assert below == [] or not in_log or below[-1] < min(in_log)


def test_a_rebuilt_queue_is_filled_up_to_its_first_entry(golden):
    files = golden("cleaned/rebuilt").queue_files()
    filled = {
        queue: [raw == PRE_BLANK for raw in stored(golden("cleaned/rebuilt"), paths).values()]
        for queue, paths in files.items()
    }
    assert any(any(flags) for flags in filled.values())
    for flags in filled.values():
        assert flags == sorted(flags, reverse=True)  # pre-blank entries first, then none


def test_entries_with_an_ext_address_are_right_but_for_it(golden):
    scenario = golden("sql")
    expected = rebuilt(scenario)
    addresses = 0
    for queue, paths in scenario.queue_files().items():
        entries = stored(scenario, paths)
        assert entries.keys() == expected[queue].keys()
        for offset, raw in entries.items():
            assert raw[:12] == expected[queue][offset][:12]
            addresses += is_ext_address(ENTRY.unpack(raw)[2])
    assert addresses == sum(len(entries) for entries in expected.values())


def test_queues_beside_batch_and_light_ones_are_right(golden):
    for name in ("innerbatch", "lmq"):
        expected = rebuilt(golden(name))
        for queue, paths in golden(name).queue_files().items():
            if not queue.topic.startswith(LMQ_PREFIX):
                assert stored(golden(name), paths) == expected[queue]
