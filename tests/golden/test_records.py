"""Every record of every golden log, field by field as Java's decoder read it."""

import base64
import hashlib
import ipaddress

import pytest
from golden_stores import SCENARIOS

from gantrymq.formats.record import encode_record
from gantrymq.model.hosts import unpack_host
from gantrymq.model.ids import offset_id
from gantrymq_store_files.check import LogContent


def java_host(packed):
    """An address as Java prints it: IPv6 with all eight groups and without brackets."""
    host, port = unpack_host(packed)
    if ":" in host:
        host = ":".join(f"{int(group, 16):x}" for group in ipaddress.ip_address(host).exploded.split(":"))
    return f"{host}:{port}"


def described(place):
    """A record with the field names of records.jsonl."""
    record = place.check.record
    if record is None:
        return {"kind": "blank", "file": place.file, "position": place.position, "size": place.check.size}
    body = bytes(record.body)
    line = {
        "kind": "record",
        "topic": record.topic,
        "queueId": record.queue_id,
        "queueOffset": record.queue_offset,
        "commitLogOffset": record.log_offset,
        "storeSize": record.total_size,
        "sysFlag": record.sys_flag,
        "flag": record.flag,
        "bornTimestamp": record.born_timestamp,
        "bornHost": java_host(record.born_host),
        "storeTimestamp": record.store_timestamp,
        "storeHost": java_host(record.store_host),
        "bodyCRC": record.body_crc,
        "reconsumeTimes": record.reconsume_times,
        "preparedTransactionOffset": record.prepared_offset,
        "msgId": offset_id(record.store_host, record.log_offset),
        "transactionId": None,
        "properties": record.properties,
        "bodyLength": len(body),
        "bodySha256": hashlib.sha256(body).hexdigest(),
        "file": place.file,
        "position": place.position,
        "magic": f"{record.magic:08x}",
    }
    if len(body) <= 1024:
        line["body"] = base64.b64encode(body).decode()
    return line


@pytest.mark.parametrize("name", [name for name in SCENARIOS if name != "crash/torn"])
def test_records_read_as_java_reads_them(golden, name):
    scenario = golden(name)
    for place, said in zip(scenario.log(), scenario.records, strict=True):
        assert described(place) == said


def test_the_torn_record_is_not_taken_for_one(golden):
    """Java's client decoder, which checks no CRC, reads it as a message of the topic ""."""
    torn = golden("crash/torn")
    *sound, last = torn.log()
    assert [described(place) for place in sound] == torn.records[:-1]
    assert last.check.found is LogContent.TORN
    assert (last.position, torn.records[-1]["position"], torn.records[-1]["topic"]) == (30519, 30519, "")


@pytest.mark.parametrize("name", SCENARIOS)
def test_records_are_written_as_java_wrote_them(golden, name):
    for record in golden(name).log_records():
        written = encode_record(
            topic=record.topic,
            queue_id=record.queue_id,
            body=record.body,
            properties=bytes(record.properties_bytes),
            queue_offset=record.queue_offset,
            log_offset=record.log_offset,
            store_timestamp=record.store_timestamp,
            born_timestamp=record.born_timestamp,
            born_host=record.born_host,
            store_host=record.store_host,
            flag=record.flag,
            sys_flag=record.sys_flag,
            reconsume_times=record.reconsume_times,
            prepared_offset=record.prepared_offset,
        )
        assert written == record.raw


@pytest.mark.parametrize("name", SCENARIOS)
def test_files_have_their_size_and_nothing_but_zeros_behind_the_end(golden, name):
    scenario = golden(name)
    *_, last = scenario.log()
    end = last.position + last.check.size if last.check.found is LogContent.RECORD else 0
    for path in scenario.log_files():
        data = path.read_bytes()
        assert len(data) == scenario.size("mappedFileSizeCommitLog")
        if path.name > last.file:
            assert not any(data)
        elif path.name == last.file and not name.startswith("crash/torn"):  # there the cut record's first half
            assert not any(data[end:])


def test_the_table_of_scenarios_is_the_archive(golden_folder):
    found = {str(path.parent.relative_to(golden_folder)) for path in golden_folder.rglob("broker.conf")}
    assert found == set(SCENARIOS)
