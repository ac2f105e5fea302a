"""From a golden send request to the golden record that Java made of it, byte for byte.

Java's choices (queue, offsets, store time, hosts) are taken from the record; everything else comes from the frame.
"""

import runpy
from pathlib import Path

import pytest
from one_frame import split_frame

from gantrymq.formats.batch_body import decode_batch
from gantrymq.formats.record import encode_record
from gantrymq.model import properties
from gantrymq.model.ids import parse_offset_id
from gantrymq.model.java import java_map_order
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import decode
from gantrymq.remoting.headers.send import read_send_header

SENDS = (RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)
ADDED = {properties.MSG_REGION: "DefaultRegion", properties.TRACE_ON: "true", properties.CLUSTER: "DefaultCluster"}

# Scenario to single sends and batches whose record is in the topic they name. Delayed and transactional sends
# go to other topics, with properties that the plugins for them add. Oneway sends have no answer that names a record.
COUNTS = {
    "normal": (206, 0),
    "batch": (1, 12),
    "binary": (12, 0),
    "broadcast": (15, 0),
    "clientops": (18, 0),
    "orderly": (28, 0),
    "sql": (95, 0),
    "v550": (60, 0),
}


@pytest.fixture(scope="module")
def answered_sends():
    """Scenario to (request, offset ids that the answer names)."""
    load = runpy.run_path(str(Path(__file__).with_name("frames.py")))["load"]
    waiting, found = {}, {}
    for note, data in load():
        key = note["scenario"], note["conn"], note["opaque"]
        if note["dir"] == "client->broker" and note["code"] in SENDS:
            waiting[key] = data
        elif note["dir"] == "broker->client" and note["flag"] & 1 and key in waiting:
            request = decode(split_frame(waiting.pop(key)))
            if note["code"] == 0 and note["extFields"].get("msgId"):
                found.setdefault(note["scenario"], []).append((request, note["extFields"]["msgId"].split(",")))
    return found


def stored_text(header):
    """The properties of a send as a 5.x broker stores them."""
    own = properties.decode_text(header.properties or "") | ADDED
    return properties.encode({name: own[name] for name in java_map_order(own)})


def written(header, record, flag, body, text):
    return encode_record(
        topic=header.topic,
        queue_id=record.queue_id,
        body=body,
        properties=text,
        queue_offset=record.queue_offset,
        log_offset=record.log_offset,
        store_timestamp=record.store_timestamp,
        born_timestamp=header.born_timestamp,
        born_host=record.born_host,
        store_host=record.store_host,
        flag=flag,
        sys_flag=header.sys_flag,
        reconsume_times=header.reconsume_times,
    )


@pytest.mark.parametrize("name", COUNTS)
def test_a_send_request_becomes_the_record_that_java_made_of_it(golden, answered_sends, name):
    records = {record.log_offset: record for record in golden(name).log_records()}
    singles = batches = 0
    for request, ids in answered_sends[name]:
        header = read_send_header(request)
        stored = [records[parse_offset_id(text)[2]] for text in ids]
        if stored[0].topic != header.topic:
            continue
        if header.batch:
            batches += 1
            envelope = stored_text(header)
            for record, entry in zip(stored, decode_batch(request.payload), strict=True):
                own = entry.properties if entry.properties.endswith(b"\x02") else entry.properties + b"\x02"
                text = (own if entry.properties else b"") + envelope
                assert written(header, record, entry.flag, entry.body, text) == record.raw
        else:
            singles += 1
            (record,) = stored
            assert written(header, record, header.flag, request.payload, stored_text(header)) == record.raw
    assert (singles, batches) == COUNTS[name]
