"""Requests above the size limit."""

import base64

import pytest

from gantrymq.formats.batch_body import BatchEntry, encode_batch
from gantrymq.loose_json import dumps
from gantrymq.remoting.bodies import MAX_BODY_BYTES, MAX_LOOSE_BYTES, MAX_PARTS, MAX_PROPERTIES_BYTES
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import MAX_FIELDS
from gantrymq.remoting.frame import PREFIX
from gantrymq.remoting.headers.base import MAX_TEXT_CHARS


@pytest.fixture
def refuses(broker, row):
    """Send the request; compare code and sentence with the row."""

    def check(code, ext=None, body=None, /, **values):
        with broker.peer() as peer:
            answer = peer.ask(code, ext, body)
            row.check(answer.remark, answer.code, **values)

    return check


def test_bi242_a_body_that_is_too_long(refuses):
    body = b" " * (MAX_BODY_BYTES + 1)
    refuses(RequestCode.HEART_BEAT, {}, body, name="HEART_BEAT", size=len(body), limit=MAX_BODY_BYTES)


def test_bi243_a_body_of_too_many_parts(refuses):
    body = b"[" + b"[]," * MAX_PARTS + b"{}]"
    refuses(RequestCode.LOCK_BATCH_MQ, {}, body, name="LOCK_BATCH_MQ", parts=MAX_PARTS + 2, limit=MAX_PARTS)


def test_bi244_a_long_body_that_is_not_strict(refuses):
    body = b"{a:1," + b" " * MAX_LOOSE_BYTES + b"}"
    refuses(RequestCode.LOCK_BATCH_MQ, {}, body, name="LOCK_BATCH_MQ", limit=MAX_LOOSE_BYTES)


def test_bi245_a_batch_of_acknowledgements_with_more_messages_than_a_pop_has(broker_with, row):
    pytest.importorskip("gantrymq_pop")
    bits = base64.b64encode(b"\xff" * 64).decode()
    entry = {"c": "CG", "t": "T", "r": "0", "so": 0, "q": 0, "rq": 0, "pt": 1, "it": 1, "b": bits}
    running = broker_with(plugins="filter_tag,storage_mmap,pop", brokerName="broker-a")
    with running.peer() as peer:
        answer = peer.ask(RequestCode.BATCH_ACK_MESSAGE, {}, dumps({"brokerName": "broker-a", "acks": [entry]}))
        row.check(answer.remark, answer.code, count=512, most=32)


def test_bi255_a_field_that_is_too_long(refuses):
    ext = {"topic": "T", "key": "k" * 10_000_000, "maxNum": 1, "beginTimestamp": 0, "endTimestamp": 1}
    limit = MAX_TEXT_CHARS
    refuses(RequestCode.QUERY_MESSAGE, ext, name="QUERY_MESSAGE", field="key", length=10_000_000, limit=limit)


def test_bi256_settings_that_are_too_long(refuses):
    body = b"\n" * (MAX_PROPERTIES_BYTES + 1)
    name, limit = "UPDATE_BROKER_CONFIG", MAX_PROPERTIES_BYTES
    refuses(RequestCode.UPDATE_BROKER_CONFIG, {}, body, name=name, size=len(body), limit=limit)


def test_bi257_a_batch_of_too_many_messages(broker, row):
    body = encode_batch([BatchEntry(0, b"x", b"")] * 16_385)
    with broker.peer() as peer:
        answer = peer.ask(
            320, {"a": "PG", "b": "T", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1, "h": 0, "m": True}, body
        )
        row.check(answer.remark, answer.code, topic="T", number=16_384, place=16_384 * 23)


@pytest.mark.parametrize(
    ("code", "name", "each"),
    [
        (RequestCode.HEART_BEAT, "producerDataSet", {"groupName": "G"}),
        (RequestCode.LOCK_BATCH_MQ, "mqSet", {"topic": "T", "brokerName": "b", "queueId": 1}),
        (RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, "topicConfigList", {"topicName": "T"}),
    ],
)
def test_bi258_a_list_that_is_too_long(refuses, code, name, each):
    refuses(code, {}, dumps({name: [each] * 10_001}), name=name, count=10_001, limit=10_000)


def test_bi259_a_heartbeat_of_too_many_groups(refuses):
    body = dumps({"clientID": "c", "consumerDataSet": [{"groupName": "G"}] * 5001})
    refuses(RequestCode.HEART_BEAT, {}, body, count=5001, limit=5000)


def test_bi260_a_long_header_of_too_many_fields(broker, row, logged):
    header = dumps({"code": 34, "extFields": {str(each): "x" * 200 for each in range(1000)}})
    with broker.peer() as peer:
        peer.write(PREFIX.pack(4 + len(header), len(header)) + header)
        assert peer.is_closed()
        row.check(logged.wait_for(peer.name), "closed", peer=peer.name, size=len(header), limit=MAX_FIELDS)


def test_bi261_an_offset_for_an_unknown_queue(broker, row):
    group = {"groupName": "Committing"}
    with broker.peer() as peer:
        assert peer.create_topic("Committed").code == 0
        assert peer.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, dumps(group)).code == 0
        ext = {"consumerGroup": "Committing", "topic": "Committed", "queueId": 7, "commitOffset": 0}
        answer = peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, ext)
        row.check(answer.remark, answer.code, queue=7, topic="Committed", count=1)


def test_a_remark_repeats_no_more_than_the_beginning_of_a_value(broker):
    with broker.peer() as peer:
        for topic in ("t" * 60_000, "a b " * 15_000):
            answer = peer.ask(RequestCode.GET_TOPIC_CONFIG, {"topic": topic})
            assert (answer.code, len(answer.remark) < 400) == (17, True)
            assert answer.remark.endswith("see: gantrymq topic list")
            assert topic[:200] in answer.remark
            assert topic[:210] not in answer.remark
