"""Frames, header blocks, messages and allowances, without a connection."""

import gzip
import random

import pytest

pytest.importorskip("hpack")

from hpack import Decoder, Encoder

from gantrymq_grpc.definitions import Message, Resource, SendMessageRequest
from gantrymq_grpc.transport.call import timeout_s
from gantrymq_grpc.transport.field_count import has_too_many_fields
from gantrymq_grpc.transport.frames import DATA, PING, PREFACE, ConnectionFault, Frame, FrameReader, frame
from gantrymq_grpc.transport.header_blocks import HeaderDecoder, http_status, literal
from gantrymq_grpc.transport.limits import Allowance
from gantrymq_grpc.transport.messages import MessageReader, SharedBytes, prefixed, single_message
from gantrymq_grpc.transport.status import GrpcError


@pytest.mark.parametrize("size", [1, 7, 24, 100, 10_000])
def test_frames_arrive_in_parts_of_any_size(size):
    sent = [Frame(DATA, number % 2, number, bytes([number % 251]) * (number * 7 % 300)) for number in range(1, 60)]
    data = PREFACE + b"".join(frame(*each) for each in sent)
    reader, found = FrameReader(), []
    for at in range(0, len(data), size):
        reader.feed(data[at : at + size])
        while frames := reader.read(3):
            found += frames
    assert found == sent
    assert reader.pending_bytes == 0


def test_the_reserved_bit_of_a_stream_is_ignored():
    reader = FrameReader()
    reader.feed(PREFACE + b"\0\0\0\x06\0\x80\0\0\x07")
    assert reader.read(10) == [Frame(PING, 0, 7, b"")]


@pytest.mark.parametrize("first", [b"GET /", b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n", b"\0"])
def test_another_preface_is_refused_with_its_first_wrong_byte(first):
    reader = FrameReader()
    reader.feed(first)
    with pytest.raises(ConnectionFault, match="not HTTP/2"):
        reader.read(1)


NAMES = [":method", ":path", ":status", "content-type", "x-mq-client-id", "x-mq-date-time", "authorization", "x"]


@pytest.mark.parametrize("seed", range(30))
def test_header_blocks_of_another_encoder_are_decoded(seed):
    chance = random.Random(seed)
    encoder, decoder = Encoder(), HeaderDecoder(1 << 20)
    for _ in range(60):
        if chance.random() < 0.1:
            encoder.header_table_size = chance.choice([0, 100, 1000, 4096])
        headers = []
        for _ in range(chance.randrange(12)):
            value = "".join(chance.choices("abcXYZ09 -=/,é文", k=chance.choice([0, 1, 5, 30, 150, 400])))
            headers.append((chance.choice(NAMES), value))
        huffman, sensitive = chance.random() < 0.6, chance.random() < 0.2
        given = [(*header, sensitive) for header in headers]
        assert decoder.decode(encoder.encode(given, huffman=huffman)) == headers


def test_headers_beyond_the_limit_are_not_kept_but_change_the_table():
    encoder, decoder = Encoder(), HeaderDecoder(1000)
    assert decoder.decode(encoder.encode([("x", "a" * 900), ("y", "b" * 900)])) is None
    assert decoder.decode(encoder.encode([("y", "b" * 900)])) == [("y", "b" * 900)]


@pytest.mark.parametrize("huffman", [False, True])
def test_the_table_is_right_with_values_that_are_not_utf8(huffman):
    encoder, decoder = Encoder(), HeaderDecoder(1 << 20)
    for number in range(40):
        value = b"\xff\xfe" * 100 + bytes([number])
        sent = [("x", value), ("y", b"a%d" % (number % 7))]
        assert decoder.decode(encoder.encode(sent, huffman=huffman)) == [
            ("x", value.decode(errors="replace")),
            ("y", f"a{number % 7}"),
        ]


def test_names_are_lower_case():
    assert HeaderDecoder(1000).decode(b"\x00\x03X-A\x01b") == [("x-a", "b")]


@pytest.mark.parametrize("size", [0, 126, 127, 128, 254, 255, 5000])
def test_literals_are_read_by_another_decoder(size):
    decoder = Decoder()
    assert decoder.decode(literal("grpc-message", "é" + "a" * size)) == [("grpc-message", "é" + "a" * size)]
    assert decoder.decode(http_status(415)) == [(":status", "415")]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 1000])
