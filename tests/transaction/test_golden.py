"""Stored messages and checks equal those of a Java broker 5.3.3, byte for byte."""

import struct

import pytest

from gantrymq.formats.record import encode_record, iter_records
from gantrymq.formats.tags_code import tags_code
from gantrymq.interfaces import PutResult, PutStatus
from gantrymq.model import properties as props
from gantrymq.model.hosts import pack_host
from gantrymq.model.java import ordered_text
from gantrymq.model.names import CHECK_MAX_TIME_TOPIC, HALF_TOPIC, OP_TOPIC
from gantrymq.remoting.command import decode
from gantrymq.remoting.frame import FrameDecoder
from gantrymq.remoting.pushes import check_command
from gantrymq_transaction import messages
from gantrymq_transaction.half_text import TRANSACTION_ID, HalfTextWriter
from gantrymq_transaction.rules import CHECK_TIMES, checks_of

golden_stores = pytest.importorskip("golden_stores")
frames = pytest.importorskip("frames")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("golden")
    golden_stores.unpack(folder)
    return golden_stores.Scenario("transaction", folder / "transaction")


@pytest.fixture(scope="module")
def log(store):
    return store.log_records()


def written(message, java):
    """The record of *message*, with the place and times of Java's own."""
    return encode_record(
        topic=message.topic,
        queue_id=message.queue_id,
        body=message.body,
        properties=message.properties,
        queue_offset=java.queue_offset,
        log_offset=java.log_offset,
        store_timestamp=java.store_timestamp,
        born_timestamp=message.born_timestamp,
        born_host=message.born_host,
        store_host=message.store_host,
        flag=message.flag,
        sys_flag=message.sys_flag,
        reconsume_times=message.reconsume_times,
        prepared_offset=message.prepared_offset,
    )


def halves(log):
    return [record for record in log if record.topic == HALF_TOPIC]


def test_half_messages(log):
    first = [record for record in halves(log) if not checks_of(record.properties)]
    texts = HalfTextWriter()
    for record in first * 2:
        own = dict(record.properties)
        topic, queue_id = own.pop(props.REAL_TOPIC), int(own.pop(props.REAL_QUEUE_ID))
        own.pop(TRANSACTION_ID)
        assert texts.of(ordered_text(own), topic, queue_id) == bytes(record.properties_bytes)
    assert len(first) == 21


def test_committed_messages(log):
    at = {record.log_offset: record for record in halves(log)}
    found = [record for record in log if record.topic == "GoldenTx"]
    for record in found:
        half = at[record.prepared_offset]
        queue = messages.real_queue(half.properties)
        assert written(messages.committed(half, half.properties, queue), record) == bytes(record.raw)
    assert len(found) > 5


def test_renewed_and_given_up_messages(log):
    before = {}
    renewed = given_up = 0
    for record in log:
        key = record.properties.get(props.UNIQ_KEY)
        if record.topic == HALF_TOPIC:
            times = checks_of(record.properties)
            if times:
                own = {**before[key].properties, CHECK_TIMES: str(times)}
                assert written(messages.renewed(before[key], own), record) == bytes(record.raw)
                renewed += 1
            before[key] = record
        elif record.topic == CHECK_MAX_TIME_TOPIC:
            half = before[key]
            assert written(messages.given_up(half, half.properties), record) == bytes(record.raw)
            given_up += 1
    assert renewed > 10
    assert given_up > 0


def test_op_messages(log):
    found = [record for record in log if record.topic == OP_TOPIC]
    for record in found:
        ours = messages.op_message(messages.offsets_in_op(record), record.born_timestamp, record.store_host)
        assert written(ours, record) == bytes(record.raw)
    assert len(found) > 3


def test_queue_entries_hold_the_hash_of_the_tag(store, log):
    (path,) = store.queue_files()[golden_stores.Queue(HALF_TOPIC, 0)]
    entries = {offset: code for offset, size, code in struct.iter_unpack(">qiq", path.read_bytes()) if size}
    for record in halves(log):
        assert entries[record.log_offset] == tags_code(record.properties["TAGS"])


def test_checks(log):
    at = {record.log_offset: record for record in halves(log)}
    by_key = {}
    for record in halves(log):
        by_key.setdefault(record.properties[props.UNIQ_KEY], []).append(record)
    checks = 0
    for note, frame in frames.load():
        if note["scenario"] != "transaction" or note.get("code") != 39:
            continue
        (asked,) = map(decode, FrameDecoder().feed(frame))
        copy = at[int(asked.ext["commitLogOffset"])]
        copies = by_key[copy.properties[props.UNIQ_KEY]]
        half = copies[copies.index(copy) - 1]
        ours = messages.check_of(
            half,
            copy.properties,
            messages.real_queue(half.properties),
            PutResult(PutStatus.OK, copy.queue_offset, copy.log_offset, copy.total_size, copy.store_timestamp),
            pack_host("127.0.0.2", 20911),
            "broker-a",
        )
        command = check_command(ours)
        assert bytes(command.body) == bytes(asked.payload)
        assert command.ext == asked.ext
        assert command.flag == asked.flag
        checks += 1
    assert checks == 21


def test_numbers_of_an_op_message(log):
    def op(body, properties=b"TAGS\x01d\x02"):
        raw = encode_record(topic=OP_TOPIC, queue_id=0, body=body, properties=properties)
        return next(iter_records(raw))

    assert messages.offsets_in_op(op(b"7,12,3,")) == [7, 12, 3]
    assert messages.offsets_in_op(op(b"7")) == [7]
    assert messages.offsets_in_op(op(b"7,x,,-3,9" + b"9" * 30)) == [7]
    assert messages.offsets_in_op(op(b"7,", b"TAGS\x01e\x02")) == []
