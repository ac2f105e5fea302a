"""Unusual requests of every code that a broker with all plugins serves: each is answered quickly, and nothing breaks.

The codes are those registered with the router, so new ones are included. Fields come from the header classes and
bodies from real clients, with one or two values replaced. The same seed makes the same requests.
"""

import json
import random
import re
import resource

import pytest
from faulty_broker import start_broker

from gantrymq.broker.wire.router import RequestRouter
from gantrymq.errors import ServerFault
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.headers.base import Header, fields_of
from gantrymq.remoting.headers.send import SendMessageRequest, send_fields

STEP_S = 0.1  # of the loop's processor time
MEMORY_KIB = 400 * 1024
PYTHONS_OWN = re.compile(
    r"object has no attribute|invalid literal|not iterable|unexpected keyword|dictionary update|NoneType|codec can't|"
    r"must be (?:str|int|real)\b|not subscriptable|unhashable|Traceback|Error: |fromhex|to unpack|out of range for"
)
TEXTS = ["", " ", "-1", "1_0", "0x1", "1e3", "\u0663", "2147483648", "-9223372036854775809", "9" * 400, "nan", "null"]
TEXTS += ["true", "\0", "../x", "%RETRY%CG", "T", "CG", "||", "{", "x" * 300, "a b " * 100, "x" * 70_000]
VALUES = [None, True, -1, 1.5, 2**31, 2**63, 2**70, 1e300, "", "1_0", "x" * 300, [], {}, [None], [[]], {"a": None}]
USUAL = {"topic": "T", "consumerGroup": "CG", "group": "CG", "producerGroup": "PG", "defaultTopic": "TBW102"}
USUAL |= {"suspendTimeoutMillis": "0", "pollTime": "0", "subscription": "*", "expressionType": "TAG"}
QUEUE = {"topic": "T", "brokerName": "b", "queueId": 0}
GROUP = {"groupName": "CG", "retryQueueNums": 1, "retryMaxTimes": 16, "groupRetryPolicy": {"type": "CUSTOMIZED"}}
SUBSCRIPTION = {"topic": "T", "subString": "*", "subVersion": 1, "tagsSet": ["a"], "codeSet": [1]}
CONSUMER = {"groupName": "CG", "consumeType": "CONSUME_PASSIVELY", "subscriptionDataSet": [SUBSCRIPTION]}
TOPIC = {
    "topicName": "T",
    "readQueueNums": 1,
    "writeQueueNums": 1,
    "perm": 6,
    "attributes": {"+message.type": "NORMAL"},
}
ACK = {"c": "CG", "t": "T", "r": "0", "so": 0, "q": 0, "rq": 0, "pt": 1, "it": 1, "b": "AQ=="}
BODIES = {
    18: {"topicConfigList": [TOPIC]},
    34: {"clientID": "c", "consumerDataSet": [CONSUMER], "producerDataSet": [{"groupName": "PG"}]},
    41: {"consumerGroup": "CG", "clientId": "c", "mqSet": [QUEUE]},
    42: {"consumerGroup": "CG", "clientId": "c", "mqSet": [QUEUE]},
    46: {"clientId": "c", "group": "CG", "subscriptionData": SUBSCRIPTION},
    200: GROUP,
    225: {"groupConfigList": [GROUP]},
    400: {"topic": "T", "consumerGroup": "CG", "clientId": "c", "strategyName": "AVG", "messageModel": "CLUSTERING"},
    401: {"topic": "T", "consumerGroup": "CG", "mode": "POP", "popShareQueueNum": 1},
    200151: {"brokerName": "b", "acks": [ACK]},
    65011: {"start": 0, "count": 10, "group": "CG", "topic": "T", "given_up": False},
    65012: {"unique_id": "x"},
}
WHOLE = [None, b"junk", b"null", b"[]", b"{}", b"5", b"[" * 50_000, b" " * 1_100_000, b"\n" * 60_000, b"{a:1," * 6000]
WHOLE += [b"k=v\n" * 200_000, b'{"a":' + b"[]," * 60_000, b"{1:1," * 6000, b"\xff" * 300, b"\0" * 100_000]


