import struct

import pytest
from one_frame import split_frame

from gantrymq.errors import LocalProtocolError, RemoteProtocolError
from gantrymq.remoting.codes import CURRENT_VERSION, LanguageCode
from gantrymq.remoting.command import Command, decode, encode, encode_head, request, response_to
from gantrymq.remoting.frame import MAX_FRAME_BYTES, Frame
from gantrymq.remoting.headers.send import SendMessageResponse


def read(header: bytes, codec: int = 0) -> Command:
    return decode(Frame(codec, header, None))


def test_json_header_is_written_as_fastjson_does():
    command = Command(
        17, opaque=-5, flag=1, remark="né \x1f\x7f\u2028 \\u001f", ext={"b": "1", "a": "\x01"}, body=b"xy"
    )
    assert (
        encode(command)[8:]
        == (
            '{"code":17,"extFields":{"b":"1","a":"\\u0001"},"flag":1,"language":"PYTHON","opaque":-5,'
            '"remark":"né \\u001F\\u007F\\u2028 \\\\u001f","serializeTypeCurrentRPC":"JSON",'
            f'"version":{CURRENT_VERSION}}}xy'
        ).encode()
    )
    assert decode(split_frame(encode(command))) == command


def test_cpp_header_numbers_in_ext_and_newline_at_the_end():
    command = read(
        b'{"code":310,"extFields":{"AccessKey":"","Signature":"","OnsChannel":"","e":0,"d":4,"g":"1700000000000",'
        b'"k":"false"},"flag":0,"language":"CPP","opaque":7,"remark":"","version":333}\n'
    )
    assert command.ext == {
        "AccessKey": "",
        "Signature": "",
        "OnsChannel": "",
        "e": "0",
        "d": "4",
        "g": "1700000000000",
        "k": "false",
    }
    assert (command.language, command.version, command.remark) == (LanguageCode.CPP, 333, "")


def test_ali_ons_header_numbers_and_booleans():
    command = read(
        b'{"code":11,"language":"JAVA","version":121,"opaque":1,"flag":0,"extFields":{"queueId":3,'
        b'"queueOffset":9007199254740993,"ratio":1.50,"block":true,"off":false,"none":null,"deep":{"a":[1,null]}}}'
    )
    assert command.ext == {
        "queueId": "3",
        "queueOffset": "9007199254740993",
        "ratio": "1.50",
        "block": "true",
        "off": "false",
        "deep": '{"a":["1",null]}',
    }


def test_go_header_with_empty_ext_and_no_serialize_type():
    command = read(b'{"code":34,"language":"GO","version":317,"opaque":1,"flag":0,"remark":"","extFields":{}}')
    assert (command.language, command.ext) == (LanguageCode.GO, {})


@pytest.mark.parametrize(
    ("language", "number"),
    [('"go"', 9), ("9", 9), ('"9"', 9), ('"Klingon"', 7), ("99", 7), ("null", 0), ('"Node_Js"', 13)],
)
def test_languages_in_any_spelling(language, number):
    assert read(f'{{"code":1,"language":{language},"opaque":2,"flag":0,"version":0}}'.encode()).language == number


def test_missing_fields_take_the_defaults_of_the_java_class():
    assert read(b"{}") == Command(0, language=0, version=0)


def test_lenient_headers_are_read():
    command = read(b"{'code':'310',\"flag\":\"2\",opaque:-1,language:'GO',extFields:{'a':'\x01'},extra:[1]}")
    assert (command.code, command.flag, command.opaque, command.ext) == (310, 2, -1, {"a": "\x01"})
    assert command.is_oneway
    assert not command.is_response


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"[]",
        b"7",
        b"{",
        b'{"code":"x"}',
        b'{"code":1.5}',
        b'{"code":99999999999}',
        b'{"opaque":2147483648}',
        b'{"extFields":[]}',
        b'{"code":1,"extFields":[],"flag":0,"language":"JAVA","opaque":1,"version":1}',
        b'{"extFields":"a"}',
        b'{"code":[1]}',
        b"\xff\xfe",
        b'{"extFields":{"a":' + b"[" * 900 + b"]" * 900 + b"}}",
    ],
)
def test_headers_that_cannot_be_read(header):
    with pytest.raises(RemoteProtocolError):
        read(header)


