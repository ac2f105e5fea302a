"""Ext files, batch queues and light queues of the golden stores against their logs, byte for byte."""

from gantrymq.formats.batch_entry import BATCH_ENTRY, BATCH_ENTRY_BYTES, pack_batch_entry, read_batch_entry
from gantrymq.formats.ext_unit import END_OF_UNITS, TAIL_BYTES, ext_address, iter_ext_units, pack_ext_unit
from gantrymq.formats.queue_entry import ENTRY
from gantrymq.formats.tags_code import tags_code
from gantrymq.model import properties as props
from gantrymq.model.names import LMQ_PREFIX
from gantrymq.model.queue import Queue
from gantrymq.model.sys_flag import INNER_BATCH, NEED_UNWRAP


def by_queue(scenario, part):
    """Files of every queue below *part* of the store, oldest first."""
    found = {}
    for path in sorted((scenario.store / part).glob("*/*/*")):
        found.setdefault(Queue(path.parent.parent.name, int(path.parent.name)), []).append(path)
    return found


def test_every_batch_queue_entry_says_what_the_log_says(golden):
    scenario = golden("innerbatch")
    file_bytes = int(scenario.conf["mapperFileSizeBatchConsumeQueue"])
    expected = {}
    for record in scenario.log_records():
        inner = bool(record.sys_flag & INNER_BATCH)
        assert bool(record.sys_flag & NEED_UNWRAP) is inner
        base = int(record.properties.get(props.INNER_BASE, record.queue_offset))
        count = int(record.properties.get(props.INNER_NUM, 1))
        assert base == record.queue_offset
        code = tags_code(record.properties.get(props.TAGS))
        expected.setdefault(Queue(record.topic, record.queue_id), []).append(
            pack_batch_entry(record.log_offset, record.total_size, code, record.store_timestamp, base, count)
        )
    for queue, paths in by_queue(scenario, "batchconsumequeue").items():
        data = b"".join(path.read_bytes() for path in paths)
        assert len(data) == file_bytes * len(paths)
        entries = [read_batch_entry(data, index) for index in range(len(data) // BATCH_ENTRY_BYTES)]
        written = entries[: entries.index(None)]
        assert b"".join(BATCH_ENTRY.pack(*entry) for entry in written) == b"".join(expected.pop(queue))
        assert not any(data[len(written) * BATCH_ENTRY_BYTES :])
        assert [entry.base_offset for entry in written[1:]] == [entry.end_offset for entry in written[:-1]]
    assert expected == {}


def test_every_ext_unit_says_what_the_log_says(golden):
    scenario = golden("sql")
    file_bytes = int(scenario.conf["mappedFileSizeConsumeQueueExt"])
    expected = {}
    for record in scenario.log_records():
        queue = Queue(record.topic, record.queue_id)
        said = (record.total_size, tags_code(record.properties.get(props.TAGS)), record.store_timestamp)
        expected.setdefault(queue, {})[record.log_offset] = said
    ext_files = by_queue(scenario, "consumequeue_ext")
    assert ext_files.keys() == expected.keys()
    assert all(len(paths) > 1 for paths in ext_files.values())
    for queue, paths in ext_files.items():
        units, room = {}, 0
        for number, path in enumerate(paths):
            data = path.read_bytes()
            assert (int(path.name), len(data)) == (number * file_bytes, file_bytes)
            first = next(iter_ext_units(data))[1]
            assert first.size > room  # it did not fit the file before
            packed = b""
            for position, unit in iter_ext_units(data):
                units[ext_address(int(path.name) + position)] = unit
                packed += pack_ext_unit(unit)
            tail = b"" if path == paths[-1] else END_OF_UNITS
            assert data == packed + tail + bytes(file_bytes - len(packed) - len(tail))
            room = file_bytes - len(packed) - TAIL_BYTES
        entries = [
            ENTRY.unpack_from(path.read_bytes(), at)
            for path in scenario.queue_files()[queue]
            for at in range(0, path.stat().st_size, ENTRY.size)
        ]
        assert [address for _, size, address in entries if size] == list(units)
        for log_offset, size, address in entries:
            if size:
                unit = units[address]
                assert (size, unit.tags_code, unit.store_timestamp) == expected[queue].pop(log_offset)
        assert expected[queue] == {}


def test_every_light_queue_holds_what_the_records_promise(golden):
    scenario = golden("lmq")
    expected = {}
    for record in scenario.log_records():
        named = record.properties.get(props.INNER_MULTI_DISPATCH)
        if named is None:
            continue
        offsets = record.properties[props.INNER_MULTI_QUEUE_OFFSET].split(",")
        for name, offset in zip(named.split(","), offsets, strict=True):
            entries = expected.setdefault(name, [])
            assert len(entries) == int(offset)
            code = tags_code(record.properties.get(props.TAGS))
            entries.append(ENTRY.pack(record.log_offset, record.total_size, code))
    light = {queue: paths for queue, paths in scenario.queue_files().items() if queue.topic.startswith(LMQ_PREFIX)}
    assert light.keys() == {Queue(name, 0) for name in expected}
    for queue, paths in light.items():
        data = b"".join(path.read_bytes() for path in paths)
        entries = b"".join(expected[queue.topic])
        assert data == entries + bytes(len(data) - len(entries))
