"""The subset of HTTP/1.1 that a scraper needs: parses a request head, encodes a response. No socket, no clock.

Every response closes its connection. Request bodies are not read, as they have no meaning for GET and HEAD.

Source: RFC 9112 (2.2, 3), RFC 9110 (9.1, 9.3.2, 10.2.1, 15.5).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

MAX_HEAD_BYTES = 8192

TEXT = "text/plain; charset=utf-8"
JSON = "application/json"

_REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


class HttpResponse(NamedTuple):
    """A response."""

    status: int
    body: bytes
    content_type: str = TEXT
    more: Sequence[bytes] = ()  # further parts of a long body


def refuse(status: int, sentence: str) -> HttpResponse:
    """Return an error response with *sentence* as its body."""
    return HttpResponse(status, sentence.encode() + b"\n")


class RequestHead:
    """Parser of one request head.

    Attributes:
        head_only: the method is HEAD: the response is sent without its body.
    """

    def __init__(self) -> None:
        self._gathered = bytearray()
        self.head_only = False

    def feed(self, data: bytes) -> str | HttpResponse | None:
        """Add received bytes.

        Returns:
            The path without its query once the head is complete; a response if the request is refused; None if more
            bytes are needed.
        """
        self._gathered += data
        end = self._gathered.find(b"\r\n\r\n")
        if end > MAX_HEAD_BYTES or (end < 0 and len(self._gathered) > MAX_HEAD_BYTES):
            return refuse(431, f"a request's head may have {MAX_HEAD_BYTES} bytes here")
        if end < 0:
            return None
        words = bytes(self._gathered[:end]).split(b"\r\n", 1)[0].split(b" ")
        if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
            return refuse(400, "this is not an HTTP/1.1 request")
        if words[0] not in (b"GET", b"HEAD"):
            return refuse(405, "only GET and HEAD are served here")
        self.head_only = words[0] == b"HEAD"
        return words[1].split(b"?", 1)[0].decode("latin-1")


def encode_response(response: HttpResponse, *, head_only: bool = False) -> bytes:
    """Encode head and body of a response, without `more`; without the body with *head_only*."""
    lines = [
        f"HTTP/1.1 {response.status} {_REASONS[response.status]}",
        f"Content-Type: {response.content_type}",
        f"Content-Length: {len(response.body) + sum(map(len, response.more))}",
        "Connection: close",
        "Cache-Control: no-store",
    ]
    if response.status == 405:
        lines.append("Allow: GET, HEAD")
    head = "\r\n".join([*lines, "", ""]).encode("latin-1")
    return head if head_only else head + response.body
