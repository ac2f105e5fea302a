"""Bodies of messages as text, indented JSON or hexadecimal digits, up to a limit. Bodies are data, never markup."""

from __future__ import annotations

import re
from typing import Final

import attrs

from gantrymq_console.web.values import Long

__all__ = ["FORMS", "SHOWN_BYTES", "WHOLE_BYTES", "Body", "body_of", "hex_dump", "indented"]

SHOWN_BYTES: Final = 64 * 1024
WHOLE_BYTES: Final = 1024 * 1024  # on request; more by download only
MOST_DEPTH: Final = 200
FORMS: Final = ("auto", "text", "json", "hex")
_HEX_WIDTH: Final = 16
_TOKEN: Final = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"|[\[\]{},:]|[^\s\[\]{},:"]+|\s+')


@attrs.frozen
class Body:
    """The part of a body that is shown."""

    form: str  # text, json or hex
    text: str
    size: Long  # bytes of the body, or of its beginning if *is_shortened*
    shown: Long  # bytes of *text*'s source
    is_shortened: bool = False  # whether the rest of the body was not decompressed
    problem: str = ""  # why it differs from the sent body


def body_of(data: bytes, problem: str, form: str, most_bytes: int = SHOWN_BYTES, *, is_shortened: bool = False) -> Body:
    """Return *data* in a form of `FORMS`; "auto" selects JSON, text or hexadecimal digits, the first that fits.

    A form that does not fit is replaced: JSON that is malformed, nested too deep, or cut off at the limit by text, text
    that is not UTF-8 by hexadecimal digits. With *is_shortened*, *data* is the beginning of a body.
    """
    part = data[:most_bytes]
    size, shown = Long(len(data)), Long(len(part))
    is_cut = is_shortened or len(part) < len(data)
    problem = "" if is_shortened else problem
    text = None if form == "hex" else _decoded(part, is_cut)
    if text is None:
        return Body("hex", hex_dump(part), size, shown, is_shortened, problem)
    if form in ("auto", "json") and not is_cut:
        pretty = indented(text)
        if pretty is not None:
            return Body("json", pretty, size, shown, is_shortened, problem)
    return Body("text", text, size, shown, is_shortened, problem)


def _decoded(data: bytes, is_cut: bool) -> str | None:
    """Return UTF-8 text, without a character that the limit cut in two; None if it is not text."""
    for dropped in range(4 if is_cut else 1):
        try:
            text = data[: len(data) - dropped].decode()
        except UnicodeDecodeError:
            continue
        return None if "\0" in text else text
    return None


def indented(text: str) -> str | None:
    """Return JSON with one member or element on a line, every token unchanged; None if it is not a JSON container.

    Numbers are not parsed, so 64-bit integers keep their digits. Tokens are checked for their order only as far as the
    indentation needs it.
    """
    stripped = text.strip()
    if stripped[:1] not in ("{", "["):
        return None
    lines: list[str] = []
    line: list[str] = []
    closing: list[str] = []
    end = 0
    for token in _TOKEN.finditer(stripped):
        if token.start() != end:
            return None
        end, word = token.end(), token[0]
        if word.isspace():
            continue
        if lines and not closing and not line:  # text after the container
            return None
        if word in "{[":
            closing.append("}" if word == "{" else "]")
            if len(closing) > MOST_DEPTH:
                return None
            line.append(word)
            lines.append("".join(line))
            line = ["  " * len(closing)]
        elif word in "}]":
            if not closing or closing.pop() != word:
                return None
            if "".join(line).strip():
                lines.append("".join(line))
                line = ["  " * len(closing) + word]
            elif lines[-1].endswith(("{", "[")):  # an empty container stays on its line
                line = [lines.pop() + word]
            else:
                line = ["  " * len(closing) + word]
            if not closing:
                lines.append("".join(line))
                line = []
        elif word == ",":
            line.append(word)
            lines.append("".join(line))
            line = ["  " * len(closing)]
        else:
            line.append(": " if word == ":" else word)
    return "\n".join(lines) if end == len(stripped) and not closing and not line else None


def hex_dump(data: bytes) -> str:
    """Return *data* as lines of 16 bytes: offset, hexadecimal digits, printable ASCII characters."""
    lines = []
    for start in range(0, len(data), _HEX_WIDTH):
        row = data[start : start + _HEX_WIDTH]
        signs = "".join(chr(each) if 32 <= each < 127 else "." for each in row)
        lines.append(f"{start:08x}  {row.hex(' '):<{_HEX_WIDTH * 3 - 1}}  {signs}")
    return "\n".join(lines)
