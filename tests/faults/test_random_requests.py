"""Requests with unusual values, the same in every run: any answer is allowed, but no request may fail like a bug.

The broker is reopened afterwards, because everything that it accepted must be readable too.
"""

import json
import random
import struct
import zlib

import pytest
from faulty_broker import start_broker, start_name_server
from header_classes import REQUEST_HEADERS

from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.headers.base import fields_of
from gantrymq.remoting.headers.send import SendMessageRequest, send_fields

REQUESTS = 1500
TEXTS = [
    "",
    "x",
    "-1",
    "0",
    "1",
    "2147483647",
    "-2147483648",
    "9223372036854775807",
    "9" * 20,
    "true",
    "T",
    "a/b",
    "CG",
]
TEXTS += ["%RETRY%CG", "TBW102", "\0", "ü", "1.5", "nan", "{}", "*", "||", "SQL92", "+a=b", "null"]
VALUES = [None, True, 0, -1, 7, 1.5, 2**70, "", "x", "T", "CG", [], {}, [1], [None], [[]], {"a": 1}, "ü"]
NAMES = ["clientID", "consumerDataSet", "producerDataSet", "groupName", "subscriptionDataSet", "topic", "subString"]
NAMES += ["subVersion", "tagsSet", "codeSet", "expressionType", "mqSet", "queueId", "brokerName", "consumerGroup"]
NAMES += ["topicConfigList", "topicName", "perm", "attributes", "groupConfigList", "retryMaxTimes", "subscriptionData"]
NAMES += ["heartbeatFingerprint", "withoutSub", "consumeType", "messageModel", "groupRetryPolicy", "offsetTable"]
ODD_IN_BODY = (18, 34, 41, 42, 46, 200, 225)  # requests whose body is JSON


def odd_value(rng, depth):
    if depth > 3 or rng.random() < 0.35:
        return rng.choice(VALUES)
    if rng.random() < 0.7:
        return {rng.choice(NAMES): odd_value(rng, depth + 1) for _ in range(rng.randint(0, 5))}
    return [odd_value(rng, depth + 1) for _ in range(rng.randint(0, 3))]


def fields_by_code(code):
    header = REQUEST_HEADERS.get(code)
    return send_fields(code) if header is SendMessageRequest else () if header is None else fields_of(header)


def odd_header(rng, code):
    ext = {}
    for field in fields_by_code(code):
        if rng.random() < 0.85:
            usual = field.kind != "string" and rng.random() < 0.7
            ext[field.wire] = rng.choice("012") if usual else rng.choice(TEXTS)
    if code in (RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE):
        ext["suspendTimeoutMillis"] = "0"
    return ext


def odd_registration(rng):
    """A compressed registration: blocks, counts and topic lines of odd values."""

    def block(data):
        return struct.pack(">i", len(data) if rng.random() < 0.97 else rng.choice([-1, 0, 7, 2**31 - 1])) + data

    def line():
        words = [rng.choice(TEXTS) if rng.random() < 0.2 else rng.choice("012") for _ in range(rng.randint(3, 7))]
        return " ".join([*words[:5], *map(json.dumps, words[5:])]).encode()

    def blocks(make):
        count = rng.randint(0, 3)
        said = count if rng.random() < 0.9 else rng.choice([-1, 4, 100_001, 2**31 - 1])
        return struct.pack(">i", said) + b"".join(block(make()) for _ in range(count))

    def document():
        usual = rng.choice([{"counter": 1}, {"topic": "T", "currIdMap": {"0": 0}}])
        return json.dumps(usual if rng.random() < 0.6 else odd_value(rng, 1)).encode()

    servers = json.dumps(odd_value(rng, 2) if rng.random() < 0.2 else ["f:1"]).encode()
    return zlib.compress(block(document()) + blocks(line) + block(servers) + blocks(document))


def odd_body(rng, code):
    if code not in ODD_IN_BODY and rng.random() < 0.3:
        return rng.choice([None, b"junk", bytes(50)])
    return json.dumps({rng.choice(NAMES): odd_value(rng, 1) for _ in range(4)}).encode()


@pytest.mark.parametrize("seed", [1, 2])
def test_no_request_fails_as_a_bug_would(tmp_path, logged, seed):
    rng = random.Random(seed)
    codes = [int(code) for code in RequestCode]
    running = start_broker(tmp_path / "store")
    try:
        with running.peer() as peer:
            for _ in range(REQUESTS):
                code = rng.choice(codes)
                answer = peer.ask(code, odd_header(rng, code), odd_body(rng, code))
                if answer.code == 3:
                    codes.remove(code)
                assert answer.code < 2000
        assert logged.errors() == []
        assert running.serves()
    finally:
        running.close()
    again = start_broker(tmp_path / "store")
    try:
        assert again.serves()
    finally:
        again.close()


@pytest.mark.parametrize("seed", [1, 2])
def test_no_request_to_a_name_server_fails_as_a_bug_would(tmp_path, logged, seed):
    rng = random.Random(seed)
    codes = [int(code) for code in RequestCode]
    answered = set()
    running = start_name_server(tmp_path)
    try:
        with running.peer() as peer:
            for turn in range(REQUESTS):
                code = RequestCode.REGISTER_BROKER if turn % 4 == 0 else rng.choice(codes)
                ext, body = odd_header(rng, code), odd_body(rng, code)
                if code == RequestCode.REGISTER_BROKER:
                    usual = {"brokerName": "b", "brokerAddr": "127.0.0.1:1", "clusterName": "c", "haServerAddr": "x"}
                    usual |= {"brokerId": "0", "bodyCrc32": "0"}
                    ext = ext if rng.random() < 0.2 else {**ext, **usual, "compressed": "true"}
                    body = body if rng.random() < 0.2 else odd_registration(rng)
                answer = peer.ask(code, ext, body)
                if code == RequestCode.REGISTER_BROKER:
                    answered.add(answer.code)
                elif answer.code == 3:
                    codes.remove(code)
                assert answer.code < 2000
        assert answered >= {0, 1}  # some were read to the end, some refused
        assert logged.errors() == []
        assert running.serves()
    finally:
        running.close()
