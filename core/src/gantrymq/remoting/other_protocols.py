"""What peers of another protocol are told in their own words. Bytes only, no I/O.

HTTP gets a whole answer 400. HTTP/2 gets the server's part of its preface at once, and a GOAWAY when it asks for
something: clients of gRPC that are sent away before connect again and again and tell their users nothing, while one
whose stream is named in the GOAWAY shows its text.

    | length u24 | type u8 | flags u8 | stream u32 |   every frame, the length without these 9 bytes
    SETTINGS (4)   empty; with the flag 1 it acknowledges
    HEADERS (1)    what begins a stream
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
_PROTOCOL_ERROR: Final = 1  # not 0, after which clients try again without a word
_READ_BYTES: Final = 4096  # clients have asked and acknowledged by then

HTTP2_SETTINGS: Final = _FRAME.pack(0, 0, _SETTINGS_TYPE, 0, 0)


def http_response(text: str) -> bytes:
    """The whole answer to a request of HTTP."""
    body = text.encode()
    head = f"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Connection: close\r\n\r\n".encode() + body


def requested_stream(data: bytes) -> int | None:
    """The number of the stream that a client of HTTP/2 asks on; None while it has not, 0 if these are no frames of it.

    It has to acknowledge the greeting as well: bytes that arrive at a closed connection reset it, and what the client
    had not read by then is lost.

    Args:
        data: everything received, the preface included.
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
    """The end of a connection of HTTP/2, and why; *stream* is the one that asked."""
    payload = _GOAWAY.pack(stream, _PROTOCOL_ERROR) + text.encode()
    return _FRAME.pack(len(payload) >> 8, len(payload) & 0xFF, _GOAWAY_TYPE, 0, 0) + payload
