"""Decoding of send requests: the fast path gives the same result as `decode` for any text of a peer."""

from __future__ import annotations

import itertools
import json

import pytest
from one_frame import split_frame

from gantrymq.errors import RemoteProtocolError
from gantrymq.remoting import sends
from gantrymq.remoting.command import Command, decode, encode
from gantrymq.remoting.frame import Frame
from gantrymq.remoting.headers.send import read_send_header
from gantrymq.remoting.sends import MAX_HEADER_BYTES, SendCommand, decode_all

ID = "7F0000010B2C18B4AAC2000000000001"


def header(*, queue="3", born="1700000000000", properties=None, opaque="7", topic="T", tail="", code=310):
    """A header as a Java client writes it."""
    own = rf"TAGS\u0001A\u0002UNIQ_KEY\u0001{ID}\u0002WAIT\u0001true\u0002" if properties is None else properties
    return (
        f'{{"code":{code},"extFields":{{"a":"PG","b":"{topic}","c":"TBW102","d":"4","e":"{queue}","f":"0","g":"{born}",'
        f'"h":"0","i":"{own}","j":"0","k":"false","m":"false","n":"broker-a"{tail}}},"flag":0,"language":"JAVA",'
        f'"opaque":{opaque},"serializeTypeCurrentRPC":"JSON","version":479}}'
    ).encode()


def named_header(queue="3", born="1700000000000", unique_id=ID):
    """A header of code 10, as clients of long ago write it."""
    return (
        f'{{"code":10,"extFields":{{"topic":"T","queueId":"{queue}","producerGroup":"PG","defaultTopic":"TBW102",'
        f'"defaultTopicQueueNums":"4","sysFlag":"0","bornTimestamp":"{born}","flag":"0",'
        f'"properties":"UNIQ_KEY\\u0001{unique_id}\\u0002WAIT\\u0001true"}},"flag":0,"language":"CPP","opaque":7,'
        '"version":49}'
    ).encode()


def frame(text, body=b"body"):
    return Frame(0, text, body)


@pytest.fixture(params=["as installed", "in Python"])
def read(request, monkeypatch):
    """Reads one header."""
    if request.param == "in Python":
        monkeypatch.setattr(sends, "_read_plain", None)

    def one(text, body=b"body"):
        commands = []
        decode_all([frame(text, body)], commands)
        (command,) = commands
        return command

    return one


@pytest.mark.parametrize(
    "text",
    [
        header(),
        header(queue="0", born="0", opaque="2147483647"),
        header(queue="1023", born="9" * 18, opaque="0"),
        header(topic="Other", tail=',"x":"1"'),
        header(tail=',"x":1,"y":null,"z":true'),
        header(topic="\u4e3b\u9898\U0001f600"),
        header(properties=rf"UNIQ_KEY\u0001{ID}"),
        header(properties=rf"KEYS\u0001a \"b\" \\ \/ \u00e4\u0002UNIQ_KEY\u0001{ID}\u0002"),
        header().replace(b'"3"', b"3"),
        header().replace(b'"flag":0', b'"flag":2,"remark":null'),
        header().replace(b'"flag":0', b'"flag":0,"remark":""'),
        header().replace(b",", b" ,\n\t").replace(b":", b" : ") + b"\n",
        named_header(),
        json.dumps(dict(reversed(json.loads(header()).items()))).encode(),
    ],
    ids=[
        *("usual", "least", "most", "one more field", "fields that are no texts", "wide topic", "id alone", "escapes"),
        *("number", "oneway", "no remark", "blanks", "names", "backwards"),
    ],
)
def test_a_send_says_what_parsing_says(read, text):
    command = read(text)
    plain = decode(frame(text))
    assert type(command) is SendCommand
    assert command == plain
    names = ("e", "g") if command.code == 310 else ("queueId", "bornTimestamp")
    assert [command.queue_id, command.born_timestamp] == [int(plain.ext[name]) for name in names]
    assert command.unique_id == ID.encode()
    assert list(command.ext.items()) == list(plain.ext.items())
    assert read_send_header(command) == read_send_header(plain)
    assert (command.body, command.is_response, command.header) == (b"body", False, text)


