"""Frames of the remoting protocol in tests."""

from __future__ import annotations

from gantrymq.errors import RemoteProtocolError
from gantrymq.remoting.frame import PREFIX, Frame, FrameDecoder

__all__ = ["split_frame"]


def split_frame(data: bytes) -> Frame:
    """Split off exactly one whole frame.

    Raises:
        RemoteProtocolError: *data* is less or more than one frame.
    """
    decoder = FrameDecoder(max(len(data), PREFIX.size))
    frames = decoder.feed(data)
    if len(frames) != 1 or decoder.pending_bytes:
        raise RemoteProtocolError(f"{len(data)} bytes are not one frame")
    return frames[0]
