"""Remoting frames: decoding of a byte stream into frames. No I/O.

    | length u32 | codec u8, header length u24 | header | body |   length excludes its own 4 bytes

Source: apache/rocketmq remoting/.../protocol/RemotingCommand.java (encode), netty/NettyDecoder.java.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from gantrymq import speedups
from gantrymq.errors import RemoteProtocolError

PREFIX: Final = struct.Struct(">II")
MAX_FRAME_BYTES: Final = 16 * 1024 * 1024  # length prefix included; com.rocketmq.remoting.frameMaxLength
_JOIN_BYTES: Final = 64 * 1024  # smaller frames in pieces are joined with one copy
_GATHER_BYTES: Final = 32 * 1024  # smaller reads are collected in one bytearray


class Frame(NamedTuple):
    """One frame with undecoded header."""

    codec: int  # 0 JSON, 1 binary; other values are refused when the header is decoded
    header: bytes
    body: bytes | None  # None if the body is empty, as in Java


def _cut_frames(data: bytes, limit: int) -> tuple[list[Frame], int, int]:
    """Split off the complete frames at the start of *data*.

    Returns:
        The frames; the position of the remaining bytes; the number of bytes the rest must have before the next frame
        is complete. That number is 0 for an invalid frame: longer than *limit*, including its prefix, or shorter than
        its header.
    """
    frames: list[Frame] = []
    at, size, unpack = 0, len(data), PREFIX.unpack_from
    new = tuple.__new__  # takes half the time of calling the named tuple
    while size - at >= 8:
        length, mark = unpack(data, at)
        body_at = at + 8 + (mark & 0xFFFFFF)
        end = at + 4 + length
        if length + 4 > limit or body_at > end:
            return frames, at, 0
        if end > size:
            return frames, at, length + 4
        body = data[body_at:end] if body_at < end else None
        frames.append(new(Frame, (mark >> 24, data[at + 8 : body_at], body)))
        at = end
    return frames, at, PREFIX.size


cut_frames = _cut_frames if speedups.compiled is None else speedups.compiled.FrameCutter(Frame)


class FrameDecoder:
    """Decoder of a byte stream into frames.

    Bytes of an incomplete frame are kept in pieces as received, so a large frame costs one copy of its body and many
    small reads take linear time. After an error the decoder raises the same error again.
    """

    __slots__ = ("_error", "_max", "_need", "_pieces", "pending_bytes")

    def __init__(self, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self._max = max_frame_bytes
        self._pieces: list[bytes | bytearray] = []
        self._need = PREFIX.size  # bytes needed for the next frame
        self._error: RemoteProtocolError | None = None
        self.pending_bytes = 0  # bytes of the incomplete frame

    def feed(self, data: bytes) -> list[Frame]:
        """Add the bytes of one read and return the frames completed by them, in order.

        If complete frames precede an invalid frame, the error is raised by the next call, so that they are served.

        Raises:
            RemoteProtocolError: a frame is longer than the limit (including its length prefix) or its header is longer
                than the frame. The stream is unusable.
        """
        if self._error is not None:
            raise self._error
        if not self._pieces:
            frames, at, need = cut_frames(data, self._max)
            if need and at == len(data):
                self._need = need
                return frames
            return self._keep_rest(data, frames, at, need)
        self._keep(data)
        if self.pending_bytes < self._need:
            return []
        return self._assemble()

    def check(self) -> None:
        """Raise the error that `feed` found after the frames it last returned, if any."""
        if self._error is not None:
            raise self._error

    def _keep(self, data: bytes) -> None:
        """Keep *data*; small reads are collected in one bytearray to limit the overhead per object."""
        self.pending_bytes += len(data)
        tail = self._pieces[-1]
        if isinstance(tail, bytearray) and len(tail) < _GATHER_BYTES:
            tail += data
        else:
            self._pieces.append(bytearray(data) if len(data) < _GATHER_BYTES else data)

    def _assemble(self) -> list[Frame]:
        pieces, have, need = self._pieces, self.pending_bytes, self._need
        self._pieces, self.pending_bytes = [], 0
        if need < _JOIN_BYTES:
            return self._cut(b"".join(pieces))
        last = pieces.pop()
        keep = len(last) - (have - need)
        pieces.append(last[:keep])
        frame = _join_frame(pieces)
        return [frame, *self._cut(bytes(last[keep:]))]

    def _cut(self, data: bytes) -> list[Frame]:
        return self._keep_rest(data, *cut_frames(data, self._max))

    def _keep_rest(self, data: bytes, frames: list[Frame], at: int, need: int) -> list[Frame]:
        """Return *frames*; keep the bytes of *data* from *at* on, or the error that makes *need* 0."""
        if not need:
            self._error = RemoteProtocolError(_refusal(data[at : at + 8], self._max))
            if frames:
                return frames
            raise self._error
        self._need = need
        if at < len(data):
            self._pieces.append(data[at:] if at else data)
            self.pending_bytes = len(data) - at
        return frames


def _refusal(prefix: bytes, limit: int) -> str:
    """Return why a frame with this prefix is invalid."""
    length, mark = PREFIX.unpack(prefix)
    if length + 4 <= limit:
        return f"a frame of {length + 4} bytes says that its header has {mark & 0xFFFFFF}"
    sentence = f"a frame of {length + 4} bytes is announced, the longest allowed has {limit}"
    if all(0x20 <= byte < 0x7F for byte in prefix[:4]):
        sentence += f"; it begins with the text {prefix[:4].decode('ascii')!r}, so this may be no frame"
    return sentence


def _join_frame(pieces: list[bytes | bytearray]) -> Frame:
    """Return the frame that *pieces* contain exactly. The body is copied once."""
    first = pieces[0]
    mark = PREFIX.unpack_from(first)[1]  # the first piece has the whole prefix, else the length would be unknown
    body_at = 8 + (mark & 0xFFFFFF)
    if len(first) < body_at:
        first, pieces = b"".join(pieces), []
    body = b"".join((memoryview(first)[body_at:], *pieces[1:]))
    return Frame(mark >> 24, bytes(first[8:body_at]), body or None)
