"""Forms of a body on a page: text of a charset, indented JSON, or hexadecimal digits. Bodies are data, never markup.

Bytes that are not text of the charset stay visible: in *text* they are characters of `UNDECODED`, which pages show as
``\\xNN``.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from typing import Final

import attrs

from gantrymq_console.values import Long

SHOWN_BYTES: Final = 64 * 1024  # a part
WHOLE_BYTES: Final = 1024 * 1024  # a part on request; more by download only
FORMS: Final = ("auto", "decoded", "text", "json", "hex")  # decoded: by a decoder of the topic
CHARSETS: Final = {"utf-8": "utf-8", "gbk": "gb18030", "shift_jis": "cp932", "latin-1": "latin-1"}
"""Codecs by the charset's name on pages: the supersets that browsers use, too."""
UNDECODED: Final = 0xDC00  # + a byte: the character for a byte that is not text

_MOST_DEPTH: Final = 200
_MOST_BEGIN: Final = 3  # bytes of a character that begins before the part
_HEX_WIDTH: Final = 16
_TOKEN: Final = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"|[\[\]{},:]|[^\s\[\]{},:"]+|\s+')
_BYTE: Final = re.compile(f"[{chr(UNDECODED)}-{chr(UNDECODED + 0xFF)}]")
_CP932_GAPS: Final = {0xF8F0 + at: UNDECODED + byte for at, byte in enumerate((0xA0, 0xFD, 0xFE, 0xFF))}
"""Private characters that Python's codec gives for bytes without a meaning."""
_KEEP: Final = "gantrymq_console.keep"


@attrs.frozen
class Body:
    """The part of a body that is shown."""

    form: str  # decoded, text, json or hex
    text: str
    size: Long  # bytes of the body, or of its beginning if *is_shortened*
    shown: Long  # bytes of *text*'s source
    is_shortened: bool = False  # whether the rest of the body was not decompressed
    problem: str = ""  # why it differs from the sent body
    start: Long = Long(0)  # noqa: RUF009  # of the shown bytes
    charset: str = "utf-8"
    undecoded: int = 0  # bytes that are not text of the charset; ``\\xNN`` in the text
    _marked: str | None = attrs.field(default=None, repr=False)

    @property
    def marked(self) -> str:
        """The text with characters of `UNDECODED`."""
        return self.text if self._marked is None else self._marked

    @property
    def end(self) -> int:
        """Byte after the shown ones."""
        return self.start + self.shown


def body_of(
    data: bytes,
    problem: str,
    form: str,
    most_bytes: int = SHOWN_BYTES,
    *,
    is_shortened: bool = False,
    charset: str = "",
    start: int = 0,
    size: int | None = None,
) -> Body:
    """Return *data* in a form of `FORMS`; "auto" selects JSON, text or hexadecimal digits, the first that fits.

    JSON that is malformed, nested too deep, or a part of a body is shown as text. A character that the end of the part
    cuts in two belongs to the next part.

    Args:
        data: the body, or the part from *start* on.
        problem: why it differs from the sent body.
        form: wanted.
        most_bytes: length of the part.
        is_shortened: the body is longer than *size*, which is not known.
        charset: a name of `CHARSETS`; empty for UTF-8, but hexadecimal digits if it does not fit.
        start: the byte of the body with which *data* begins.
        size: of the body, if *data* is a part.
    """
    part = data[:most_bytes]
    whole = max(start + len(data), size or 0)
    is_cut = is_shortened or start + len(part) < whole
    problem = "" if is_shortened else problem
    marked, used = ("", 0) if form == "hex" else _decoded(part, charset or "utf-8", is_cut)
    undecoded = len(_BYTE.findall(marked))
    is_text = form != "hex" and (used > 0 or not part)
    if form in ("auto", "json") and not charset and (_not_text(marked, start) or "\0" in marked):
        is_text = False
    kind = "text" if is_text else "hex"
    if kind == "hex":
        text, used, undecoded = hex_dump(part, start), len(part), 0
    elif form != "text" and not is_cut and not start and (pretty := indented(marked)) is not None:
        kind, text = "json", pretty
    else:
        text = marked
    plain = text if not undecoded else _BYTE.sub(lambda found: f"\\x{ord(found[0]) - UNDECODED:02x}", text)
    return Body(
        kind,
        plain,
        Long(whole),
        Long(used),
        is_shortened,
        problem,
        Long(start),
        charset or "utf-8",
        undecoded,
        text if undecoded else None,
    )


def decoded_body(text: str, size: int) -> Body:
    """Return what a decoder made of a body of *size* bytes; JSON is indented."""
    pretty = indented(text)
    return Body("decoded", text if pretty is None else pretty, Long(size), Long(size))


def _keep(problem: UnicodeError) -> tuple[str, int]:
    """Return the characters of `UNDECODED` for bytes that are not text: a handler of errors for codecs."""
    if not isinstance(problem, UnicodeDecodeError):
        raise problem
    kept = problem.object[problem.start : problem.end]
    return "".join(chr(UNDECODED + each) for each in kept), problem.end


codecs.register_error(_KEEP, _keep)


def _decoded(data: bytes, charset: str, is_cut: bool) -> tuple[str, int]:
    """Return the text, and how many bytes it has: all, or up to a character that the end cuts in two."""
    decoder = codecs.getincrementaldecoder(CHARSETS[charset])(_KEEP)
    text = decoder.decode(data, final=not is_cut)
    return _without_private(text, charset), len(data) - len(decoder.getstate()[0])


def decode(data: bytes, charset: str) -> str:
    """Return text of any bytes, with `UNDECODED` characters."""
    return _without_private(data.decode(CHARSETS[charset], _KEEP), charset)


def _without_private(text: str, charset: str) -> str:
    return text.translate(_CP932_GAPS) if charset == "shift_jis" else text


def _not_text(marked: str, start: int) -> bool:
    """Return whether bytes are undecoded, except the rest of a character with which a part begins."""
    return _BYTE.search(marked, _MOST_BEGIN if start else 0) is not None


def tokens(text: str) -> Iterator[str]:
    """Yield tokens of JSON without white space, and an empty one at a place that has none."""
    end = 0
    for token in _TOKEN.finditer(text):
        if token.start() != end:
            break
        end = token.end()
        if not token[0].isspace():
            yield token[0]
    if end != len(text):
        yield ""


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
    for word in tokens(stripped):
        if not word or (lines and not closing and not line):  # text after the container
            return None
        if word in "{[":
            closing.append("}" if word == "{" else "]")
            if len(closing) > _MOST_DEPTH:
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
    return "\n".join(lines) if not closing and not line else None


def hex_dump(data: bytes, start: int = 0) -> str:
    """Return *data* as lines of 16 bytes: offset from *start* on, hexadecimal digits, printable ASCII characters."""
    lines = []
    for at in range(0, len(data), _HEX_WIDTH):
        row = data[at : at + _HEX_WIDTH]
        signs = "".join(chr(each) if 32 <= each < 127 else "." for each in row)
        lines.append(f"{start + at:08x}  {row.hex(' '):<{_HEX_WIDTH * 3 - 1}}  {signs}")
    return "\n".join(lines)
