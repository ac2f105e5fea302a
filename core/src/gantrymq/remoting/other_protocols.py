"""Responses to peers that speak HTTP or HTTP/2. No I/O.

HTTP gets a complete response 400. HTTP/2 gets the server's part of the preface at once and a GOAWAY after its first
request: a gRPC client whose connection is closed before that reconnects forever without an error, while a GOAWAY that
names its stream makes it report the text.

    | length u24 | type u8 | flags u8 | stream u32 |   every frame; the length excludes these 9 bytes
    SETTINGS (4)   empty; flag 1 acknowledges
    HEADERS (1)    begins a stream
    GOAWAY (7)     | last stream u32 | error u32 | text |

Source: RFC 9113 sections 3.4, 4.1, 6.2, 6.5 and 6.8; RFC 9112 section 4.
"""

from __future__ import annotations

import struct
from typing import Final

__all__ = ["HTTP2_SETTINGS", "http2_goaway", "http_response", "requested_stream"]

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
