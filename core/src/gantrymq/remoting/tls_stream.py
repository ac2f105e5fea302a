"""TLS over byte buffers: decrypts received records, encrypts sent data. No I/O.

    handshake --both sides agree--> ready --close_notify--> ended
    any state --invalid record or certificate--> failed

`take` returns the bytes for the peer that `receive`, `send` and `end` produce, alerts of a failure included. At most
one incomplete record (16 KiB and its framing) is kept, and a handshake message of up to 100 KiB.

Source: RFC 8446, RFC 5246; apache/rocketmq remoting/.../netty/NettyRemotingServer.java (TlsModeHandler).
"""

from __future__ import annotations

import contextlib
import re
import ssl
from collections.abc import Sequence
from typing import Any, Final

__all__ = ["TlsStream", "tls_error_text"]

_SHORT_NAMES: Final = {  # RFC 4514
    "commonName": "CN",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "countryName": "C",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
_ESCAPED: Final = re.compile(r'^[ #]|[,+"\\<>;=\0]| \Z')
READ_BYTES = 64 * 1024  # read returns at most one record of 16 KiB per call


class TlsStream:
    """One side of one TLS connection.

    Attributes:
        ready: the handshake succeeded; sending before that raises.
        ended: the peer has announced the end of its data.
        failure: short reason of a failure, or None.
    """

    def __init__(self, context: ssl.SSLContext, *, server_side: bool) -> None:
        self.ready = False
        self.ended = False
        self.failure: str | None = None
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._object = context.wrap_bio(self._incoming, self._outgoing, server_side=server_side)

    def start(self) -> None:
        """Start the handshake; a client's hello is then available from `take`."""
        self._shake_hands()

    def receive(self, data: bytes) -> bytes:
        """Add bytes from the peer and return the decrypted data, which may be empty.

        If a record is invalid, the data before it is returned and `failure` is set.
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
        """Encrypt *data*. `ready` must be true. After a failure the data is discarded."""
        if self.failure is not None:
            return
        assert self.ready, "nothing can be sent before the handshake is over"
        view = memoryview(data)
        try:
            while len(view):
                view = view[self._object.write(view) :]
        except ssl.SSLError as error:
            self.failure = tls_error_text(error)

    def peer_subject(self) -> str:
        """Return the subject of the peer's verified certificate, such as ``CN=orders,O=Shop``; empty without one.

        The format is that of RFC 4514, so that different subjects have different texts.
        """
        certificate: Any = self._object.getpeercert() or {}
        subject: Sequence[Sequence[tuple[str, str]]] = certificate.get("subject", ())
        return ",".join("+".join(_attribute(*pair) for pair in part) for part in reversed(subject))

    def end(self) -> None:
        """Announce the end of the data. Does nothing before the handshake."""
        if not self.ready or self.failure is not None:
            return
        with contextlib.suppress(ssl.SSLError):  # raised as the peer's close_notify is not awaited
            self._object.unwrap()

    def take(self) -> bytes:
        """Return and remove the bytes to be written to the peer."""
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


def _attribute(name: str, value: str) -> str:
    return f"{_SHORT_NAMES.get(name, name)}={_ESCAPED.sub(_escape, value)}"


def _escape(found: re.Match[str]) -> str:
    return r"\00" if found[0] == "\0" else f"\\{found[0]}"


def tls_error_text(error: ssl.SSLError) -> str:
    """Return the reason without OpenSSL's file names and line numbers."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the peer's certificate does not hold: {error.verify_message}"
    if error.reason:
        return error.reason.replace("_", " ").lower()
    return str(error)