def test_sends_are_alike_when_nothing_but_their_values_differs(read):
    first = read(header())
    for other in (header(queue="0"), header(born="1"), header(opaque="9"), header(properties=None), header()):
        assert read(other).alike == first.alike
        assert hash(read(other).alike) == hash(first.alike)
    different = [
        header(topic="U"),
        header(tail=',"x":"1"'),
        header(properties=rf"TAGS\u0001B\u0002UNIQ_KEY\u0001{ID}\u0002WAIT\u0001true\u0002"),
        header(properties=rf"TAGS\u0001A\u0002UNIQ_KEY\u0001{ID}\u0002WAIT\u0001false\u0002"),
        header().replace(b'"version":479', b'"version":480'),
        header().replace(b'"flag":0', b'"flag":2'),
        header().replace(b"JAVA", b"GO"),
        header().replace(b'"j":"0"', b'"j":"1"'),
        header().replace(b'"n":', b'"o":'),
        named_header(),
    ]
    kinds = [first.alike, *(read(text).alike for text in different)]
    assert all(one != other for one, other in itertools.combinations(kinds, 2))


def test_sends_of_one_read_are_told_apart(read):
    """The decoder reads a send that is similar to the previous one on a different path."""
    texts = [header(queue=str(n % 4), born=str(n), opaque=str(n * 7), topic=f"T{n % 9 // 3}") for n in range(99)]
    texts[50:50] = [header(opaque="x" if n else "5", topic="T0") for n in range(1)]
    commands = []
    decode_all([frame(text) for text in texts], commands)
    assert commands == [decode(frame(text)) for text in texts]
    assert [command.queue_id for command in commands[:4]] == [0, 1, 2, 3]
    assert len({command.alike for command in commands}) == 3


def test_ext_fields_of_one_command_are_its_own(read):
    first, second = (read(header(opaque=opaque)) for opaque in "34")
    first.ext["b"] = "Other"
    assert (first.ext["b"], second.ext["b"]) == ("Other", "T")
    first.ext = {"a": "new"}
    assert first.ext == {"a": "new"}


@pytest.mark.parametrize(
    "text",
    [
        header(code=320),
        header(code=11),
        header(properties=""),
        header(properties=r"TAGS\u0001A\u0002"),
        header(queue="-1"),
        header(queue="1024"),
        header(queue="03"),
        header(queue="x"),
        header(queue=""),
        header(born="-5"),
        header(born="007"),
        header(born="00"),
        header(born="9" * 19),
        header(properties=r"TAGS\u0001A\u0002UNIQ_KEY\u0001\u0002WAIT\u0001true\u0002"),
        header(properties=r"TAGS\u0001A\u0002UNIQ_KEY\u0001\u00e4\u0002WAIT\u0001true\u0002"),
        header(properties=r"TAGS\u0001A\u0002UNIQ_KEY\u0001a\nb\u0002WAIT\u0001true\u0002"),
        header(properties=r"UNIQ_KEY\u0001a-b\u0002"),
        header(topic="T" * MAX_HEADER_BYTES),
        named_header(queue="4096"),
        named_header().replace(b"queueId", b"e"),
        b'{"code":310}',
        b"{}",
    ],
    ids=[
        *("batch", "pull", "no properties", "no id", "negative queue", "large queue", "zero in front", "word"),
        *("no queue", "before 1970", "born 007", "born 00", "born never", "empty id", "\u00e4", "escape", "sign"),
        *("long", "names, large queue", "names, letter", "no fields", "nothing"),
    ],
)
def test_whatever_is_no_plain_send_is_parsed(read, text):
    command = read(text)
    assert type(command) is Command
    assert command == decode(frame(text))


