"""Ext files, batch queues and light queues of the golden stores against their logs, byte for byte."""

import shutil
from hashlib import sha256
from inspect import isawaitable

import pytest
from mmap_stores import contents, read_queue, with_open_store

from gantrymq.client.calls.decoding import decode_messages
from gantrymq.formats.batch_body import decode_batch
from gantrymq.formats.record import iter_records
from gantrymq.formats.tags_code import tags_code
from gantrymq.interfaces import BoundaryType, GetLimit
from gantrymq.model import properties as props
from gantrymq.model.names import LMQ_PREFIX
from gantrymq.model.queue import Queue
from gantrymq.model.sys_flag import INNER_BATCH, NEED_UNWRAP
from gantrymq_store_files.batch_entry import BATCH_ENTRY, BATCH_ENTRY_BYTES, pack_batch_entry, read_batch_entry
from gantrymq_store_files.ext_unit import END_OF_UNITS, TAIL_BYTES, ext_address, iter_ext_units, pack_ext_unit
from gantrymq_store_files.queue_entry import ENTRY

ADDED_BY_JAVA_S_CLIENT = ("MIN_OFFSET", "MAX_OFFSET", "CONSUME_START_TIME")


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
    for queue, paths in scenario.queue_files("batchconsumequeue").items():
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
    ext_files = scenario.queue_files("consumequeue_ext")
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


PARTS = ("consumequeue", "consumequeue_ext", "batchconsumequeue")


def queue_bytes(scenario):
    """Path to content, for every file of a queue."""
    return {part: contents(scenario.store / part) for part in PARTS}


async def everything(store, report):
    """The report, and for every queue its bounds and the log offsets of its records."""
    queues = store.queues()
    found = {queue: [record.log_offset for record in await read_queue(store, queue)] for queue in queues}
    return report, {queue: store.bounds(queue) for queue in queues}, found


@pytest.mark.parametrize(
    ("name", "removed", "crashed"),
    [
        ("innerbatch", ["batchconsumequeue"], False),
        ("innerbatch", ["batchconsumequeue"], True),
        ("innerbatch", ["batchconsumequeue", "config"], False),
        ("innerbatch", ["batchconsumequeue/GoldenInner/0"], True),
        ("lmq", ["consumequeue"], False),
        ("lmq", ["consumequeue"], True),
        ("lmq", ["consumequeue/%LMQ%q2"], True),
        ("sql", ["consumequeue"], False),
        ("sql", ["consumequeue"], True),
        ("sql", ["consumequeue/GoldenSql/1"], True),
    ],
)
def test_queues_that_were_removed_are_rebuilt_byte_for_byte(golden, golden_copy, name, removed, crashed):
    scenario = golden_copy(name)
    _, bounds, offsets = with_open_store(golden_copy(name), everything)
    for part in removed:
        shutil.rmtree(scenario.store / part)
    if crashed:
        (scenario.store / "abort").write_bytes(b"")
    report, rebuilt_bounds, rebuilt_offsets = with_open_store(scenario, everything)
    assert (report.cut_bytes, report.kept) == (0, ())
    assert report.entries_rebuilt > 0
    assert (rebuilt_bounds, rebuilt_offsets) == (bounds, offsets)
    assert queue_bytes(scenario) == queue_bytes(golden(name))


def test_ext_units_without_their_files_are_made_anew_without_bits(golden, golden_copy):
    scenario = golden_copy("sql")
    codes = {record.log_offset: tags_code(record.properties.get(props.TAGS)) for record in scenario.log_records()}
    shutil.rmtree(scenario.store / "consumequeue")
    shutil.rmtree(scenario.store / "consumequeue_ext")
    with_open_store(scenario, everything)
    for queue, paths in scenario.queue_files().items():
        units = {}
        for path in scenario.queue_files("consumequeue_ext")[queue]:
            units |= {ext_address(int(path.name) + at): unit for at, unit in iter_ext_units(path.read_bytes())}
        entries = [entry for entry in ENTRY.iter_unpack(b"".join(path.read_bytes() for path in paths)) if entry[1]]
        assert [entry[2] for entry in entries] == list(units)
        assert [unit.tags_code for unit in units.values()] == [codes[entry[0]] for entry in entries]
        assert {unit.bits for unit in units.values()} == {b""}


