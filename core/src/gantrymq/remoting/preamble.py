"""Detection of a connection's protocol from its first bytes: PROXY header, TLS, HTTP or frames. No I/O.

A frame starts with the top byte of a length below 16 MiB, which is zero. The other protocols start with other bytes.

Sources: apache/rocketmq remoting/.../netty/NettyRemotingServer.java (HandshakeHandler, ProxyProtocol);
haproxy doc/proxy-protocol.txt sections 2.1 and 2.2.
"""

from __future__ import annotations

import enum
import ipaddress
import struct
from typing import Final, NamedTuple

from gantrymq.errors import RemoteProtocolError

__all__ = ["Preamble", "ProtocolKind", "sniff"]

_V1: Final = b"PROXY "
_V2: Final = b"\r\n\r\n\x00\r\nQUIT\n"
_V1_MAX: Final = 107  # bytes of the longest first-version line, line end included
_V2_HEAD: Final = struct.Struct(">12sBBH")
_V2_MAX: Final = 4096  # bytes of addresses and extensions accepted; 36 is usual
_HTTP: Final = (b"GET ", b"PUT ", b"POST ", b"HEAD ", b"PATCH ", b"TRACE ", b"DELETE ", b"OPTIONS ", b"CONNECT ")
_HTTP2: Final = b"PRI * HTTP/2.0"


class ProtocolKind(enum.Enum):
    """Protocol of a connection, after the PROXY header if there is one."""

    FRAMES = "frames"
    TLS = "TLS"
    HTTP = "HTTP"
    HTTP2 = "HTTP/2"
    UNKNOWN = "unknown"


class Preamble(NamedTuple):
    """Start of a connection."""

    protocol: ProtocolKind
    peer: tuple[str, int] | None  # the client's address as the PROXY header gives it
    rest: bytes  # bytes after the PROXY header


def sniff(data: bytes, *, inside_tls: bool = False) -> Preamble | None:
    """Detect the protocol of a connection. Return None if more bytes are needed.

    Args:
        data: everything received so far.
        inside_tls: the bytes were decrypted; a PROXY header or TLS hello is not expected there.
    Raises:
        RemoteProtocolError: a PROXY header is malformed or too long.
    """
    if inside_tls:
        return _classify(data, None, inside_tls=True) if data else None
    peer = None
    if data.startswith(_V2[: len(data)]):
        found = _read_v2(data)
        if found is None:
            return None
        peer, data = found
    elif data.startswith(_V1[: len(data)]):
        found = _read_v1(data)
        if found is None:
            return None
        peer, data = found
    if not data:
        return None
    return _classify(data, peer)


def _classify(data: bytes, peer: tuple[str, int] | None, *, inside_tls: bool = False) -> Preamble | None:
    first = data[0]
    if first == 0:
        return Preamble(ProtocolKind.FRAMES, peer, data)
    if first == 0x16 and not inside_tls:
        return Preamble(ProtocolKind.TLS, peer, data)
    if data.startswith(_HTTP2):
        return Preamble(ProtocolKind.HTTP2, peer, data)
    if data.startswith(_HTTP):
        return Preamble(ProtocolKind.HTTP, peer, data)
    if any(word.startswith(data) for word in (*_HTTP, _HTTP2)):
        return None
    return Preamble(ProtocolKind.UNKNOWN, peer, data)


def _read_v1(data: bytes) -> tuple[tuple[str, int] | None, bytes] | None:
    """Parse ``PROXY TCP4 source destination source-port destination-port`` and a line end."""
    line, end, rest = data.partition(b"\r\n")
    if len(line) + 2 > _V1_MAX:
        raise RemoteProtocolError("PROXY header: the line is too long")
    if not end:
        return None
    words = line.decode("ascii", "replace").split(" ")
    if len(words) > 1 and words[1] == "UNKNOWN":
        return None, rest
    if len(words) != 6 or words[1] not in ("TCP4", "TCP6"):
        raise RemoteProtocolError(f"PROXY header: {line[:60]!r}")
    try:
        return (str(ipaddress.ip_address(words[2])), _port(words[4])), rest
    except ValueError as error:
        raise RemoteProtocolError(f"PROXY header: {error}") from None


def _port(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text) < 65536):
        raise ValueError(f"port {text!r}")
    return int(text)


def _read_v2(data: bytes) -> tuple[tuple[str, int] | None, bytes] | None:
    if len(data) < _V2_HEAD.size:
        return None
    _, command, family, length = _V2_HEAD.unpack_from(data)
    if command not in (0x20, 0x21) or length > _V2_MAX:
        raise RemoteProtocolError(f"PROXY header: command {command:#x}, {length} bytes")
    end = _V2_HEAD.size + length
    if len(data) < end:
        return None
    address, rest = data[_V2_HEAD.size : end], data[end:]
    if command == 0x20:  # LOCAL: a connection of the proxy itself
        return None, rest
    size = {0x11: 4, 0x21: 16}.get(family, 0)  # TCP over IPv4, over IPv6
    if size == 0:
        return None, rest
    if length < 2 * size + 4:
        raise RemoteProtocolError(f"PROXY header: {length} bytes of addresses, expected {2 * size + 4}")
    port = int.from_bytes(address[2 * size : 2 * size + 2], "big")
    return (str(ipaddress.ip_address(address[:size])), port), rest
