"""Forms with files: ``multipart/form-data``, as browsers send it (RFC 7578), whole in memory.

    --boundary CRLF  headers CRLF  CRLF  value  CRLF --boundary ... CRLF --boundary--

Values are texts in UTF-8, also those of files.
"""

from __future__ import annotations

from email.message import Message
from email.parser import BytesHeaderParser
from typing import Final

CONTENT_TYPE: Final = "multipart/form-data"
_MOST_PARTS: Final = 200
_MOST_BOUNDARY: Final = 70  # characters; RFC 2046, 5.1.1
_MOST_HEAD: Final = 4096  # bytes


def read_multipart(content_type: str, body: bytes) -> dict[str, str]:
    """Return the values of a form by name; of a name that occurs twice, the last one.

    Args:
        content_type: the header, with the boundary.
        body: of the request.

    Raises:
        ValueError: the form is malformed or cut off, has too many parts, or a value is not UTF-8.
    """
    header = Message()
    header["content-type"] = content_type
    boundary = header.get_boundary("")
    if not 0 < len(boundary) <= _MOST_BOUNDARY or not boundary.isascii():
        raise ValueError("the content type has no boundary")
    first, *parts = (b"\r\n" + body).split(b"\r\n--" + boundary.encode(), _MOST_PARTS + 1)
    if first.strip() or not parts or not parts[-1].startswith(b"--") or len(parts) > _MOST_PARTS:
        raise ValueError("it is not complete, or has too many fields")
    return dict(_field(part) for part in parts[:-1])


def _field(part: bytes) -> tuple[str, str]:
    if not part.startswith(b"\r\n"):
        raise ValueError("a field does not begin with a line of its own")
    head, blank, value = part[2:].partition(b"\r\n\r\n")
    if not blank or len(head) > _MOST_HEAD:
        raise ValueError("a field has no value, or its head is too long")
    name = BytesHeaderParser().parsebytes(head).get_param("name", "", "content-disposition")
    if not isinstance(name, str) or not name:
        raise ValueError("a field has no name")
    try:
        return name, value.decode()
    except UnicodeDecodeError:
        raise ValueError(f"{name[:40]} is not text in UTF-8") from None
