"""Frames of a whole connection: settings, pings, and those that only have an allowance.

What may be frequent but not endless has an allowance; above it the connection is closed with GOAWAY and the reason.

Source: RFC 9113 sections 6.5 and 6.7; grpc/grpc doc/keepalive.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gantrymq_grpc.transport import frames
from gantrymq_grpc.transport.frames import ConnectionFault, ErrorCode, Frame
from gantrymq_grpc.transport.limits import Allowance

if TYPE_CHECKING:
    from gantrymq_grpc.transport.connection import Connection

_MOST_MEASURED: Final = 1000  # a response of 16 MiB
_CALL_COST: Final = 64  # a change of the window of a call takes as long as this number of bytes of requests


class ControlFrames:
    """The frames of one connection that belong to no call.

    Attributes:
        settings_seen: the client has sent its first settings.
    """

    def __init__(self, connection: Connection) -> None:
        """Start with full allowances."""
        self.settings_seen = False
        self._connection = connection
        self._resets = Allowance(1000, 200.0)  # by the client, and caused by it
        self._pings = Allowance(3, 0.1)  # gRPC allows one every 10 s, and is lenient with two
        self._measured = 0  # DATA frames, each of which allows one more ping
        self._changes = Allowance(50, 1.0)  # of settings
        self._empty = Allowance(500, 100.0)  # frames without content

    def receive(self, frame: Frame) -> None:
        """Handle a frame.

        Raises:
            ConnectionFault: it is not allowed, or there are too many.
        """
        handle = _HANDLERS.get(frame.kind)
        if handle is not None:
            handle(self, frame)
        elif frame.kind == frames.PUSH_PROMISE:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "PUSH_PROMISE by a client")
        else:  # the client closes the connection itself after GOAWAY
            self.allow_empty(_IGNORED.get(frame.kind, "frames of unknown kinds"))

    def allow_reset(self) -> None:
        """Count a stream that was reset or refused. Raises ConnectionFault if there are too many."""
        self._allow(self._resets, "streams that were reset or refused")

    def allow_empty(self, what: str) -> None:
        """Count a frame without content. Raises ConnectionFault if there are too many."""
        self._allow(self._empty, what)

    def _settings(self, frame: Frame) -> None:
        if frame.stream_id:
            raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, "SETTINGS on a stream")
        if frame.flags & frames.ACK:
            self.allow_empty("acknowledgements of settings")
            return
        self.settings_seen = True
        self._allow(self._changes, "SETTINGS frames")
        output = self._connection.output
        output.write(frames.frame(frames.SETTINGS, frames.ACK, 0))  # before data that the settings allow
        window = output.initial_window
        for key, value in frames.parse_settings(frame.payload):
            if key == frames.SETTING_INITIAL_WINDOW_SIZE:
                window = value
                if window > frames.MAX_WINDOW:
                    break
            elif key == frames.SETTING_MAX_FRAME_SIZE and not frames.MAX_FRAME_BYTES <= value < 1 << 24:
                raise ConnectionFault(ErrorCode.PROTOCOL_ERROR, f"a maximum frame size of {value}")

        self._change_initial_window(window)

    def _change_initial_window(self, window: int) -> None:
        """Change the windows of all calls, once for a frame: it may set the window a thousand times."""
        connection, output = self._connection, self._connection.output
        change, output.initial_window = window - output.initial_window, window
        fits = window <= frames.MAX_WINDOW
        if change and fits:
            calls = connection.calls
            connection.turn_bytes += len(calls) * _CALL_COST
            for call in calls:
                fits = output.stream_window_grew(call, change) and fits
        if not fits:
            raise ConnectionFault(ErrorCode.FLOW_CONTROL_ERROR, f"an initial window of {window}")

    def _ping(self, frame: Frame) -> None:
        if len(frame.payload) != 8 or frame.stream_id:
            raise ConnectionFault(ErrorCode.FRAME_SIZE_ERROR, f"a PING of {len(frame.payload)} bytes")
        if frame.flags & frames.ACK:
            if not self._connection.confirmations.answered(frame.payload):
                self.allow_empty("answers to pings")
            return
        output = self._connection.output
        self._measured = max(self._measured, output.sent - _MOST_MEASURED)
        if self._measured < output.sent:  # clients ping to measure how fast responses arrive
            self._measured += 1
        elif not self._pings.take(self._connection.last_heard):
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, "too_many_pings")
        output.write(frames.frame(frames.PING, frames.ACK, 0, frame.payload))

    def _allow(self, allowance: Allowance, what: str) -> None:
        if not allowance.take(self._connection.last_heard):
            raise ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, f"too many {what}")


_IGNORED: Final = {frames.PRIORITY: "PRIORITY frames", frames.GOAWAY: "GOAWAY frames"}
_HANDLERS: Final = {frames.SETTINGS: ControlFrames._settings, frames.PING: ControlFrames._ping}
