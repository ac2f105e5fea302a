"""TLS without a socket: records in, plain bytes out, and the other way round. No I/O, clock or thread.

    handshake --both sides agree--> ready --close_notify--> ended
    any state --a record or certificate that does not hold--> failed

Everything that `receive`, `send` and `end` make for the peer waits in `take`, alerts of a failure included. At most
one record that is not whole is kept (16 KiB and its frame), and a handshake message of up to 100 KiB.

Source: RFC 8446, RFC 5246; apache/rocketmq remoting/.../netty/NettyRemotingServer.java (TlsModeHandler) for its place
in front of the frames.
"""

from __future__ import annotations

import contextlib
import ssl

__all__ = ["TlsStream", "tls_error_text"]

READ_BYTES = 64 * 1024  # one call of read never returns more than one record of 16 KiB


class TlsStream:
    """One side of one TLS connection.

    Attributes:
        ready: the handshake is over and held; what is sent before raises.
        ended: the peer has said that it sends nothing more.
        failure: why it cannot go on, in a few words; None while it can.
    """

    def __init__(self, context: ssl.SSLContext, *, server_side: bool) -> None:
        self.ready = False
        self.ended = False
        self.failure: str | None = None
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._object = context.wrap_bio(self._incoming, self._outgoing, server_side=server_side)

    def start(self) -> None:
        """Begin the handshake; a client's hello waits in `take` after it."""
        self._shake_hands()

    def receive(self, data: bytes) -> bytes:
        """Take bytes from the peer and return what they say, which may be nothing.

        What came whole before a damaged record is returned, and `failure` set.
        """
        if self.failure is not None or self.ended:
            return b""
        self._incoming.write(data)
        if not self.ready:
            self._shake_hands()
            if not self.ready:
                return b""
        return self._read()

    def send(self, data: bytes | bytearray | memoryview) -> None:
        """Encrypt *data*. `ready` must be true; after a failure it is dropped."""
        if self.failure is not None:
            return
        assert self.ready, "nothing can be sent before the handshake is over"
        view = memoryview(data)
        try:
            while len(view):
                view = view[self._object.write(view) :]
        except ssl.SSLError as error:
            self.failure = tls_error_text(error)

    def end(self) -> None:
        """Say that nothing more comes; nothing happens where there was no handshake."""
        if not self.ready or self.failure is not None:
            return
        with contextlib.suppress(ssl.SSLError):  # it wants the peer's answer, for which nobody waits
            self._object.unwrap()

    def take(self) -> bytes:
        """Return what has to be written to the peer, and forget it."""
        return self._outgoing.read()

    def _shake_hands(self) -> None:
        try:
            self._object.do_handshake()
        except ssl.SSLWantReadError:
            return
        except ssl.SSLError as error:
            self.failure = tls_error_text(error)
            return
        self.ready = True

    def _read(self) -> bytes:
        parts: list[bytes] = []
        try:
            while part := self._object.read(READ_BYTES):
                parts.append(part)
            self.ended = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self.ended = True
        except ssl.SSLError as error:
            self.failure = tls_error_text(error)
        return parts[0] if len(parts) == 1 else b"".join(parts)


def tls_error_text(error: ssl.SSLError) -> str:
    """What went wrong, without OpenSSL's file names and numbers."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the peer's certificate does not hold: {error.verify_message}"
    if error.reason:
        return error.reason.replace("_", " ").lower()
    return str(error)