class Tagged:
    """A filter that accepts one tags code and records its calls."""

    accepts_all = needs_message = False

    def __init__(self, code):
        self.code = code
        self.asked = []

    def match_entry(self, code, ext):
        self.asked.append((code, ext))
        return code == self.code


@pytest.mark.parametrize("written", ["true", "false"])
@pytest.mark.parametrize("window", ["0", "1000000000"])
def test_filters_get_the_tags_code_and_the_unit_of_each_entry(golden_copy, written, window):
    scenario = golden_copy("sql")
    code = tags_code("TagA")
    queue = Queue("GoldenSql", 0)
    units = {
        (unit.tags_code, unit.store_timestamp, unit.bits)
        for path in scenario.queue_files("consumequeue_ext")[queue]
        for _, unit in iter_ext_units(path.read_bytes())
    }
    wanted = [
        record.log_offset
        for record in scenario.log_records()
        if record.queue_id == 0 and record.properties.get(props.TAGS) == "TagA"
    ]

    async def look(store, report):
        match, found, offset = Tagged(code), [], 0
        while offset < store.bounds(queue).max_offset:
            result = store.get(queue, offset, GetLimit(), match)
            result = await result if isawaitable(result) else result
            found += [record.log_offset for buffer in result.buffers for record in iter_records(buffer)]
            offset = result.next_offset
        assert found == wanted
        assert {tuple(ext) for _, ext in match.asked} == units
        assert all(asked == ext.tags_code for asked, ext in match.asked)

    with_open_store(scenario, look, enableConsumeQueueExt=written, hotReadWindow=window)


def test_each_offset_of_an_inner_batch_is_served_with_its_record(golden_copy):
    scenario = golden_copy("innerbatch")
    covering = {}
    for record in scenario.log_records():
        count = len(decode_batch(record.body)) if record.sys_flag & INNER_BATCH else 1
        for offset in range(record.queue_offset, record.queue_offset + count):
            covering[record.queue_id, offset] = (record.log_offset, record.queue_offset + count)
    received = {(line["queueId"], line["queueOffset"]) for line in scenario.received("pull")}
    assert received == covering.keys()

    async def look(store, report):
        for (queue_id, offset), (log_offset, end) in covering.items():
            result = store.get(Queue("GoldenInner", queue_id), offset, GetLimit(1), None)
            result = await result if isawaitable(result) else result
            (record,) = [record for buffer in result.buffers for record in iter_records(buffer)]
            assert (record.log_offset, result.next_offset) == (log_offset, end)
            assert result.count == end - record.queue_offset

    with_open_store(scenario, look)
    with_open_store(scenario, look, hotReadWindow="0")


def test_our_client_makes_of_inner_batches_what_java_s_made(golden):
    scenario = golden("innerbatch")
    log = b"".join(bytes(record.raw) for record in scenario.log_records())
    found = {(message.queue_id, message.queue_offset): message for message in decode_messages(log, "broker-a")}
    received = scenario.received("pull")
    assert len(found) == len(received)
    for line in received:
        message = found[line["queueId"], line["queueOffset"]]
        assert (len(message.body), sha256(message.body).hexdigest()) == (line["bodyLength"], line["bodySha256"])
        assert message.properties == {k: v for k, v in line["properties"].items() if k not in ADDED_BY_JAVA_S_CLIENT}
        same = (message.topic, message.flag, message.log_offset, message.born_timestamp, message.store_timestamp)
        assert same == tuple(line[n] for n in ("topic", "flag", "commitLogOffset", "bornTimestamp", "storeTimestamp"))
        assert message.body_problem == ""


def test_offsets_by_time_find_the_batch_that_was_stored_then(golden_copy):
    scenario = golden_copy("innerbatch")
    records = [record for record in scenario.log_records() if record.queue_id == 0]

    async def look(store, report):
        queue = Queue("GoldenInner", 0)
        for record in records:
            for edge in BoundaryType:
                assert await store.offset_at(queue, record.store_timestamp, edge) == record.queue_offset
        assert [await store.offset_at(queue, 0, edge) for edge in BoundaryType] == [0, 0]
        late = records[-1].store_timestamp + 1
        assert await store.offset_at(queue, late, BoundaryType.LOWER) == store.bounds(queue).max_offset
        assert await store.offset_at(queue, late, BoundaryType.UPPER) == records[-1].queue_offset

    with_open_store(scenario, look)
