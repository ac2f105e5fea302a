"""Small requests that announce large amounts: every announced amount has a limit."""

import json
import struct
import zlib

import pytest
from test_bad_input_requests import REGISTRATION

from gantrymq.remoting.codes import RequestCode

_I32 = struct.Struct(">i")


def block(data):
    return _I32.pack(len(data)) + data


def topics(*lines):
    return zlib.compress(block(b"{}") + _I32.pack(len(lines)) + b"".join(map(block, lines)) + block(b"[]"))


@pytest.fixture
def registers(name_server, row):
    """Register *body*; compare code and sentence with the row, and check that no broker was registered."""

    def check(body, compressed, /, **values):
        with name_server.peer() as peer:
            ext = {**REGISTRATION, "compressed": compressed}
            answer = peer.ask(RequestCode.REGISTER_BROKER, ext, body)
            row.check(answer.remark, answer.code, size=len(body), **values)
            assert b"127.0.0.1:1" not in peer.ask(RequestCode.GET_BROKER_CLUSTER_INFO).payload

    return check


def test_bi99_a_registration_with_too_many_topics(registers):
    body = zlib.compress(block(b"{}") + _I32.pack(3_000_000) + bytes(12_000_000))
    assert len(body) < 20_000
    registers(body, "true", count=3_000_000, what="topics")


def test_bi100_a_registration_that_inflates_without_end(registers):
    body = zlib.compress(block(b"{}") + _I32.pack(15_000_000) + bytes(60_000_000))
    assert len(body) < 60_000
    registers(body, "true")


def test_bi101_a_registration_with_numbers_beyond_java_s(registers):
    huge = str(10**30).encode()
    registers(topics(b"T %s 1 6 SINGLE_TAG {}" % huge), "true", member="readQueueNums", value=10**30)
    plain = b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":{"perm":-1}}}}'
    registers(plain, "false", member="perm", value=-1)


def groups(**names):
    usual = {"messageModel": "BROADCASTING"}  # members of such a group are not notified of each other
    sets = {f"{kind}DataSet": [{"groupName": name, **usual} for name in given] for kind, given in names.items()}
    return json.dumps({"clientID": "1@2", **sets}).encode()


@pytest.mark.parametrize("kind", ["producer", "consumer"])
def test_bi102_a_heartbeat_for_too_many_groups(broker, row, kind):
    with broker.peer() as peer:
        first = [f"{kind}-{number}" for number in range(990)]
        assert peer.ask(RequestCode.HEART_BEAT, {}, groups(**{kind: first})).code == 0
        assert peer.ask(RequestCode.HEART_BEAT, {}, groups(**{kind: first})).code == 0
        answer = peer.ask(RequestCode.HEART_BEAT, {}, groups(**{kind: [f"../{number}" for number in range(11)]}))
        row.check(answer.remark, answer.code, kind=kind, count=1001)


def test_bi103_a_heartbeat_for_a_group_of_endless_name(broker, row):
    with broker.peer() as peer:
        answer = peer.ask(RequestCode.HEART_BEAT, {}, groups(producer=["p" * 1_000_000]))
        row.check(answer.remark, answer.code, kind="producer", length=1_000_000)
