"""storage_mmap opens stores that Java stopped cleanly, reads exactly their records, and changes nothing."""

import base64
import hashlib
import zlib

import pytest
from golden_stores import EXTRAS, SCENARIOS
from mmap_stores import contents, read_queue, with_open_store

from gantrymq.model.ids import offset_id
from gantrymq.model.queue import Queue
from gantrymq.model.sys_flag import COMPRESSED, COMPRESSION_LZ4, COMPRESSION_MASK, COMPRESSION_ZSTD
from gantrymq_store_files.checkpoint import decode_checkpoint
from gantrymq_store_files.queue_entry import ENTRY, PRE_BLANK

CLEAN = [name for name in SCENARIOS if name not in ("crash/killed", "crash/torn")]
BY_CONSUMER = ("MIN_OFFSET", "MAX_OFFSET")  # properties added by a consumer; a message sent back is stored with them
PARTS = ("commitlog", "consumequeue", "consumequeue_ext", "batchconsumequeue")
NO_PULL = ("mqadmin", "ha/slave")  # no consumer read these


def entries_on_disk(scenario, queue):
    """Queue offset to packed entry, without entries of deleted records."""
    log_start = int(scenario.log_files()[0].name)
    found = {}
    for path in scenario.queue_files()[queue]:
        data = path.read_bytes()
        for at in range(0, len(data), 20):
            log_offset, size, _ = ENTRY.unpack_from(data, at)
            if size > 0 and data[at : at + 20] != PRE_BLANK and log_offset >= log_start:
                found[(int(path.name) + at) // 20] = data[at : at + 20]
    return found


@pytest.mark.parametrize("name", CLEAN)
def test_a_store_that_java_closed_opens_cleanly_and_stays_as_it_was(golden_copy, name):
    scenario = golden_copy(name)
    before = {part: contents(scenario.store / part) for part in PARTS}
    said = [line for line in scenario.records if line["kind"] == "record"]

    async def look(store, report):
        assert (scenario.store / "abort").exists()
        assert report.clean
        assert (report.cut_bytes, report.kept, report.entries_rebuilt) == (0, (), 0)
        assert report.log_end == store.state().max_log_offset == said[-1]["commitLogOffset"] + said[-1]["storeSize"]
        assert store.state().published_offset == store.state().flushed_offset == report.log_end

    with_open_store(scenario, look)
    for part, files in before.items():
        assert contents(scenario.store / part) == files
    assert not (scenario.store / "abort").exists()
    assert not (scenario.store / "recovered").exists()
    checkpoint = decode_checkpoint((scenario.store / "checkpoint").read_bytes())
    assert checkpoint.log_timestamp == said[-1]["storeTimestamp"]
    with_open_store(scenario, look)
    assert contents(scenario.store / "commitlog") == before["commitlog"]


@pytest.mark.parametrize("name", CLEAN)
def test_an_open_store_yields_exactly_the_records(golden_copy, name):
    scenario = golden_copy(name)
    said = [line for line in scenario.records if line["kind"] == "record"]

    async def look(store, report):
        entries = list(store.scan(0, report.log_end))
        assert [entry.log_offset for entry in entries] == [line["commitLogOffset"] for line in said]
        for entry, line in zip(entries, said, strict=True):
            record = store.read(line["commitLogOffset"])
            assert described(record) == {member: line[member] for member in described(record)}
            assert entry[:5] == (
                line["topic"],
                line["queueId"],
                line["queueOffset"],
                line["commitLogOffset"],
                line["storeSize"],
            )
            assert (entry.store_timestamp, entry.sys_flag) == (line["storeTimestamp"], line["sysFlag"])

    with_open_store(scenario, look)


@pytest.mark.parametrize("name", [name for name in CLEAN if name not in EXTRAS])
def test_queues_have_the_bounds_and_entries_that_their_files_have(golden_copy, name):
    scenario = golden_copy(name)
    on_disk = {queue: entries_on_disk(scenario, queue) for queue in scenario.queue_files()}

    async def look(store, report):
        assert set(store.queues()) == set(on_disk)
        for queue, entries in on_disk.items():
            bounds = store.bounds(queue)
            assert set(range(*bounds)) == set(entries), queue
            records = await read_queue(store, queue)
            assert [record.queue_offset for record in records] == sorted(entries)
            packed = [ENTRY.pack(entry.log_offset, entry.size, entry.tags_code) for entry in scanned(store, queue)]
            assert packed == [entries[offset] for offset in sorted(entries)]

    with_open_store(scenario, look)


@pytest.mark.parametrize("name", [name for name in CLEAN if name not in NO_PULL and name != "innerbatch"])
def test_pulling_gives_what_the_java_consumer_got(golden_copy, name):
    scenario = golden_copy(name)
    log_start = int(scenario.log_files()[0].name)
    received = {
        (Queue(line["topic"], line["queueId"]), line["queueOffset"]): line
        for line in scenario.received("pull")
        if line["commitLogOffset"] >= log_start
    }
    assert received

    async def look(store, report):
        got = {
            (queue, record.queue_offset): record
            for queue in store.queues()
            for record in await read_queue(store, queue)
        }
        assert set(received) <= set(got)
        for place, line in received.items():
            same_message(got[place], line)

    with_open_store(scenario, look)


def scanned(store, queue):
    """Entries of one queue from a replay of the log."""
    return [entry for entry in store.scan(0, 1 << 62) if (entry.topic, entry.queue_id) == queue]


def same_message(record, line):
    """Compare a stored record with the message that a Java consumer made of it."""
    ours, theirs = (
        {name: value for name, value in found.items() if name not in BY_CONSUMER}
        for found in (record.properties, line["properties"])
    )
    assert ours == theirs
    assert (record.log_offset, record.total_size, record.flag) == (
        line["commitLogOffset"],
        line["storeSize"],
        line["flag"],
    )
    assert (record.born_timestamp, record.store_timestamp) == (line["bornTimestamp"], line["storeTimestamp"])
    assert record.body_crc == line["bodyCRC"]
    body = bytes(record.body)
    if record.sys_flag & COMPRESSED:
        if record.sys_flag & COMPRESSION_MASK in (COMPRESSION_LZ4, COMPRESSION_ZSTD):
            return  # no decompressor in the standard library; the CRC of the stored body is right
        body = zlib.decompress(body)
    assert (len(body), hashlib.sha256(body).hexdigest()) == (line["bodyLength"], line["bodySha256"])


def described(record):
    """Check the fields of a record in records.jsonl that `test_records` does not check more thoroughly."""
    body = bytes(record.body)
    line = {
        "topic": record.topic,
        "queueId": record.queue_id,
        "queueOffset": record.queue_offset,
        "commitLogOffset": record.log_offset,
        "storeSize": record.total_size,
        "msgId": offset_id(record.store_host, record.log_offset),
        "properties": record.properties,
        "bodyLength": len(body),
        "bodySha256": hashlib.sha256(body).hexdigest(),
    }
    if len(body) <= 1024:
        line["body"] = base64.b64encode(body).decode()
    return line
