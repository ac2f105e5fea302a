r"""The properties format of ``broker.conf`` and ``namesrv.conf``, read and written as Java does it.

    key=value    key:value    key value    key          a line; blanks around the separator are dropped
    # comment    ! comment                              at the start of a line
    key=first \                                         an odd number of backslashes at the end joins the next
        second                                          line, whose leading blanks are dropped
    \t \n \r \f  \u0041  \x                             escapes; before any other character the backslash vanishes

Blanks at the end of a value stay in it, as in Java; settings are trimmed when they are parsed. Bytes are UTF-8; a file
that is not is taken as ISO 8859-1, which is what Java assumes for every file. UTF-16 is refused, and so is a line whose
key cannot name a setting: to Java every text is properties.

Source: java.util.Properties (load, store); apache/rocketmq broker/.../BrokerStartup.java.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from gantrymq.errors import ConfigError
from gantrymq.world import Files

EXAMPLE = "brokerName=broker-a"
_BLANKS = " \t\f"
_LINE_END = re.compile(r"\r\n|\n|\r")
_KEY = re.compile(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*([=:]?)[ \t\f]*", re.DOTALL)
_SETTING = re.compile(r"[A-Za-z_][\w.-]*\Z")
_ESCAPE = re.compile(r"\\(u.{0,4}|.)?", re.DOTALL)
_NAMED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_WRITTEN = {"\\": "\\\\"} | {char: f"\\{name}" for name, char in _NAMED.items()}


class Line(NamedTuple):
    """One entry of a file."""

    key: str
    value: str
    number: int  # of its first line in the file, from 1
    bare: bool = False  # neither = nor : stands between key and value


def read_settings_file(files: Files, path: Path) -> list[Line]:
    """Every entry of the file at *path*, in its order; of two equal keys the later one counts.

    Raises:
        ConfigError: the file cannot be read, is UTF-16, or has a line that is no setting or a malformed ``\\u`` escape.
    """
    try:
        raw = files.read(path)
    except OSError as problem:
        reason = problem.strerror or type(problem).__name__
        raise ConfigError(f"cannot read the settings file {path}: {reason}") from problem
    marked = raw.startswith((b"\xff\xfe", b"\xfe\xff"))
    if marked or b"\0" in raw:
        what = "UTF-16" if marked or raw.count(0) > len(raw) // 3 else "no text"
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
    """The error about a line whose first word is *key*."""
    return ConfigError(f"{where}: {key[:40]!r} is no setting; a settings file has lines such as {EXAMPLE}")


def parse_properties(text: str, name: str) -> Iterator[Line]:
    """Read properties from *text*; *name* stands for the file in errors.

    Raises:
        ConfigError: a malformed ``\\u`` escape.
    """
    for number, line in _logical_lines(text):
        found = _KEY.match(line)
        assert found is not None  # every part of the pattern may be empty
        where = f"{name} line {number}"
        yield Line(_unescape(found[1], where), _unescape(line[found.end() :], where), number, not found[2])


def properties_text(values: Mapping[str, object]) -> str:
    """A ``key=value`` line for each, which reads as what it was: nothing in a value can be taken for another line.

    What is not ASCII is escaped too, so that it is the same to those who read ISO 8859-1.
    """
    return "".join(f"{_escaped(key, ' =:#!')}={_escaped(_plain(value), '')}\n" for key, value in values.items())


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _escaped(text: str, also: str) -> str:
    """*also*: characters that mean something in this place; leading blanks always do."""
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
    """Lines with continuations joined, comments and blank ones left out."""
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
    """Whether the line ends in an odd number of backslashes."""
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
