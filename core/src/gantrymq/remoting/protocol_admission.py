"""Admission of connections to a listener with a protocol of a plugin, such as gRPC.

first bytes               response before the connection is closed
those of the protocol     served; with TLS only, if tls.server.mode or the listener's +tls requires it
TLS hello                 TLS with the certificate of tls.server.*, then the bytes inside are checked
remoting request          response with a remark that names the right port
HTTP/1                    response 400
HTTP/2                    GOAWAY, if the protocol is another one, or without the TLS that is required
other bytes               none
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gantrymq.errors import RemoteProtocolError
from gantrymq.remoting.admission import Admission
from gantrymq.remoting.codes import ResponseCode
from gantrymq.remoting.command import decode, encode, response_to
from gantrymq.remoting.frame import PREFIX, Frame
from gantrymq.remoting.preamble import ProtocolKind

_READ_BYTES: Final = 16 * 1024  # of a request that gets a response; clients send small ones first


class ProtocolAdmission(Admission):
    """Rules for connections to one listener of *protocol*.

    Args:
        rules: of TLS and proxies.
        listener: its name.
        protocol: its name in the setting ``listeners``.
        first: bytes with which clients of the protocol begin.
        remoting: returns the part of a sentence that says where clients of the remoting protocol connect.
    """

    def __init__(
        self, rules: Admission, listener: str, protocol: str, first: tuple[bytes, ...], remoting: Callable[[], str]
    ) -> None:
        super().__init__(rules.mode, rules.context, rules.http, rules.proxies, rules.required_by)
        self._place = f"this port belongs to listener {listener}, which speaks {protocol}"
        self._protocol = protocol
        self._first = first
        self._remoting = remoting

    def first_bytes(self, *, inside_tls: bool) -> tuple[bytes, ...]:
        """Return the first bytes of clients to admit."""
        return () if self.mode == "enforcing" and not inside_tls else self._first

    def answer(self, protocol: ProtocolKind, data: bytes, *, inside_tls: bool = False) -> bytes | None:
        """Return the response to a peer that is refused; see `Admission.answer`."""
        if protocol is ProtocolKind.FRAMES:
            return remoting_response(data, self.refusal(protocol, inside_tls=inside_tls))
        return super().answer(protocol, data, inside_tls=inside_tls)

    def refusal(self, protocol: ProtocolKind, *, inside_tls: bool) -> str:
        """Return why a connection is refused; empty if it is admitted."""
        if protocol is ProtocolKind.OF_LISTENER:
            return ""
        if protocol is ProtocolKind.FRAMES:
            return f"the peer speaks the remoting protocol, and {self._place}; {self._remoting()}"
        if protocol is ProtocolKind.HTTP:
            return f"the peer speaks HTTP/1, and {self._place}"
        if self.mode == "enforcing" and not inside_tls:
            return self._without_tls()
        peer = "speaks HTTP/2" if protocol is ProtocolKind.HTTP2 else "sends other bytes than its clients"
        return f"the peer {peer}, and {self._place}"

    def _speaks(self) -> str:
        return f"the protocol {self._protocol}, not HTTP/1"


def remoting_response(data: bytes, text: str) -> bytes | None:
    """Return a response with the remark *text* to the remoting request at the start of *data*.

    Return None before the request is complete, and nothing if it expects no response or is not readable.
    """
    if len(data) < PREFIX.size:
        return None
    length, mark = PREFIX.unpack_from(data)
    header_end, end = PREFIX.size + (mark & 0xFFFFFF), length + 4
    if header_end > end:
        return b""
    if len(data) < min(end, _READ_BYTES):
        return None
    try:
        asked = decode(Frame(mark >> 24, data[PREFIX.size : header_end], None))
    except RemoteProtocolError:
        return b""
    if asked.is_response or asked.is_oneway:
        return b""
    return encode(response_to(asked, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, text))
