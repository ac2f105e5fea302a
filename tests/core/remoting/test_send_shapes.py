"""Sends that are compared instead of parsed: what comes out is what parsing gives, whatever a peer writes."""

from __future__ import annotations

import pytest

from gantrymq.errors import RemoteProtocolError
from gantrymq.remoting import send_shapes
from gantrymq.remoting.command import Command, decode, encode
from gantrymq.remoting.frame import Frame, split_frame
from gantrymq.remoting.headers.send import read_send_header
from gantrymq.remoting.send_shapes import WORTH_A_PATTERN, SendShapes, ShapedSend

ID = "7F0000010B2C18B4AAC2000000000001"


def header(*, queue="3", born="1700000000000", properties=None, opaque="7", topic="T", tail="", code=310):
    """A header as a Java client writes it."""
    own = rf"TAGS\u0001A\u0002UNIQ_KEY\u0001{ID}\u0002WAIT\u0001true\u0002" if properties is None else properties
    return (
        f'{{"code":{code},"extFields":{{"a":"PG","b":"{topic}","c":"TBW102","d":"4","e":"{queue}","f":"0","g":"{born}",'
        f'"h":"0","i":"{own}","j":"0","k":"false","m":"false","n":"broker-a"{tail}}},"flag":0,"language":"JAVA",'
        f'"opaque":{opaque},"serializeTypeCurrentRPC":"JSON","version":479}}'
    ).encode()


def frame(text, body=b"body"):
    return Frame(0, text, body)


@pytest.fixture(params=[0, WORTH_A_PATTERN + 2], ids=["looked up", "matched"])
def shapes(request):
    """The shape of `header()` is known: it came twice, or so often that it has a pattern."""
    found = SendShapes()
    for opaque in "12":
        assert type(found.decode(frame(header(opaque=opaque)))) is Command
    for opaque in range(request.param):
        assert type(found.decode(frame(header(opaque=opaque)))) is ShapedSend
    assert (found._usual is None) == (request.param == 0)
    return found


def test_a_header_of_a_known_shape_is_not_parsed_and_says_the_same(shapes):
    text = header(queue="0", born="1700000000999", opaque="2147483647", properties=None)
    command = shapes.decode(frame(text))
    assert type(command) is ShapedSend
    assert command == decode(frame(text))
    assert (command.queue_id, command.born_timestamp, command.unique_id) == (0, 1700000000999, ID.encode())
    assert list(command.ext.items()) == list(decode(frame(text)).ext.items())
    assert read_send_header(command) == read_send_header(decode(frame(text)))
    assert (command.body, command.is_oneway, command.is_response) == (b"body", False, False)


def test_ext_fields_of_one_command_are_its_own(shapes):
    first, second = (shapes.decode(frame(header(opaque=opaque))) for opaque in "34")
    first.ext["b"] = "Other"
    assert (first.ext["b"], second.ext["b"]) == ("Other", "T")
    first.ext = {"a": "new"}
    assert first.ext == {"a": "new"}


@pytest.mark.parametrize(
    "text",
    [
        header(topic="Other"),
        header(properties=rf"TAGS\u0001B\u0002UNIQ_KEY\u0001{ID}\u0002WAIT\u0001true\u0002"),
        header(tail=',"x":"1"'),
        header(code=320),
        header(code=10),
        header(properties=""),
        header(properties=r"TAGS\u0001A\u0002"),
    ],
    ids=["topic", "property", "one more field", "batch", "names", "no properties", "no id"],
)
def test_a_header_of_another_shape_is_parsed(shapes, text):
    command = shapes.decode(frame(text))
    assert type(command) is Command
    assert command == decode(frame(text))


@pytest.mark.parametrize(
    "text",
    [
        header(queue="-1"),
        header(queue="1024"),
        header(queue="x"),
        header(queue=""),
        header(born="-5"),
        header(born="9" * 19),
        header(opaque="-1"),
        header(properties=r"TAGS\u0001A\u0002UNIQ_KEY\u0001\u0002WAIT\u0001true\u0002"),
        header(properties=r"TAGS\u0001A\u0002UNIQ_KEY\u0001\u00e4\u0002WAIT\u0001true\u0002"),
        header(properties=r"TAGS\u0001A\u0002UNIQ_KEY\u0001a\nb\u0002WAIT\u0001true\u0002"),
    ],
    ids=[
        "negative queue",
        "large queue",
        "word",
        "no queue",
        "before 1970",
        "born never",
        "opaque",
        "id",
        "ä",
        "escape",
    ],
)
def test_values_out_of_the_ordinary_are_parsed(shapes, text):
    command = shapes.decode(frame(text))
    assert type(command) is Command
    assert command == decode(frame(text))


