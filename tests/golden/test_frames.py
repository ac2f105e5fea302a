"""Frames exchanged by real RocketMQ processes: decoded correctly, and encoded again byte for byte. See FRAMES.md."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import random
import runpy
from base64 import b64encode
from collections import Counter
from pathlib import Path

import pytest
from header_classes import REQUEST_HEADERS, RESPONSE_HEADERS
from one_frame import split_frame

from gantrymq.errors import FormatError, LocalProtocolError, RemoteProtocolError, RequestRefused
from gantrymq.loose_json import dumps, dumps_standard, loads
from gantrymq.remoting.codes import LanguageCode, RequestCode
from gantrymq.remoting.command import Command, decode, encode, request, response_to
from gantrymq.remoting.frame import FrameDecoder
from gantrymq.remoting.headers.send import SendMessageRequest, read_send_header
from gantrymq.remoting.responses import encode_pull_head
from gantrymq.remoting.sends import SendCommand, decode_all

GOLDEN = list(runpy.run_path(str(Path(__file__).with_name("frames.py")))["load"]())
COUNT = 7968
SENDS = 937  # read with their variable parts taken out
NOT_CANONICAL = 0  # every recorded process is a Java one, whose form is the canonical one
LETTERS = {RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2}
# Fields that a Java process adds to any request, in addition to the fields of its header class.
EXTRAS = {"ReqT", "ns", "nsd", "bname", "MSG_REGION"}
# Requests that had fields, or whose answers had, for which no code here has a class that reads or writes
# them. They are extFields, compared and encoded again like all others.
REQUESTS_WITHOUT_CLASS = {
    RequestCode.CHECK_TRANSACTION_STATE,
    RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT,
    RequestCode.RECALL_MESSAGE,
    RequestCode.POP_MESSAGE,
    RequestCode.ACK_MESSAGE,
    RequestCode.CHANGE_MESSAGE_INVISIBLETIME,
}
RESPONSES_WITHOUT_CLASS = {
    RequestCode.GET_BROKER_CONFIG,
    RequestCode.HEART_BEAT,
    RequestCode.RECALL_MESSAGE,
}


def test_every_frame_decodes_to_what_the_recorder_read():
    for note, data in GOLDEN:
        command = decode(split_frame(data))
        assert command.serialize == note["codec"]
        assert command.code == note["code"]
        assert LanguageCode(command.language).name == note["language"]
        assert command.version == note["version"]
        assert command.opaque == note["opaque"]
        assert command.flag == note["flag"]
        assert command.remark == note.get("remark")
        assert (command.ext or {}) == (note.get("extFields") or {})
        assert len(command.payload) == note["bodyLength"]
    assert len(GOLDEN) == COUNT


def test_sends_say_what_parsing_says_and_those_alike_are_alike():
    frames = [split_frame(data) for _, data in GOLDEN]
    commands, kinds = [], {}
    decode_all(frames, commands)
    for frame, command in zip(frames, commands, strict=True):
        plain = decode(frame)
        assert command == plain
        if type(command) is SendCommand:
            assert (str(command.queue_id), str(command.born_timestamp)) == (plain.ext["e"], plain.ext["g"])
            before, _, rest = plain.ext["i"].partition("UNIQ_KEY\x01")
            unique_id, _, after = rest.partition("\x02")
            assert command.unique_id.decode() == unique_id
            what = (plain.version, {**plain.ext, "e": "", "g": "", "i": (before, after)})
            assert kinds.setdefault(command.alike, what) == what
    assert sum(type(command) is SendCommand for command in commands) == SENDS


def test_every_frame_encodes_to_the_same_bytes():
    different = [note for note, data in GOLDEN if encode(decode(split_frame(data))) != data]
    assert len(different) == NOT_CANONICAL


def test_every_code_and_both_header_forms_are_there():
    kinds = Counter((note["codec"], note["flag"] & 1) for note, _ in GOLDEN)
    assert set(kinds) == {(0, 0), (0, 1), (1, 0), (1, 1)}
    assert len({note["code"] for note, _ in GOLDEN if not note["flag"] & 1}) == 79


def test_one_stream_of_all_frames_is_cut_at_the_same_places():
    stream = b"".join(data for _, data in GOLDEN)
    decoder, count = FrameDecoder(), 0
    for at in range(0, len(stream), 10_007):
        count += len(decoder.feed(stream[at : at + 10_007]))
    assert count == COUNT
    assert decoder.pending_bytes == 0


def test_request_headers_keep_every_field_and_its_text():
    for note, data in GOLDEN:
        command = decode(split_frame(data))
        if command.is_response or command.code not in REQUEST_HEADERS:
            continue
        if command.code in LETTERS:
            written = read_send_header(command).to_ext_v2()
            assert isinstance(read_send_header(command), SendMessageRequest)
        else:
            written = REQUEST_HEADERS[command.code].from_ext(command.ext).to_ext()
        for name, text in (command.ext or {}).items():
            assert written.get(name, text) == text, (note, name)
            assert name in written or name in EXTRAS, (note, name)


def test_remaining_requests_with_fields_are_known():
    asked, answered = set(), set()
    for note, _ in GOLDEN:
        if note.get("extFields"):
            codes, code = (answered, note["requestCode"]) if note["flag"] & 1 else (asked, note["code"])
            codes.add(code)
    assert asked - REQUEST_HEADERS.keys() == REQUESTS_WITHOUT_CLASS
    assert answered - RESPONSE_HEADERS.keys() == RESPONSES_WITHOUT_CLASS


def test_response_headers_keep_every_field_and_its_text():
    for note, data in GOLDEN:
        header = RESPONSE_HEADERS.get(note.get("requestCode"))
        if header is None or note["code"] not in (0, 19, 20, 21) or not note.get("extFields"):
            continue
        written = header.from_ext(decode(split_frame(data)).ext).to_ext()
        for name, text in note["extFields"].items():
            assert written.get(name, text) == text, (note, name)
            assert name in written or name in EXTRAS, (note, name)


def test_every_json_body_is_read_and_written_again_unchanged():
    count = loose = 0
    for note, data in GOLDEN:
        body = decode(split_frame(data)).payload
        if not body.startswith(b"{") or note["code"] in LETTERS:
            continue
        if note.get("requestCode") == RequestCode.GET_COLD_DATA_FLOW_CTR_INFO:
            continue  # laid out for people
        assert dumps(loads(body), keep_nulls=True) == body, note
        count += 1
        loose += b"{0:" in body or b"{{" in body
    assert count > 1000
    assert loose > 100


def test_route_bodies_are_in_standard_form():
    routes = [decode(split_frame(data)).payload for note, data in GOLDEN if note.get("requestCode") == 105]
    bodies = [body for body in routes if body]
    assert len(bodies) > 300
    assert all(dumps_standard(loads(body)) == body for body in bodies)


# --- single frames --------------------------------------------------------------------------------------------------

UNIQUE_ID = "7F00000104D218B4AAC20BD3C2400000"
SEND = bytes.fromhex("0000015200000149") + (
    b'{"code":310,"extFields":{"a":"PG","b":"TopicTest","c":"TBW102","d":"4","e":"1","f":"0","g":"1700000000000","h":"0",'
    b'"i":"TAGS\\u0001TagA\\u0002UNIQ_KEY\\u00017F00000104D218B4AAC20BD3C2400000\\u0002","j":"0","k":"false","m":"false",'
    b'"n":"broker-a"},"flag":0,"language":"PYTHON","opaque":7,"serializeTypeCurrentRPC":"JSON","version":479}Hello'
)
STORED = bytes.fromhex("0000011e0000011a") + (
    b'{"code":0,"extFields":{"queueId":"1","TRACE_ON":"true","MSG_REGION":"DefaultRegion",'
    b'"msgId":"7F00000100002A9F00000000000000C8","queueOffset":"5",'
    b'"transactionId":"7F00000104D218B4AAC20BD3C2400000"},"flag":1,"language":"JAVA","opaque":7,'
    b'"serializeTypeCurrentRPC":"JSON","version":479}'
)
PULLED = (
    bytes.fromhex("00000170000000cf")
    + b'{"code":0,"extFields":{"suggestWhichBrokerId":"0","nextBeginOffset":"6","minOffset":"0","maxOffset":"6"},'
    b'"flag":1,"language":"JAVA","opaque":9,"remark":"FOUND","serializeTypeCurrentRPC":"JSON","version":479}'
    + bytes.fromhex(
        "0000009ddaa320a777d198820000000100000000000000000000000500000000000000c8000000000000018bcfe568007f000001"
        "0000c3500000018bcfe568017f00000100002a9f0000000000000000000000000000000548656c6c6f09546f7069635465737400"
        "3454414753015461674102554e49515f4b45590137463030303030313034443231384234414143323042443343323430303030"
        "3002"
    )
)
ROUTE = bytes.fromhex(
    "0000002d0100002900690301df000000070000000000000000000000140005746f70696300000009546f70696354657374"
)
NO_ROUTE = bytes.fromhex("000000210100001d00110001df0000000700000001000000086e6f20726f75746500000000")


def test_example_send():
    command = decode(split_frame(SEND))
    assert len(SEND) == 342
    header = read_send_header(command)
    assert header == SendMessageRequest(
        producer_group="PG",
        topic="TopicTest",
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=1,
        sys_flag=0,
        born_timestamp=1700000000000,
        flag=0,
        properties=f"TAGS\x01TagA\x02UNIQ_KEY\x01{UNIQUE_ID}\x02",
        bname="broker-a",
    )
    assert command.body == b"Hello"
    again = request(310, header.to_ext_v2(), b"Hello")
    again.opaque = 7
    assert encode(again) == SEND


def test_example_stored():
    command = decode(split_frame(STORED))
    assert command.is_response
    assert command.ext["msgId"] == "7F00000100002A9F00000000000000C8"
    assert encode(command) == STORED


def test_example_pulled():
    command = decode(split_frame(PULLED))
    assert (command.remark, len(command.body)) == ("FOUND", 157)
    assert encode(command) == PULLED
    ours = decode(split_frame(encode_pull_head(0, 9, 0, "FOUND", 6, 0, 6, 157) + command.body))
    assert {**ours.ext, **command.ext} == ours.ext
    assert ours.body == command.body


def test_example_binary_headers():
    asked, answer = decode(split_frame(ROUTE)), decode(split_frame(NO_ROUTE))
    assert (asked.code, asked.ext, asked.language) == (105, {"topic": "TopicTest"}, LanguageCode.PYTHON)
    assert (answer.code, answer.remark, answer.ext) == (17, "no route", None)
    assert encode(asked) == ROUTE
    assert encode(answer) == NO_ROUTE


def test_example_unknown_code():
    answer = response_to(Command(9999, opaque=5), 3, " request type 9999 not supported")
    answer.language = LanguageCode.JAVA
    assert encode(answer)[8:] == (
        b'{"code":3,"flag":1,"language":"JAVA","opaque":5,"remark":" request type 9999 not supported",'
        b'"serializeTypeCurrentRPC":"JSON","version":479}'
    )


@pytest.mark.parametrize("number", ["0", '"0"'])
def test_example_signature_covers_the_text_of_numbers(number):
    header = (
        f'{{"code":31,"extFields":{{"topic":"TopicTest","queueId":{number},"AccessKey":"ak"}},"opaque":1}}'.encode()
    )
    data = (4 + len(header) + 4).to_bytes(4, "big") + len(header).to_bytes(4, "big") + header + b"body"
    command = decode(split_frame(data))
    content = "".join(command.ext[name] for name in sorted(command.ext)).encode() + command.payload
    assert content == b"ak0TopicTestbody"
    signature = b64encode(hmac.new(b"sk12345678", content, hashlib.sha1).digest())
    assert signature == b"ij78TcFul/HFnQdnaFNO5y7xu9Y="


def test_damaged_frames_raise_nothing_but_protocol_errors():
    """3000 frames with one to four bytes changed, from one seed: read, or refused as the peer's fault."""
    chance = random.Random(20261121)
    read = refused = 0
    for _, data in chance.choices(GOLDEN, k=3000):
        damaged = bytearray(data)
        for _ in range(chance.randint(1, 4)):
            damaged[chance.randrange(4, min(len(damaged), 600))] = chance.choice(
                b'\x00\xff{}[]",:0a\\' + chance.randbytes(1)
            )
        decoder = FrameDecoder()
        try:
            for frame in decoder.feed(bytes(damaged)):
                command = decode(frame)
                encode(command)
                if command.code in LETTERS and not command.is_response:
                    read_send_header(command)
                elif command.code in REQUEST_HEADERS and not command.is_response:
                    REQUEST_HEADERS[command.code].from_ext(command.ext)
            read += 1
        except (RemoteProtocolError, RequestRefused, LocalProtocolError):
            refused += 1
        with contextlib.suppress(FormatError):
            loads(bytes(damaged[8:]))
    assert read > 500
    assert refused > 500
