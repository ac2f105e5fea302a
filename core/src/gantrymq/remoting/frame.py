"""Remoting frames: bytes in, frames out. No socket, clock or thread.

    | length u32 | codec u8, header length u24 | header | body |   length leaves out its own 4 bytes

Source: apache/rocketmq remoting/.../protocol/RemotingCommand.java (encode), netty/NettyDecoder.java.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from gantrymq import speedups
from gantrymq.errors import RemoteProtocolError

__all__ = ["MAX_FRAME_BYTES", "PREFIX", "Frame", "FrameDecoder", "cut_frames"]

PREFIX: Final = struct.Struct(">II")
MAX_FRAME_BYTES: Final = 16 * 1024 * 1024  # length prefix included; com.rocketmq.remoting.frameMaxLength
_JOIN_BYTES: Final = 64 * 1024  # a frame in pieces below this is simply joined
_GATHER_BYTES: Final = 32 * 1024  # reads below this are gathered


class Frame(NamedTuple):
    """One frame, cut but not interpreted."""

    codec: int  # 0 JSON, 1 binary; anything else is refused by whoever decodes the header
    header: bytes
    body: bytes | None  # None where the body has no bytes, as in Java


def _cut_frames(data: bytes, limit: int) -> tuple[list[Frame], int, int]:
    """Cut the frames off the front of *data* that are whole.

    Returns:
        The frames; where what is left begins; and how many bytes what is left must have before anything can be cut,
        0 where it can never be: a frame longer than *limit*, its prefix included, or shorter than its header.
    """
    frames: list[Frame] = []
    at, size, unpack = 0, len(data), PREFIX.unpack_from
    new = tuple.__new__  # half the time of calling the named tuple
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
    """Cuts a byte stream into frames.

    Bytes of a frame that is not whole yet are kept as the pieces they came in, so a large frame costs one copy of its
    body and a stream of small reads stays linear. After an error the decoder raises the same error again.
    """

    __slots__ = ("_error", "_max", "_need", "_pieces", "pending_bytes")

    def __init__(self, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self._max = max_frame_bytes
        self._pieces: list[bytes | bytearray] = []
        self._need = PREFIX.size  # bytes that must be there before anything can be cut
        self._error: RemoteProtocolError | None = None
        self.pending_bytes = 0  # held for a frame that is not whole yet

    def feed(self, data: bytes) -> list[Frame]:
        """Take what one read brought and return the frames that are whole now, in order.

        A frame error behind whole frames is raised by the next call, so that what came before it is served.

        Raises:
            RemoteProtocolError: a frame is longer than the limit (its length prefix included) or its header is longer
                than the frame. The stream cannot be read on.
        """
        if self._error is not None:
            raise self._error
        if not self._pieces:
            return self._cut(data)
        self._keep(data)
        if self.pending_bytes < self._need:
            return []
        return self._assemble()

    def check(self) -> None:
        """Raise the error that `feed` found behind the frames it last returned, if there is one."""
        if self._error is not None:
            raise self._error

    def _keep(self, data: bytes) -> None:
        """Hold *data*; small reads gather in one growing piece, so that they cost no more memory than they bring."""
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
        frames, at, need = cut_frames(data, self._max)
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
    """Why a frame that begins so cannot be read."""
    length, mark = PREFIX.unpack(prefix)
    if length + 4 <= limit:
        return f"a frame of {length + 4} bytes says that its header has {mark & 0xFFFFFF}"
    sentence = f"a frame of {length + 4} bytes is announced, the longest allowed has {limit}"
    if all(0x20 <= byte < 0x7F for byte in prefix[:4]):
        sentence += f"; it begins with the text {prefix[:4].decode('ascii')!r}, so this may be no frame"
    return sentence


def _join_frame(pieces: list[bytes | bytearray]) -> Frame:
    """Make one frame of the pieces that hold exactly its bytes; the body is copied once."""
    first = pieces[0]
    mark = PREFIX.unpack_from(first)[1]  # the first piece holds the prefix: only then is a frame's length known
    body_at = 8 + (mark & 0xFFFFFF)
    if len(first) < body_at:
        first, pieces = b"".join(pieces), []
    body = b"".join((memoryview(first)[body_at:], *pieces[1:]))
    return Frame(mark >> 24, bytes(first[8:body_at]), body or None)
