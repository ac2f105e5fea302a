import pytest

from gantrymq.errors import RemoteProtocolError
from gantrymq.remoting.preamble import ProtocolKind, sniff

FRAME = b"\0\0\0\x06\0\0\0\x02{}"
V2 = b"\r\n\r\n\x00\r\nQUIT\n"
V4 = V2 + b"\x21\x11\x00\x0c" + bytes([10, 1, 2, 3, 10, 0, 0, 1]) + (5555).to_bytes(2, "big") + (80).to_bytes(2, "big")
V6 = V2 + b"\x21\x21\x00\x24" + bytes(15) + b"\x01" + bytes(16) + b"\x15\xb3\x00\x50"


@pytest.mark.parametrize(
    ("data", "protocol", "peer", "rest"),
    [
        (FRAME, ProtocolKind.FRAMES, None, FRAME),
        (b"PROXY TCP4 10.1.2.3 10.0.0.1 5555 80\r\n" + FRAME, ProtocolKind.FRAMES, ("10.1.2.3", 5555), FRAME),
        (b"PROXY TCP6 ::1 ::2 5555 80\r\n" + FRAME, ProtocolKind.FRAMES, ("::1", 5555), FRAME),
        (b"PROXY UNKNOWN ffff anything\r\n" + FRAME, ProtocolKind.FRAMES, None, FRAME),
        (V4 + FRAME, ProtocolKind.FRAMES, ("10.1.2.3", 5555), FRAME),
        (V6 + FRAME, ProtocolKind.FRAMES, ("::1", 5555), FRAME),
        (V2 + b"\x20\x00\x00\x00" + FRAME, ProtocolKind.FRAMES, None, FRAME),
        (V2 + b"\x21\x00\x00\x03abc" + FRAME, ProtocolKind.FRAMES, None, FRAME),
        (b"\x16\x03\x01", ProtocolKind.TLS, None, b"\x16\x03\x01"),
        (V4 + b"\x16\x03", ProtocolKind.TLS, ("10.1.2.3", 5555), b"\x16\x03"),
        (b"GET / HTTP/1.1", ProtocolKind.HTTP, None, b"GET / HTTP/1.1"),
        (b"PRI * HTTP/2.0\r\n", ProtocolKind.HTTP2, None, b"PRI * HTTP/2.0\r\n"),
        (b"garbage", ProtocolKind.UNKNOWN, None, b"garbage"),
    ],
)
def test_beginnings_whole_and_byte_by_byte(data, protocol, peer, rest):
    assert sniff(data) == (protocol, peer, rest)
    told = next(found for size in range(1, len(data) + 1) if (found := sniff(data[:size])) is not None)
    assert told.protocol is protocol
    assert told.peer == peer


@pytest.mark.parametrize(
    "data",
    [
        b"PROXY TCP4 10.1.2.3 10.0.0.1 5555\r\n",
        b"PROXY TCP4 nowhere 10.0.0.1 5555 80\r\n",
        b"PROXY TCP4 10.1.2.3 10.0.0.1 99999 80\r\n",
        b"PROXY SCTP 10.1.2.3 10.0.0.1 1 80\r\n",
        b"PROXY " + b"x" * 120,
        V2 + b"\x31\x11\x00\x0c",
        V2 + b"\x21\x11\xff\xff",
        V2 + b"\x21\x11\x00\x04abcd",
    ],
)
def test_malformed_proxy_headers(data):
    with pytest.raises(RemoteProtocolError, match="PROXY"):
        sniff(data)


@pytest.mark.parametrize(
    ("data", "protocol"),
    [
        (b"PRI * HTTP/2.0\r\n", ProtocolKind.OF_LISTENER),
        (b"\x10\x20", ProtocolKind.OF_LISTENER),
        (b"PUT / HTTP/1.1", ProtocolKind.HTTP),
        (b"PRINT", ProtocolKind.UNKNOWN),
        (FRAME, ProtocolKind.FRAMES),
        (b"\x16\x03\x01", ProtocolKind.TLS),
    ],
)
def test_the_first_bytes_of_a_listeners_protocol(data, protocol):
    first = (b"PRI * HTTP/2.0", b"\x10")
    assert sniff(data, first=first) == (protocol, None, data)
    for size in range(1, len(data) + 1):  # never another one in between
        found = sniff(data[:size], first=first)
        assert found is None or found.protocol is protocol
    assert sniff(V4 + data, first=first) == (protocol, ("10.1.2.3", 5555), data)


@pytest.mark.parametrize(
    ("data", "protocol"),
    [
        (FRAME, ProtocolKind.FRAMES),
        (b"GET / HTTP/1.1", ProtocolKind.HTTP),
        (b"PRI * HTTP/2.0\r\n", ProtocolKind.HTTP2),
        (b"\x16\x03\x01", ProtocolKind.UNKNOWN),
        (V4 + FRAME, ProtocolKind.UNKNOWN),
        (b"PROXY TCP4 10.1.2.3 10.0.0.1 5555 80\r\n" + FRAME, ProtocolKind.UNKNOWN),
    ],
)
def test_inside_tls_there_is_no_proxy_header_and_no_second_hello(data, protocol):
    assert sniff(data, inside_tls=True) == (protocol, None, data)
    told = next(found for size in range(1, len(data) + 1) if (found := sniff(data[:size], inside_tls=True)) is not None)
    assert (told.protocol, told.peer) == (protocol, None)