@pytest.mark.parametrize(
    "text",
    [
        header(opaque="-1"),
        header(tail=',"e":"9"'),
        header(tail=rf',"i":"UNIQ_KEY\u0001{ID}\u0002"'),
        header(tail=r',"\u0065":"9"'),
        header().replace(b'"opaque":7', b'"opaque":7,"opaque":8'),
        header().replace(b'"opaque":7', b'"opaque":"7"'),
        header().replace(b'"language":"JAVA"', b'"language":"java"'),
        header().replace(b'"language":"JAVA",', b""),
        header().replace(b'"code":310', b'"code":11,"code":310'),
        b'{"code":310,"e":"3",' + header()[len('{"code":310,') :],
        b'{"extFields":{"e":"9"},' + header()[1:],
        header()[:-1] + b',"extFields":{"e":"9"}}',
        header()[:-1] + b',"more":{"e":["9"]}}',
        header()[:-1] + b',"more":1.5}',
        header(properties=rf"a\\\u0001x\u0002UNIQ_KEY\u0001{ID}\u0002\\"),
        header(properties=rf"TAGS\u0001A\u0002UNIQ_KEY\u0001{ID}\u0002WAIT\u0001true\u0002\",\"j\":\"7"),
        header(properties=rf"\u0055NIQ_KEY\u0001FIRST\u0002UNIQ_KEY\u0001{ID}\u0002"),
        header(properties=rf"\ud83d\ude00\u0002UNIQ_KEY\u0001{ID}\u0002"),
        header()[:-1] + b',"remark":"r"}',
    ],
    ids=[
        *("opaque", "queue twice", "properties twice", "an escaped name", "opaque twice", "opaque as text"),
        *("language", "no language", "two codes", "a queue elsewhere", "fields before", "fields behind", "nested"),
        *("fraction", "backslash", "quotes", "an escaped mark", "surrogates", "remark"),
    ],
)
def test_headers_of_another_spelling_say_what_parsing_says(read, text):
    command = read(text)
    assert command == decode(frame(text))
    if type(command) is SendCommand:
        assert command.queue_id == int(command.ext["e"])
        assert command.unique_id.decode() in command.ext["i"]


def test_what_is_read_loosely_is_read_so(read):
    """Java also reads text that is not JSON, and so does the decoder."""
    text = header(topic="T").replace(b'"b"', b"b")
    assert read(text) == decode(frame(text))
    text = header(properties="a\\x41\u0002UNIQ_KEY\\u0001X\\u0002")
    assert read(text) == decode(frame(text))


@pytest.mark.parametrize(
    "text",
    [header(opaque="99999999999"), header(opaque="4294967296"), header()[:-1], header()[:200], header() + b"}", b""],
    ids=["long opaque", "wide opaque", "no end", "cut", "more than one", "nothing"],
)
def test_headers_that_cannot_be_read_are_refused_as_ever(read, text):
    with pytest.raises(RemoteProtocolError):
        decode(frame(text))
    with pytest.raises(RemoteProtocolError):
        read(text)
    commands = []
    with pytest.raises(RemoteProtocolError):
        decode_all([frame(header()), frame(text), frame(header())], commands)
    assert commands == [decode(frame(header()))]


@pytest.mark.parametrize("cut", range(0, len(header()), 7))
def test_a_header_that_is_cut_is_never_a_send(read, cut):
    with pytest.raises(RemoteProtocolError):
        read(header()[:cut])


@pytest.mark.parametrize("bad", [b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xc0\x80", b"\xf8\x88\x80\x80\x80", b"\x01"])
def test_bytes_that_are_no_text_are_left_to_the_parser(read, bad):
    text = header(topic="X").replace(b'"X"', b'"' + bad + b'"')
    try:
        expected = decode(frame(text))
    except RemoteProtocolError:
        with pytest.raises(RemoteProtocolError, match="header"):
            read(text)
    else:
        assert read(text) == expected


def test_the_binary_form_is_parsed(read):
    asked = decode(frame(header()))
    asked.serialize = 1
    commands = []
    decode_all([split_frame(encode(asked))], commands)
    assert [type(command) for command in commands] == [Command]
    assert commands == [asked]
