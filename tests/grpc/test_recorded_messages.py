"""Validation, messages and settings equal the recorded conversation with RocketMQ's proxy, or differ as listed."""

import hashlib
import zlib

import pytest
from google.protobuf.json_format import MessageToDict
from grpc_recorded import NOW_MS, TYPES, answered, conversation, delivered

from gantrymq.plugin import properties as props
from gantrymq.plugin.formats import encode_record, read_record
from gantrymq.plugin.model import pack_host, parse_address
from gantrymq_grpc.conversion.codes import Refused
from gantrymq_grpc.conversion.messages import Sender, body_of, send_requests, write_message
from gantrymq_grpc.conversion.names import group_of, topic_of
from gantrymq_grpc.conversion.settings import Defaults, merged
from gantrymq_grpc.conversion.validation import Limits, check_messages, check_type, type_of
from gantrymq_grpc.definitions import Code, Encoding, Message, MessageType

PEER = ("127.0.0.1", 50000)
SENDER = Sender(PEER, pack_host(*PEER), None)
OTHER_TEXTS = {  # by note: why the text of a refusal is another one, after its beginning
    "FIFO to NORMAL topic": "ours names the command that makes a topic of this type",
    "NORMAL to FIFO topic": "ours names the command that makes a topic of this type",
}
ELSEWHERE = {  # refused by the operation that stores the message, with the broker's own text
    "unknown topic": "answered with TOPIC_NOT_FOUND and the command that creates it, unless the broker creates it",
}
OTHER_FIELDS = {  # fields of messages that differ from those recorded
    "body_encoding": "GZIP: handed out plain, because not every SDK reads it",
    "body_digest": "over the plain body",
}


def sent():
    return [(request, response, note) for request, response, note in answered("SendMessage")]


@pytest.mark.parametrize(("request_", "response", "note"), sent())
def test_sends_are_accepted_or_refused_as_recorded(request_, response, note):
    if note in ELSEWHERE:
        assert response.status.code == Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE
        return
    refused = refusal_of(request_.messages)
    if refused is None:
        assert response.status.code == Code.OK
    else:
        assert refused.code == response.status.code
        wanted = response.status.message.rpartition("ProxyException: ")[2]
        assert str(refused).startswith(wanted) if note in OTHER_TEXTS else str(refused) == wanted


def refusal_of(messages):
    try:
        topic = check_messages(messages, Limits(), NOW_MS)
        for message in messages:
            check_type(topic, {"message.type": TYPES[topic]}, type_of(message))
    except Refused as refused:
        return refused
    return None


def test_illegal_topics_and_groups_are_refused_as_recorded():
    """The texts are those that remoting clients get."""
    refused = [
        (request.topic, response.status)
        for request, response, note in answered("QueryRoute")
        if response.status.code == Code.ILLEGAL_TOPIC
    ]
    assert len(refused) == 2
    for topic, status in refused:
        with pytest.raises(Refused) as found:
            topic_of(topic)
        assert found.value.code == status.code
    (no_group,) = [request for request, response, note in answered("Heartbeat") if note == "no group"]
    with pytest.raises(Refused) as found:
        group_of(no_group.group)
    assert found.value.code == Code.ILLEGAL_CONSUMER_GROUP


def stored(recorded):
    """Return the record of a recorded message: what ours stores for the send, at the recorded place and time."""
    system = recorded.system_properties
    originals = [
        message
        for request, _, _ in sent()
        for message in request.messages
        if message.system_properties.message_id == system.message_id
    ]
    (send,) = send_requests(originals[:1], recorded.topic.name, SENDER, NOW_MS)
    own = props.decode_text(send.properties)
    for name in ("TRANSACTION_CHECK_TIMES", "__transactionId__"):  # the broker adds them
        if name in recorded.user_properties:
            own[name] = recorded.user_properties[name]
    return read_record(
        encode_record(
            topic=send.topic,
            queue_id=system.queue_id,
            body=send.body,
            properties=props.encode(own),
            queue_offset=system.queue_offset,
            store_timestamp=system.store_timestamp.seconds * 1000 + system.store_timestamp.nanos // 1_000_000,
            store_host=pack_host(*parse_address(system.store_host)),
            born_timestamp=send.born_timestamp,
            born_host=send.born_host,
            sys_flag=send.sys_flag,
        )
    )


@pytest.mark.parametrize("recorded", delivered())
def test_every_field_of_a_received_message_is_as_recorded(recorded):
    record = stored(recorded)
    ours = Message()
    handle = recorded.system_properties.receipt_handle
    write_message(ours, record, body_of(record), topic=record.topic, attempt=1, receipt_handle=handle)
    found, wanted = as_dict(ours), as_dict(recorded)
    if recorded.system_properties.body_encoding == Encoding.GZIP:
        plain = zlib.decompress(recorded.body, wbits=31)
        assert (ours.body, ours.system_properties.body_encoding) == (plain, Encoding.IDENTITY)
        assert ours.system_properties.body_digest.checksum == hashlib.md5(plain).hexdigest().upper()
        del found["body"], wanted["body"]
        for name in OTHER_FIELDS:
            del found["system_properties"][name], wanted["system_properties"][name]
    assert found == wanted


def as_dict(message):
    return MessageToDict(message, preserving_proto_field_name=True)


def test_the_recording_has_messages_of_both_kinds():
    kinds = {each.system_properties.message_type for each in delivered()}
    assert len(delivered()) > 5
    assert kinds == {MessageType.NORMAL, MessageType.TRANSACTION}


def test_settings_are_merged_as_recorded():
    lines = [line for line in conversation() if line.method == "Telemetry" and line.message is not None]
    asked = [line.message.settings for line in lines if line.direction == "request"]
    got = [line.message.settings for line in lines if line.message.HasField("status")]
    assert len(got) == 2
    for own, wanted in zip(asked[:2], got, strict=True):
        assert merged(own, None, Defaults()) == wanted