def test_messages_arrive_in_parts_of_any_size(size):
    sent = [b"", b"a", b"bc", bytes(500), b"", b"end"]
    packed = gzip.compress(bytes(3000))
    data = b"".join(map(prefixed, sent)) + b"\1" + len(packed).to_bytes(4, "big") + packed
    reader, found = MessageReader("gzip", 3000), []
    for at in range(0, len(data), size):
        found += reader.feed(data[at : at + size])
    assert found == [*sent, bytes(3000)]
    assert reader.pending_bytes == 0


def test_a_message_beyond_the_limit_is_refused_by_its_prefix():
    reader = MessageReader("", 100)
    assert reader.feed(prefixed(bytes(100))[:50]) == []
    assert reader.pending_bytes == 50
    with pytest.raises(GrpcError, match="the request has 101 bytes, the limit is 100"):
        MessageReader("", 100).feed(prefixed(bytes(101))[:5])


def test_a_single_message_is_recognised():
    assert single_message(prefixed(b"abc"), 3) == b"abc"
    assert single_message(prefixed(b""), 3) == b""
    for data in (b"", prefixed(b"abc")[:-1], prefixed(b"abc") + b"x", prefixed(b"abcd"), b"\1" + prefixed(b"a")[1:]):
        assert single_message(data, 3) is None


def test_fields_are_counted_in_messages_within_messages():
    message = {"topic": Resource(name="t"), "body": b"\x0a\0" * 100_000}
    properties = {str(number): "" for number in range(4_000)}
    few = SendMessageRequest(messages=[Message(user_properties=properties, **message)] * 2)
    many = SendMessageRequest(messages=[Message(user_properties=properties, **message)] * 3)
    found = [has_too_many_fields(each.SerializeToString(), SendMessageRequest.DESCRIPTOR) for each in (few, many)]
    assert found == [False, True]


@pytest.mark.parametrize("data", [b"\x0a", b"\x0a\xff", b"\xff" * 20, b"\x0f", b"\x0a\x05ab", b"\x09", b"\x0d\1"])
def test_counting_leaves_malformed_messages_to_the_parser(data):
    assert not has_too_many_fields(data, SendMessageRequest.DESCRIPTOR)


@pytest.mark.parametrize(
    ("text", "seconds"), [("2H", 7200), ("3M", 180), ("15S", 15), ("2999m", 2.999), ("5u", 5e-6), ("99999999n", 0.1)]
)
def test_timeouts_have_six_units(text, seconds):
    assert timeout_s(text) == pytest.approx(seconds)


def test_an_allowance_refills_with_time():
    allowance = Allowance(3, 0.5)
    assert [allowance.take(100.0) for _ in range(4)] == [True, True, True, False]
    assert not allowance.take(101.9)
    assert allowance.take(102.1)
    assert not allowance.take(102.2)
    assert [allowance.take(1000.0) for _ in range(4)] == [True, True, True, False]


def test_of_shared_bytes_the_largest_share_goes_first():
    shared, gone = SharedBytes(100), []

    def first(held, limit):
        gone.append(("first", held, limit))

    def second(held, limit):
        gone.append(("second", held, limit))

    shared.update(first, 60)
    shared.update(second, 40)
    assert gone == []
    shared.update(second, 41)
    assert gone == [("first", 60, 100)]
    assert shared.total == 41
    shared.update(first, 0)
    shared.update(second, 0)
    assert shared.total == 0
    shared.update(second, 101)
    assert gone[1:] == [("second", 101, 100)]
