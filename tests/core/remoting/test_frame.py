import struct

import pytest
from one_frame import split_frame

from gantrymq.errors import RemoteProtocolError
from gantrymq.remoting.frame import MAX_FRAME_BYTES, Frame, FrameDecoder


def frame(header: bytes, body: bytes = b"", codec: int = 0) -> bytes:
    return struct.pack(">II", 4 + len(header) + len(body), codec << 24 | len(header)) + header + body


def test_many_frames_of_one_read_come_in_order():
    decoder = FrameDecoder()
    stream = b"".join(frame(b"{%d}" % n, bytes(n)) for n in range(50))
    frames = decoder.feed(stream + b"\0\0")
    assert [f.header for f in frames] == [b"{%d}" % n for n in range(50)]
    assert [len(f.body or b"") for f in frames] == list(range(50))
    assert frames[0].body is None
    assert decoder.pending_bytes == 2


@pytest.mark.parametrize("step", [1, 3, 7, 64, 1000, 40_000, 100_000])
def test_frames_in_pieces_come_whole(step):
    sent = [
        Frame(0, b"{}", b"x" * 5),
        Frame(1, b"h" * 300, None),
        Frame(0, b"{}", bytes(range(256)) * 700),
        Frame(0, b"{1}", b"y"),
    ]
    stream = b"".join(frame(f.header, f.body or b"", f.codec) for f in sent)
    decoder, got = FrameDecoder(), []
    for at in range(0, len(stream), step):
        got += decoder.feed(stream[at : at + step])
    assert got == sent
    assert all(type(f.header) is bytes and type(f.body or b"") is bytes for f in got)
    assert decoder.pending_bytes == 0


def test_a_large_header_in_small_pieces_is_read():
    stream = frame(b"h" * 200_000, b"b")
    decoder, got = FrameDecoder(), []
    for at in range(0, len(stream), 999):
        got += decoder.feed(stream[at : at + 999])
    assert got == [Frame(0, b"h" * 200_000, b"b")]


def test_the_limit_counts_the_length_prefix():
    decoder = FrameDecoder()
    assert decoder.feed(struct.pack(">II", MAX_FRAME_BYTES - 4, 2)) == []
    with pytest.raises(RemoteProtocolError, match=f"longest allowed has {MAX_FRAME_BYTES}"):
        FrameDecoder().feed(struct.pack(">II", MAX_FRAME_BYTES - 3, 2))


@pytest.mark.parametrize("head", [(4, 1), (0, 0), (3, 0), (100, 97), (0xFFFFFFFF, 0)])
def test_a_header_longer_than_its_frame_is_refused_for_good(head):
    decoder = FrameDecoder()
    for _ in range(2):
        with pytest.raises(RemoteProtocolError):
            decoder.feed(struct.pack(">II", *head))


def test_frames_before_an_error_are_given_first():
    decoder = FrameDecoder()
    assert len(decoder.feed(frame(b"{}") + b"GET / HTTP/1.1\r\n")) == 1
    with pytest.raises(RemoteProtocolError):
        decoder.check()
    with pytest.raises(RemoteProtocolError):
        decoder.feed(frame(b"{}"))


def test_split_frame_wants_exactly_one():
    assert split_frame(frame(b"{}", b"x")) == Frame(0, b"{}", b"x")
    for data in (b"", frame(b"{}") * 2, frame(b"{}")[:-1], frame(b"{}") + b"\0"):
        with pytest.raises(RemoteProtocolError):
            split_frame(data)
