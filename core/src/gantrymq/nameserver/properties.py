r"""Text in the form of java.util.Properties, read into keys and values.

One entry a line; ``#`` or ``!`` starts a comment; the key ends at ``=``, ``:`` or a blank; a ``\`` at the end goes on
in the next line; ``\t \n \r \f`` and ``\uXXXX`` are escapes, any other character after ``\`` stands for itself.

Source: java.util.Properties.load; RocketMQ reads it with common/.../MixAll.java (string2Properties).
"""

from __future__ import annotations

import re

from gantrymq.errors import RequestError

_LINE_END = re.compile(r"\r\n|\r|\n")
_KEY = re.compile(r"(?:\\.|[^\\=: \t\f])*", re.DOTALL)
_GAP = re.compile(r"[ \t\f]*(?:[=:][ \t\f]*)?")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|u|.)", re.DOTALL)
_SHORT = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def read_properties(text: str) -> dict[str, str]:
    r"""Return the entries of *text*; of a key that comes twice the last value counts.

    Raises:
        RequestError: a ``\u`` without four hexadecimal digits.
    """
    entries: dict[str, str] = {}
    for line in _logical_lines(text):
        key = _KEY.match(line)
        assert key is not None  # the pattern matches nothing too
        gap = _GAP.match(line, key.end())
        assert gap is not None
        entries[_unescape(key.group())] = _unescape(line[gap.end() :])
    return entries


def _logical_lines(text: str) -> list[str]:
    lines: list[str] = []
    begun: str | None = None  # a line that goes on
    for natural in _LINE_END.split(text):
        line = natural.lstrip(" \t\f")
        if begun is None and (not line or line[0] in "#!"):
            continue
        line = (begun or "") + line
        slashes = len(line) - len(line.rstrip("\\"))
        if slashes % 2:
            begun = line[:-1]
        else:
            lines.append(line)
            begun = None
    return lines if begun is None else [*lines, begun]


def _unescape(text: str) -> str:
    return _ESCAPE.sub(_character, text) if "\\" in text else text


def _character(found: re.Match[str]) -> str:
    escape = found.group(1)
    if escape == "u":
        raise RequestError(r"the properties text has a \u without four hexadecimal digits")
    if len(escape) > 1:
        return chr(int(escape[1:], 16))
    return _SHORT.get(escape, escape)
