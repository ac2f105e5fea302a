r"""Reader and writer of the properties format of ``broker.conf`` and ``namesrv.conf``, compatible with Java.

    key=value    key:value    key value    key          a line; blanks around the separator are dropped
    # comment    ! comment                              at the start of a line
    key=first \                                         an odd number of backslashes at the end joins the next
        second                                          line, without its leading blanks
    \t \n \r \f  \u0041  \x                             escapes; before any other character the backslash vanishes

Trailing blanks are part of the value, as in Java; settings are trimmed when they are parsed. The encoding is UTF-8; a
file that is not valid UTF-8 is read as ISO 8859-1, which Java assumes for every file. Unlike Java, UTF-16 and lines
with a key that cannot be the name of a setting are rejected.

Source: java.util.Properties (load, store); apache/rocketmq broker/.../BrokerStartup.java.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from gantrymq.errors import ConfigError
from gantrymq.world import FileReader

EXAMPLE = "brokerName=broker-a"
_BLANKS = " \t\f"
_LINE_END = re.compile(r"\r\n|\n|\r")
_KEY = re.compile(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*([=:]?)[ \t\f]*", re.DOTALL)
_SETTING = re.compile(r"[A-Za-z_][\w.-]*\Z")
_ESCAPE = re.compile(r"\\(u.{0,4}|.)?", re.DOTALL)
_NAMED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_WRITTEN = {"\\": "\\\\"} | {char: f"\\{name}" for name, char in _NAMED.items()}


class Line(NamedTuple):
    """An entry of a settings file."""

    key: str
    value: str
    number: int  # line number of its first line, from 1
    bare: bool = False  # there is neither = nor : between key and value


def read_settings_file(files: FileReader, path: Path) -> list[Line]:
    """Return the entries of the file at *path* in order; the later of two equal keys takes precedence.

    Raises:
        ConfigError: the file cannot be read, is UTF-16, or has an invalid line or a malformed ``\\u`` escape.
    """
    try:
        raw = files.read(path)
    except OSError as problem:
        reason = problem.strerror or type(problem).__name__
        raise ConfigError(f"cannot read the settings file {path}: {reason}") from problem
    marked = raw.startswith((b"\xff\xfe", b"\xfe\xff"))
    if marked or b"\0" in raw:
        what = "UTF-16" if marked or raw.count(0) > len(raw) // 3 else "not text"
        raise ConfigError(f"the settings file {path} is {what}; save it as UTF-8, with lines such as {EXAMPLE}")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = raw.decode("iso-8859-1")
    lines = list(parse_properties(text, str(path)))
    for line in lines:
        if not _SETTING.match(line.key):
            raise not_a_setting(f"{path} line {line.number}", line.key)
    return lines


def not_a_setting(where: str, key: str) -> ConfigError:
    """Return the error for a line that starts with *key*."""
    return ConfigError(f"{where}: {key[:40]!r} is not a setting; a settings file has lines such as {EXAMPLE}")


def parse_properties(text: str, name: str) -> Iterator[Line]:
    """Parse properties from *text*; *name* is the name of the file in errors.

    Raises:
        ConfigError: a malformed ``\\u`` escape.
    """
    for number, line in _logical_lines(text):
        found = _KEY.match(line)
        assert found is not None  # every part of the pattern may be empty
        where = f"{name} line {number}"
        yield Line(_unescape(found[1], where), _unescape(line[found.end() :], where), number, not found[2])


def properties_text(values: Mapping[str, object]) -> str:
    """Return a ``key=value`` line for each entry, escaped so that it is read back unchanged.

    Non-ASCII characters are escaped too, so that the text is the same in ISO 8859-1.
    """
    return "".join(f"{_escaped(key, ' =:#!')}={_escaped(_plain(value), '')}\n" for key, value in values.items())


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _escaped(text: str, also: str) -> str:
    """Escape *text*; *also*: characters to escape besides leading blanks."""
    lead = len(text) - len(text.lstrip(_BLANKS))
    return "".join(_escape(char, char in also or place < lead) for place, char in enumerate(text))


def _escape(char: str, special: bool) -> str:
    if char in _WRITTEN:
        return _WRITTEN[char]
    if special:
        return f"\\{char}"
    if " " <= char <= "~":
        return char
    units = char.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Iterate over logical lines: continuations are joined, comments and blank lines are skipped."""
    joined, first = "", 0
    for number, natural in enumerate(_LINE_END.split(text), 1):
        line = natural.lstrip(_BLANKS)
        if not first and (not line or line[0] in "#!"):
            continue
        first = first or number
        if _continues(line):
            joined += line[:-1]
            continue
        if joined or line:
            yield first, joined + line
        joined, first = "", 0
    if joined:
        yield first, joined


def _continues(line: str) -> bool:
    """Return whether the line ends in an odd number of backslashes."""
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _unescape(text: str, where: str) -> str:
    if "\\" not in text:
        return text

    def replace(found: re.Match[str]) -> str:
        escape = found[1] or ""
        if not escape.startswith("u"):
            return _NAMED.get(escape, escape)
        try:
            if len(escape) == 5:
                return chr(int(escape[1:], 16))
        except ValueError:
            pass
        raise ConfigError(f"{where}: \\{escape} is not an escape of the form \\uXXXX with four hexadecimal digits")

    return _ESCAPE.sub(replace, text).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
