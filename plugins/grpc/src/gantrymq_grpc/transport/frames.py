"""Frames of HTTP/2: bytes in, frames out, and the frames that a server sends.

    | length u24 | type u8 | flags u8 | 1 bit, stream id u31 | payload |

Source: RFC 9113 sections 4 and 6.
"""

from __future__ import annotations

import enum
import struct
from typing import Final, NamedTuple

from gantrymq.errors import RemoteProtocolError

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
MAX_FRAME_BYTES: Final = 16 * 1024  # HTTP/2's default, which clients may not exceed
MAX_WINDOW: Final = 2**31 - 1
DEFAULT_WINDOW: Final = 65_535

DATA: Final = 0
HEADERS: Final = 1
PRIORITY: Final = 2
RST_STREAM: Final = 3
SETTINGS: Final = 4
PUSH_PROMISE: Final = 5
PING: Final = 6
GOAWAY: Final = 7
WINDOW_UPDATE: Final = 8
CONTINUATION: Final = 9

END_STREAM: Final = 0x1  # of DATA and HEADERS
ACK: Final = 0x1  # of SETTINGS and PING
END_HEADERS: Final = 0x4
PADDED: Final = 0x8
HAS_PRIORITY: Final = 0x20

SETTING_HEADER_TABLE_SIZE: Final = 1
SETTING_MAX_CONCURRENT_STREAMS: Final = 3
SETTING_INITIAL_WINDOW_SIZE: Final = 4
SETTING_MAX_FRAME_SIZE: Final = 5
SETTING_MAX_HEADER_LIST_SIZE: Final = 6

_PREFIX: Final = struct.Struct(">HBBBI")
_SETTING: Final = struct.Struct(">HI")
_WORD: Final = struct.Struct(">I")


class ErrorCode(enum.IntEnum):
    """Error codes of RST_STREAM and GOAWAY."""

    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2
    FLOW_CONTROL_ERROR = 3
    SETTINGS_TIMEOUT = 4
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    CANCEL = 8
    COMPRESSION_ERROR = 9
    ENHANCE_YOUR_CALM = 11


class ConnectionFault(RemoteProtocolError):
    """The client violated HTTP/2 or a limit; the connection is closed with GOAWAY."""

    def __init__(self, code: ErrorCode, text: str) -> None:
        """*text* is sent to the client and logged."""
        super().__init__(code, text)
        self.code = code
        self.text = text

    def __str__(self) -> str:
        return f"{self.text} ({self.code.name})"


class Frame(NamedTuple):
    """A frame as received."""

    kind: int
    flags: int
    stream_id: int
    payload: bytes


class FrameReader:
    """Call `feed`, then `read` until it returns no frame."""

    def __init__(self) -> None:
        """Create a reader that expects the client's preface first."""
        self._buffer = b""
        self._position = 0
        self._began = False

    @property
    def pending_bytes(self) -> int:
        """Bytes that were not read as frames."""
        return len(self._buffer) - self._position

    def feed(self, data: bytes) -> None:
        """Keep *data* for `read`."""
        if self._position < len(self._buffer):
            self._buffer = self._buffer[self._position :] + data
        else:
            self._buffer = data
        self._position = 0

    def read(self, most: int) -> list[Frame]:
        """Return the next complete frames, at most *most*.

        Raises:
            ConnectionFault: a frame is too long, or the client does not begin as HTTP/2 does.
        """
        buffer, position = self._buffer, self._position
        if not self._began:
            if not self._skip_preface():
                return []
            position = self._position
        frames: list[Frame] = []
        end = len(buffer) - 9
        while position <= end and len(frames) < most:
            high, low, kind, flags, stream_id = _PREFIX.unpack_from(buffer, position)
            length = high << 8 | low
            if length > MAX_FRAME_BYTES:
                raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, f"a frame of {length} bytes, limit {MAX_FRAME_BYTES}")
            begin = position + 9
            if begin + length > len(buffer):
                break
            position = begin + length
            frames.append(Frame(kind, flags, stream_id & MAX_WINDOW, buffer[begin:position]))
        self._position = position
        return frames

    def _skip_preface(self) -> bool:
        """Return whether the preface has arrived completely."""
        if len(self._buffer) < len(PREFACE):
            if not PREFACE.startswith(self._buffer):
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, f"not HTTP/2: {self._buffer[:24]!r}")
            return False
        if not self._buffer.startswith(PREFACE):
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, f"not HTTP/2: {self._buffer[:24]!r}")
        self._position = len(PREFACE)
        self._began = True
        return True


def content(frame: Frame) -> bytes:
    """Return the payload of DATA or HEADERS without padding and priority.

    Raises:
        ConnectionFault: the padding is longer than the frame.
    """
    payload, begin, end = frame.payload, 0, len(frame.payload)
    if frame.flags & PADDED:
        if not payload or payload[0] >= end:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "padding longer than its frame")
        begin, end = 1, end - payload[0]
    if frame.kind == HEADERS and frame.flags & HAS_PRIORITY:
        begin += 5
        if begin > end:
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, "a HEADERS frame without its priority")
    return payload[begin:end]


def frame(kind: int, flags: int, stream_id: int, payload: bytes | memoryview = b"") -> bytes:
    """Return the bytes of one frame."""
    length = len(payload)
    return b"".join((_PREFIX.pack(length >> 8, length & 0xFF, kind, flags, stream_id), payload))


def frame_prefix(kind: int, flags: int, stream_id: int, length: int) -> bytes:
    """Return the first nine bytes of a frame."""
    return _PREFIX.pack(length >> 8, length & 0xFF, kind, flags, stream_id)


def settings_frame(settings: dict[int, int]) -> bytes:
    """Return a SETTINGS frame."""
    return frame(SETTINGS, 0, 0, b"".join(_SETTING.pack(key, value) for key, value in settings.items()))


def parse_settings(payload: bytes) -> list[tuple[int, int]]:
    """Return the settings of a frame in order.

    Raises:
        ConnectionFault: the length is not a multiple of six.
    """
    if len(payload) % _SETTING.size:
        raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, f"a SETTINGS frame of {len(payload)} bytes")
    return list(_SETTING.iter_unpack(payload))


def rst_stream(stream_id: int, code: ErrorCode) -> bytes:
    """Return a RST_STREAM frame."""
    return frame(RST_STREAM, 0, stream_id, _WORD.pack(code))


def window_update(stream_id: int, increment: int) -> bytes:
    """Return a WINDOW_UPDATE frame; stream 0 is the connection."""
    return frame(WINDOW_UPDATE, 0, stream_id, _WORD.pack(increment))


def goaway(last_stream_id: int, code: ErrorCode, text: str = "") -> bytes:
    """Return a GOAWAY frame: streams above *last_stream_id* were not processed."""
    return frame(GOAWAY, 0, 0, _WORD.pack(last_stream_id) + _WORD.pack(code) + text.encode())


def word(payload: bytes, what: str) -> int:
    """Return the value of a frame that consists of four bytes.

    Raises:
        ConnectionFault: it has another length.
    """
    if len(payload) != _WORD.size:
        raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, f"a {what} frame of {len(payload)} bytes")
    value: int = _WORD.unpack(payload)[0]
    return value