@pytest.mark.parametrize(
    "text",
    [header(opaque="99999999999"), header(opaque="4294967296"), header()[:-1], header()[:200]],
    ids=["long opaque", "wide opaque", "no end", "cut"],
)
def test_headers_that_cannot_be_read_are_refused_as_ever(shapes, text):
    for _ in range(3):
        with pytest.raises(RemoteProtocolError):
            shapes.decode(frame(text))


@pytest.mark.parametrize(
    "text",
    [
        header(tail=',"e":"9"'),
        header(tail=rf',"i":"UNIQ_KEY\u0001{ID}\u0002"'),
        b'{"code":310,"e":"3",' + header()[len('{"code":310,') :],
        b'{"code":310,"opaque":1,' + header()[len('{"code":310,') :],
        header(properties=rf"a\\\u0001x\u0002UNIQ_KEY\u0001{ID}\u0002\\"),
        header()[:-1] + b',"remark":"r"}',
    ],
    ids=["queue twice", "properties twice", "a queue elsewhere", "an opaque elsewhere", "backslash", "remark"],
)
def test_headers_whose_values_stand_elsewhere_never_become_a_shape(text):
    shapes = SendShapes()
    for _ in range(4):
        command = shapes.decode(frame(text))
        assert type(command) is Command or command == decode(frame(text))
        assert command == decode(frame(text))


def test_a_quote_inside_the_properties_cannot_smuggle_fields_in(shapes):
    """Raw quotes end a JSON text; one behind a backslash does not, and must not be taken for the end."""
    text = header(properties=rf"TAGS\u0001A\u0002UNIQ_KEY\u0001{ID}\u0002WAIT\u0001true\u0002\",\"j\":\"7")
    command = shapes.decode(frame(text))
    assert type(command) is Command
    assert command == decode(frame(text))


def test_one_that_comes_once_is_not_kept():
    shapes = SendShapes()
    for number in range(20):
        text = header(properties=rf"KEYS\u0001k{number}\u0002UNIQ_KEY\u0001{ID}\u0002")
        assert type(shapes.decode(frame(text))) is Command
    assert not shapes._shapes


def test_what_is_kept_is_bounded(monkeypatch):
    monkeypatch.setattr(send_shapes, "MOST_SHAPES", 8)
    monkeypatch.setattr(send_shapes, "MOST_CANDIDATES", 8)
    shapes = SendShapes()
    for number in range(50):
        for _ in range(3):
            text = header(topic=f"T{number}")
            assert shapes.decode(frame(text)) == decode(frame(text))
            assert len(shapes._shapes) <= 8
            assert len(shapes._seen) <= 8
    long = header(topic="T" * 5000)
    for _ in range(4):
        assert type(shapes.decode(frame(long))) is Command


def test_the_text_that_is_kept_is_bounded(monkeypatch):
    monkeypatch.setattr(send_shapes, "MOST_SHAPE_BYTES", 4000)
    shapes = SendShapes()
    for number in range(30):
        text = header(topic=f"T{number}")
        for _ in range(3):
            shapes.decode(frame(text))
        assert type(shapes.decode(frame(text))) is ShapedSend
        assert sum(len(b"".join(literals)) for literals in shapes._shapes) < 4500


def test_only_shapes_that_come_running_get_patterns_and_few_of_them(monkeypatch):
    monkeypatch.setattr(send_shapes, "MOST_PATTERNS", 2)
    shapes = SendShapes()
    topics = [header(topic=f"T{number}") for number in range(5)]
    for _ in range(3 * WORTH_A_PATTERN):
        for text in topics:
            assert shapes.decode(frame(text)) == decode(frame(text))
    assert shapes._usual is None
    assert not shapes._patterns
    for text in topics:
        for _ in range(WORTH_A_PATTERN + 3):
            assert shapes.decode(frame(text)) == decode(frame(text))
        assert shapes._usual[0] is shapes._newest
        assert 1 <= len(shapes._patterns) <= 2


def test_the_binary_form_is_parsed(shapes):
    asked = decode(frame(header()))
    asked.serialize = 1

    binary = split_frame(encode(asked))
    assert type(shapes.decode(binary)) is Command


def test_a_header_with_a_raw_zero_has_no_shape():
    shapes = SendShapes()
    for opaque in range(2 * WORTH_A_PATTERN):
        text = header(opaque=opaque, tail=',"x":"a\0b"')
        assert type(shapes.decode(frame(text))) is Command
    commands = []
    shapes.decode_all([frame(text)] * 3, commands)
    assert commands == [decode(frame(text))] * 3


@pytest.mark.parametrize("born", ["007", "00", "01700000000000"])
def test_a_number_that_is_written_in_an_odd_way_keeps_its_text(shapes, born):
    text = header(born=born)
    command = shapes.decode(frame(text))
    assert command == decode(frame(text))
    assert command.ext["g"] == born