def headers():
    """Header classes of requests by code, those of plugins included."""
    found, left = {}, [Header]
    while left:
        cls = left.pop()
        left += cls.__subclasses__()
        if cls is not Header and not cls.__name__.endswith("Response"):
            found |= dict.fromkeys(cls.codes, cls)
    return found


def fields_by(code, classes):
    cls = classes.get(code)
    if cls is SendMessageRequest:
        return send_fields(code)
    return [] if cls is None else fields_of(cls)


def odd_fields(rng, fields):
    ext = {}
    for field in fields:
        if field.required or rng.random() < 0.5:
            ext[field.wire] = USUAL.get(field.wire, "x" if field.kind == "string" else "0")
    held = {"suspendTimeoutMillis", "pollTime"}  # an answer that is held for long is outside this test
    for name in rng.sample(sorted(ext.keys() - held), min(len(ext.keys() - held), rng.randint(0, 2))):
        ext[name] = rng.choice(TEXTS)
    if ext and rng.random() < 0.1:
        del ext[rng.choice(sorted(ext))]
    return ext


def spoilt(rng, value):
    """A copy of *value* with one member replaced, or a list with very many of it."""
    if isinstance(value, dict) and value and rng.random() < 0.8:
        name = rng.choice(sorted(value))
        return {**value, name: spoilt(rng, value[name])}
    if isinstance(value, list) and value and rng.random() < 0.8:
        return value * rng.choice([2500, 12_000]) if rng.random() < 0.1 else [spoilt(rng, value[0])]
    return rng.choice(VALUES)


def odd_body(rng, code):
    if code not in BODIES or rng.random() < 0.25:
        return rng.choice(WHOLE)
    return json.dumps(spoilt(rng, BODIES[code])).encode()


def ask_all(tmp_path, monkeypatch, longest_step, seed, each):
    """Send every code *each* times; return the problems found."""
    served, add = set(), RequestRouter.add

    def noted(router, handlers):
        served.update(handlers)
        add(router, handlers)

    monkeypatch.setattr(RequestRouter, "add", noted)
    running, problems = start_broker(tmp_path / "store", plugins=""), []
    try:
        assert {10, 34, 200, 310} <= served
        classes = headers()
        assert running.serves()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for code in sorted(served):
            rng, fields = random.Random(f"{seed}/{code}"), fields_by(code, classes)
            with running.peer() as peer:
                peer.socket.settimeout(10)
                for _ in range(each):
                    ext, body = odd_fields(rng, fields), odd_body(rng, code)
                    longest_step[0] = 0.0
                    try:
                        answer = peer.ask(code, ext, body, oneway=code == RequestCode.END_TRANSACTION)
                    except (TimeoutError, AssertionError) as error:
                        problems.append(f"{code}: {error}: {ext!r:.300} {body!r:.120}")
                        break
                    remark = answer.remark or ""
                    if longest_step[0] > STEP_S:
                        problems.append(f"{code}: a step of {longest_step[0]:.2f} s: {ext!r:.200} {body!r:.120}")
                    if PYTHONS_OWN.search(remark) or remark == str(ServerFault()) or len(remark) > 1100:
                        problems.append(f"{code}: {remark!r:.300}: {ext!r:.300} {body!r:.120}")
                    elif answer.code != 0 and not remark:
                        problems.append(f"{code}: {answer.code} without a sentence: {ext!r:.200} {body!r:.120}")
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        if grown > MEMORY_KIB:
            problems.append(f"memory grew by {grown} KiB")
        assert running.serves()
    finally:
        running.close()
    again = start_broker(tmp_path / "store", plugins="")
    try:
        assert again.serves()
    finally:
        again.close()
    return problems


def test_odd_requests_of_every_code_are_answered_with_a_sentence(tmp_path, logged, monkeypatch, longest_step):
    problems = ask_all(tmp_path, monkeypatch, longest_step, 1, 6)
    assert not problems, "\n".join(problems)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 4))
def test_many_odd_requests_of_every_code(tmp_path, logged, monkeypatch, longest_step, seed):
    problems = ask_all(tmp_path, monkeypatch, longest_step, seed, 200)
    assert not problems, "\n".join(problems)
