"""Detection of a connection's protocol from its first bytes: PROXY header, TLS, HTTP or frames. No I/O.

A frame starts with the top byte of a length below 16 MiB, which is zero. The other protocols start with other bytes.

The sender of a PROXY header chooses the client address that appears in logs and stored messages. Headers are therefore
accepted only from the proxies in the setting and from loopback addresses.

HTTP gets a complete response 400. HTTP/2 gets the server's part of the preface at once and a GOAWAY after its first
request: a gRPC client whose connection is closed before that reconnects forever without an error, while a GOAWAY that
names its stream makes it report the text.

    | length u24 | type u8 | flags u8 | stream u32 |   every frame; the length excludes these 9 bytes
    SETTINGS (4)   empty; flag 1 acknowledges
    HEADERS (1)    begins a stream
    GOAWAY (7)     | last stream u32 | error u32 | text |

Sources: apache/rocketmq remoting/.../netty/NettyRemotingServer.java (HandshakeHandler, ProxyProtocol);
haproxy doc/proxy-protocol.txt sections 2.1 and 2.2; RFC 9113 sections 3.4, 4.1, 6.2, 6.5 and 6.8; RFC 9112 section 4.
"""

from __future__ import annotations

import enum
import ipaddress
import struct
from typing import Final, NamedTuple

from gantrymq.config import Setting, Settings
from gantrymq.errors import ConfigError, RemoteProtocolError

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
    OF_LISTENER = "of the listener"  # begins with the bytes given to `sniff`
    UNKNOWN = "unknown"


class Preamble(NamedTuple):
    """Start of a connection."""

    protocol: ProtocolKind
    peer: tuple[str, int] | None  # the client's address as the PROXY header gives it
    rest: bytes  # bytes after the PROXY header


def sniff(data: bytes, *, inside_tls: bool = False, first: tuple[bytes, ...] = ()) -> Preamble | None:
    """Detect the protocol of a connection. Return None if more bytes are needed.

    Args:
        data: everything received so far.
        inside_tls: the bytes were decrypted; a PROXY header or TLS hello is not expected there.
        first: bytes with which the clients of a listener's own protocol begin.
    Raises:
        RemoteProtocolError: a PROXY header is malformed or too long.
    """
    if inside_tls:
        return _classify(data, None, first, inside_tls=True) if data else None
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
    return _classify(data, peer, first)


def _classify(
    data: bytes, peer: tuple[str, int] | None, first: tuple[bytes, ...], *, inside_tls: bool = False
) -> Preamble | None:
    if data.startswith(first):
        return Preamble(ProtocolKind.OF_LISTENER, peer, data)
    if any(word.startswith(data) for word in first):
        return None
    if data[0] == 0:
        return Preamble(ProtocolKind.FRAMES, peer, data)
    if data[0] == 0x16 and not inside_tls:
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


PROXY_SETTING = Setting.text(
    "proxyProtocolAddresses",
    "",
    "Proxies that may send PROXY protocol headers: addresses or networks (10.0.0.0/8), separated by commas; loopback "
    "addresses are always trusted.",
    local=True,
)


class TrustedProxies:
    """Trusted networks of proxies. Loopback addresses are always trusted."""

    def __init__(self, networks: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...] = ()) -> None:
        self._networks = networks

    def check(self, host: str) -> None:
        """Check that *host* may send a PROXY header.

        Raises:
            RemoteProtocolError: it is not a trusted proxy.
        """
        if not self._known(host):
            raise RemoteProtocolError(
                f"the peer sends a PROXY header and is not a proxy; if it is one, add {host} to {PROXY_SETTING.key}"
            )

    def _known(self, host: str) -> bool:
        try:
            address = ipaddress.ip_address(host.partition("%")[0])
        except ValueError:  # not an IP address
            return False
        if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        return address.is_loopback or any(address in network for network in self._networks)


def trusted_proxies(settings: Settings) -> TrustedProxies:
    """Return the proxies in ``proxyProtocolAddresses``.

    Raises:
        ConfigError: an entry is neither an address nor a network.
    """
    words = [word.strip() for word in settings.text(PROXY_SETTING.key).split(",")]
    try:
        return TrustedProxies(tuple(ipaddress.ip_network(word, strict=False) for word in words if word))
    except ValueError as error:
        raise ConfigError(
            f"{settings.source(PROXY_SETTING.key)}: {PROXY_SETTING.key}: {error}; write addresses or networks such as "
            "10.0.0.0/8, separated by commas"
        ) from None


_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_FRAME: Final = struct.Struct(">HBBBI")  # length in two parts, as it has three bytes
_GOAWAY: Final = struct.Struct(">II")
_HEADERS_TYPE: Final = 1
_SETTINGS_TYPE: Final = 4
_GOAWAY_TYPE: Final = 7
_ACK: Final = 1  # a flag of SETTINGS
_PROTOCOL_ERROR: Final = 1  # after error 0 clients retry without reporting the text
_READ_BYTES: Final = 4096  # clients have sent their request and acknowledgement within this

HTTP2_SETTINGS: Final = _FRAME.pack(0, 0, _SETTINGS_TYPE, 0, 0)


def http_response(text: str) -> bytes:
    """Return a complete HTTP response."""
    body = text.encode()
    head = f"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Connection: close\r\n\r\n".encode() + body


def requested_stream(data: bytes) -> int | None:
    """Return the stream of the first HTTP/2 request, None before it is complete, 0 if *data* is not HTTP/2.

    The client must also have acknowledged the settings: bytes that arrive at a closed connection reset it, and the
    client would lose the GOAWAY that it has not read yet.

    Args:
        data: all received bytes, including the preface.
    """
    if not data.startswith(_PREFACE[: len(data)]):
        return 0
    at, asked, acknowledged = len(_PREFACE), 0, False
    while len(data) >= at + _FRAME.size:
        high, low, kind, flags, stream = _FRAME.unpack_from(data, at)
        if kind == _HEADERS_TYPE:
            asked = asked or int(stream) & 0x7FFFFFFF
        acknowledged = acknowledged or (kind == _SETTINGS_TYPE and flags & _ACK != 0)
        if asked and acknowledged:
            return asked
        at += _FRAME.size + (high << 8 | low)
    return 0 if len(data) > _READ_BYTES or at > _READ_BYTES else None


def http2_goaway(stream: int, text: str) -> bytes:
    """Return a GOAWAY frame with *text*; *stream* is the stream of the request."""
    payload = _GOAWAY.pack(stream, _PROTOCOL_ERROR) + text.encode()
    return _FRAME.pack(len(payload) >> 8, len(payload) & 0xFF, _GOAWAY_TYPE, 0, 0) + payload