def test_binary_header_both_ways():
    command = Command(105, language=9, opaque=-2, flag=1, remark="né", ext={"topic": "中", "k": "v"}, serialize=1)
    data = encode(command)
    assert data[4] == 1
    assert decode(split_frame(data)) == command
    bare = Command(0, serialize=1)
    assert decode(split_frame(encode(bare))) == bare


def test_binary_header_last_value_wins_and_empty_is_none():
    def entry(key: bytes, value: bytes) -> bytes:
        return struct.pack(">h", len(key)) + key + struct.pack(">i", len(value)) + value

    ext = entry(b"a", b"1") + entry(b"b", b"x") + entry(b"a", b"2") + entry(b"b", b"")
    header = struct.pack(">hBhiii", 11, 200, 1, 2, 0, 0) + struct.pack(">i", len(ext)) + ext
    command = read(header, 1)
    assert command.ext == {"a": "2"}
    assert command.language == LanguageCode.OTHER


@pytest.mark.parametrize("cut", range(1, 39))
def test_binary_header_cut_short(cut):
    header = encode(Command(11, remark="abc", ext={"key": "value"}, serialize=1))[8:]
    assert len(header) == 38
    with pytest.raises(RemoteProtocolError):
        read(header[:-cut], 1)


@pytest.mark.parametrize(("at", "value"), [(13, -1), (13, 1 << 30), (20, 3), (20, -4), (20, 1 << 20)])
def test_binary_header_with_wrong_sizes(at, value):
    header = bytearray(encode(Command(11, remark="abc", ext={"key": "value"}, serialize=1))[8:])
    struct.pack_into(">i", header, at, value)
    with pytest.raises(RemoteProtocolError):
        read(bytes(header), 1)


def test_other_header_forms_are_refused():
    with pytest.raises(RemoteProtocolError, match="header form 2"):
        read(b"{}", 2)


def test_pop_codes_do_not_fit_the_binary_form():
    with pytest.raises(LocalProtocolError, match="200050"):
        encode(Command(200050, serialize=1))


@pytest.mark.parametrize("serialize", [0, 1])
def test_ext_values_must_be_text(serialize):
    with pytest.raises(LocalProtocolError, match="queueId must be text, got 3"):
        encode(Command(11, ext={"queueId": 3}, serialize=serialize))  # type: ignore[dict-item]


def test_a_frame_over_the_limit_is_not_written():
    with pytest.raises(LocalProtocolError, match="over the limit"):
        encode_head(Command(0), MAX_FRAME_BYTES)


def test_a_body_may_be_a_view():
    data = encode(Command(0, body=memoryview(b"abcdef")[2:]))
    assert data.endswith(b"}cdef")
    assert Command(0, body=memoryview(b"abc")).payload == b"abc"
    assert Command(0).payload == b""


def test_response_copies_opaque_and_header_form():
    asked = Command(11, opaque=-7, serialize=1)
    answer = response_to(asked, 19, "no")
    assert (answer.opaque, answer.serialize, answer.is_response) == (-7, 1, True)
    assert request(15, {}, oneway=True).is_oneway
    assert "opaque=-7" in repr(answer)


@pytest.mark.parametrize("codec", [0, 1])
def test_an_answer_may_name_more_messages_than_a_request_has_text(codec):
    ids = ",".join(f"{number:032X}" for number in range(2500))
    asked = Command(320, opaque=1, serialize=codec)
    answer = response_to(asked, 0, None, {"msgId": ids, "queueId": "0", "queueOffset": "5"})
    assert SendMessageResponse.from_ext(decode(split_frame(encode(answer))).ext).msg_id == ids
