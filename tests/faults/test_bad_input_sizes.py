"""Requests that are larger than one may be."""

import base64

import pytest

from gantrymq.loose_json import dumps
from gantrymq.remoting.bodies import MAX_BODY_BYTES, MAX_LOOSE_BYTES, MAX_PARTS
from gantrymq.remoting.codes import RequestCode


@pytest.fixture
def refuses(broker, row):
    """Ask the broker; compare code and sentence with the row."""

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
