"""The HTTP/2 frames that a server must understand to send a GOAWAY."""

import pytest

from gantrymq.remoting.preamble import HTTP2_SETTINGS, http2_goaway, http_response, requested_stream

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = bytes.fromhex("00000c0400000000000003000000640004000fffff")
WINDOW_UPDATE = bytes.fromhex("000004080000000000000f0001")
HEADERS = bytes.fromhex("00000301058000000582") + b"\x84\x86"  # the reserved bit before stream 5 set
ACK = bytes.fromhex("000000040100000000")


def test_the_stream_that_asks_is_found_whole_and_byte_by_byte():
    for data, rest in ((HEADERS + ACK, 0), (ACK + HEADERS, 3)):  # the head of the last frame is enough
        data = PREFACE + SETTINGS + WINDOW_UPDATE + data
        told = [requested_stream(data[:size]) for size in range(len(data) + 1)]
        assert told == [None] * (len(data) - rest) + [5] * (rest + 1)


@pytest.mark.parametrize(
    "data",
    [
        b"PRI * HTTP/2.0\r\nHost: x\r\n",
        PREFACE + bytes.fromhex("ffffff0400") + bytes(4),  # longer than a client sends before its request
        PREFACE + (bytes.fromhex("000004080000000000") + bytes(4)) * 400,
    ],
)
def test_what_is_no_client_that_asks_is_not_waited_for(data):
    assert requested_stream(data) == 0


def test_the_frames_of_ours():
    assert bytes.fromhex("000000040000000000") == HTTP2_SETTINGS
    assert http2_goaway(5, "no") == bytes.fromhex("00000a0700000000000000000500000001") + b"no"
    assert http2_goaway(1, "x" * 70_000)[:3] == (70_008).to_bytes(3, "big")


def test_http_gets_a_whole_answer():
    head, _, body = http_response("n\u00f6\n").partition(b"\r\n\r\n")
    assert head.split(b"\r\n") == [
        b"HTTP/1.1 400 Bad Request",
        b"Content-Type: text/plain",
        b"Content-Length: 4",
        b"Connection: close",
    ]
    assert body == "n\u00f6\n".encode()
