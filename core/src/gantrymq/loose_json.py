"""The JSON dialect of fastjson 1.2, read leniently and written exactly.

What differs from strict JSON, and is read and written here:

    {0:"10.0.0.1:10911"}                                    integer keys without quotes    -> int keys
    {{"brokerName":"b","queueId":0,"topic":"T"}:20}         objects in key position        -> `ObjectKey` keys
    {'a':1}  {code:3}  [1,,2]  12L                          single quotes, bare names, spare commas (read only)
    {"$ref":"$.path[0]"}                                    the same Java object again     -> a copy of its target

A quoted key stays a string, also where it holds a number or an object's text: `int_keys` and `object_key` turn it into
what a table needs. `loads` tries strict JSON first, so ordinary text costs what orjson costs.

Sources: com.alibaba:fastjson 1.2.83 JSONLexerBase.java, SerializeWriter.java, IOUtils.java; RocketMQ's use of it in
remoting/.../protocol/RemotingSerializable.java.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any, Final

import orjson

from gantrymq.errors import FormatError

__all__ = ["MAX_DEPTH", "ObjectKey", "dumps", "dumps_standard", "int_keys", "loads", "object_key"]

MAX_DEPTH: Final = 128  # nested objects and lists in loose text; strict text may nest as deep as orjson allows (1024)
_MAX_COPIES: Final = 100_000  # values that `$ref` may add to one document
_SAFE_INTEGER: Final = (1 << 53) - 1  # beyond it the browser-compatible form quotes integers


class ObjectKey(Mapping[str, Any]):
    """An object in key position: a mapping that is hashable and never changes.

    Two keys are equal when their members are, in whatever order; `dumps` writes the members in the order given. Lists
    inside become tuples, objects inside become ObjectKeys.
    """

    __slots__ = ("_hash", "_members")

    def __init__(self, members: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> None:
        self._members = {name: _freeze(value) for name, value in dict(members).items()}
        self._hash = hash(frozenset(self._members.items()))

    def __getitem__(self, name: str) -> Any:
        return self._members[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectKey) and self._members == other._members

    def __repr__(self) -> str:
        return f"ObjectKey({self._members!r})"


def loads(data: bytes | bytearray | memoryview | str, *, raw_numbers: bool = False) -> Any:
    """Read one JSON value, strict or in fastjson's dialect.

    Args:
        data: UTF-8 bytes or text.
        raw_numbers: numbers come back as the text they were written with (signatures cover that text).
    Raises:
        FormatError: not UTF-8, not JSON of either kind, trailing text, nested deeper than `MAX_DEPTH`, or a `$ref` that
            leads nowhere or into itself; the message gives the position in characters.
    """
    try:
        value = _STRICT_RAW.decode(_text(data)) if raw_numbers else orjson.loads(data)
    except (ValueError, RecursionError):
        text = _text(data)
        value = None if raw_numbers else _read_integer_keys(text)
        if value is None:
            return _read_loose(text, raw_numbers)
    if _mentions_ref(data):
        return _Resolver(value).resolve(value, ())
    return value


def dumps(value: Any, *, sort: bool = False, keep_nulls: bool = False) -> bytes:
    """Write *value* as fastjson does by default: no blanks, UTF-8, null members left out.

    Integer keys stand without quotes and `ObjectKey` keys as objects, so the result need not be strict JSON.

    Args:
        value: dicts (keys str, int or ObjectKey), lists, tuples, sets, str, int, float, bool, None; enums by name are
            the caller's affair.
        sort: order string keys by name, at every level, as fastjson does with the fields of a class.
        keep_nulls: write members that are None.
    Raises:
        TypeError: a type that has no JSON form.
        FormatError: nested too deep.
    """
    return "".join(_Writer(_quote, sort=sort, keep_nulls=keep_nulls).parts(value)).encode()


def dumps_standard(value: Any) -> bytes:
    r"""Write *value* in the strict form that route bodies use: every key quoted, entries sorted, all ASCII.

    Source: RocketMQ namesrv/.../processor/ClientRequestProcessor.java (features BrowserCompatible, QuoteFieldNames,
    SkipTransientField, MapSortField): non-ASCII as ``\uXXXX``, ``/`` as ``\/``, integers beyond 2**53 in quotes.
    """
    return "".join(_Writer(_quote_browser, sort=True, standard=True).parts(value)).encode("ascii")


def int_keys(table: Mapping[Any, Any]) -> dict[int, Any]:
    """Return *table* with its keys as integers, whether they were written quoted or not.

    Raises:
        FormatError: a key is no integer.
    """
    try:
        return {int(key): value for key, value in table.items()}
    except (TypeError, ValueError) as error:
        raise FormatError(f"expected integer keys: {error}") from error


def object_key(key: Any) -> ObjectKey:
    """Return a table key as an `ObjectKey`: as it is, or read from a string that holds the object's JSON text.

    Raises:
        FormatError: the key is neither.
    """
    if isinstance(key, ObjectKey):
        return key
    value = loads(key) if isinstance(key, str) else key
    if not isinstance(value, dict):
        raise FormatError(f"expected an object as key, got {key!r}")
    return ObjectKey(value)


# --- reading --------------------------------------------------------------------------------------------------------

_SPACE = re.compile(r"[ \t\r\n\f\b]*")
_NUMBER = re.compile(r"-?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_NAME = re.compile(r"[^\W\d][\w$.-]*|\$[\w$.-]*")
_PLAIN = {'"': re.compile(r'[^"\\]*'), "'": re.compile(r"[^'\\]*")}
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "F": "\f"}
_WORDS: Final[dict[str, Any]] = {"true": True, "false": False, "null": None, "undefined": None, "NaN": None}
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def _refuse_constant(name: str) -> Any:
    raise ValueError(name)


_STRICT_RAW = json.JSONDecoder(parse_float=str, parse_int=str, parse_constant=_refuse_constant)


def _text(data: bytes | bytearray | memoryview | str) -> str:
    if isinstance(data, str):
        return data
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(f"JSON is not UTF-8 at byte {error.start}") from error


def _mentions_ref(data: bytes | bytearray | memoryview | str) -> bool:
    if isinstance(data, str):
        return "$ref" in data
    return b"$ref" in (data.tobytes() if isinstance(data, memoryview) else data)


# Bare integer keys are by far the commonest looseness (offset tables of any size), so text with no other is made strict
# and read by orjson: the keys are quoted behind a mark that the text does not contain, and turned back afterwards.
_MARK: Final = "\ue000"
_BARE_KEY = re.compile(r"([{,]\s*)(-?\d+)(?=\s*:)", re.ASCII)
_QUOTED_KEY: Final = rf'\1"{_MARK}\2"'


def _read_integer_keys(text: str) -> Any:
    """Read text that is strict but for bare integer keys; None when it is not that."""
    if "\\" in text or _MARK in text:
        return None
    parts = text.split('"')  # without escapes every second part lies between quotes
    parts[::2] = [_BARE_KEY.sub(_QUOTED_KEY, part) for part in parts[::2]]
    try:
        return _restore(orjson.loads('"'.join(parts)))
    except (ValueError, RecursionError):
        return None


def _restore(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            int(key[1:]) if key[:1] == _MARK else key: _restore(member) if isinstance(member, dict | list) else member
            for key, member in value.items()
        }
    return [_restore(item) for item in value] if isinstance(value, list) else value


def _read_loose(text: str, raw_numbers: bool) -> Any:
    reader = _Reader(text, raw_numbers)
    value = reader.value(reader.skip(0), 0)
    end = reader.skip(reader.end)
    if end != len(text):
        raise FormatError(f"JSON has trailing text at {end}: {text[end : end + 20]!r}")
    return _Resolver(value).resolve(value, ()) if "$ref" in text else value


class _Reader:
    """One pass over the text; every method starts at a position and leaves the next one in ``end``."""

    __slots__ = ("_raw", "_text", "end")

    def __init__(self, text: str, raw_numbers: bool) -> None:
        self._text = text
        self._raw = raw_numbers
        self.end = 0

    def fail(self, at: int, expected: str) -> FormatError:
        seen = repr(self._text[at : at + 20]) if at < len(self._text) else "the end"
        return FormatError(f"JSON at {at}: expected {expected}, got {seen}")

    def skip(self, at: int) -> int:
        found = _SPACE.match(self._text, at)
        return found.end() if found else at

    def value(self, at: int, depth: int) -> Any:
        char = self._text[at : at + 1]
        if char in _PLAIN:
            return self.string(at)
        if char in ("{", "["):
            if depth >= MAX_DEPTH:
                raise FormatError(f"JSON at {at}: nested deeper than {MAX_DEPTH}")
            return self.members(at, depth + 1) if char == "{" else self.items(at, depth + 1)
        number = _NUMBER.match(self._text, at)
        if number:
            return self.number(number)
        word = _NAME.match(self._text, at)
        if word and word.group() in _WORDS:
            self.end = word.end()
            return _WORDS[word.group()]
        raise self.fail(at, "a value")

    def number(self, found: re.Match[str]) -> Any:
        text, self.end = found.group(), found.end()
        if self._text[self.end : self.end + 1] in ("L", "S", "B", "F", "D"):
            self.end += 1
        if self._raw:
            return text
        if text.lstrip("-").isdigit():
            if len(text) > 400:
                raise FormatError(f"JSON at {found.start()}: a number of {len(text)} digits")
            return int(text)
        return float(text)

    def string(self, at: int) -> str:
        text, quote = self._text, self._text[at]
        plain, pieces, at = _PLAIN[quote], [], at + 1
        while True:
            found = plain.match(text, at)
            assert found is not None  # the pattern matches nothing too
            pieces.append(found.group())
            at = found.end()
            if at >= len(text):
                raise self.fail(at, f"a closing {quote}")
            if text[at] == quote:
                self.end = at + 1
                return _pair_surrogates("".join(pieces))
            at = self.escape(at + 1, pieces)

    def escape(self, at: int, pieces: list[str]) -> int:
        char = self._text[at : at + 1]
        if char in ("u", "x"):
            digits = self._text[at + 1 : at + (5 if char == "u" else 3)]
            if not re.fullmatch("[0-9a-fA-F]{4}" if char == "u" else "[0-9a-fA-F]{2}", digits):
                raise self.fail(at - 1, "an escape")
            pieces.append(chr(int(digits, 16)))
            return at + 1 + len(digits)
        if not char:
            raise self.fail(at, "an escape")
        pieces.append(chr(int(char)) if char in "01234567" else _ESCAPES.get(char, char))
        return at + 1

    def items(self, at: int, depth: int) -> list[Any]:
        values: list[Any] = []
        at = self.skip(at + 1)
        while True:
            while self._text[at : at + 1] == ",":
                at = self.skip(at + 1)
            if self._text[at : at + 1] == "]":
                self.end = at + 1
                return values
            values.append(self.value(at, depth))
            at = self.skip(self.end)
            if self._text[at : at + 1] not in (",", "]"):
                raise self.fail(at, ", or ]")

    def members(self, at: int, depth: int) -> dict[Any, Any]:
        values: dict[Any, Any] = {}
        at = self.skip(at + 1)
        while True:
            while self._text[at : at + 1] == ",":
                at = self.skip(at + 1)
            if self._text[at : at + 1] == "}":
                self.end = at + 1
                return values
            key = self.key(at, depth)
            at = self.skip(self.end)
            if self._text[at : at + 1] != ":":
                raise self.fail(at, ":")
            values[key] = self.value(self.skip(at + 1), depth)
            at = self.skip(self.end)
            if self._text[at : at + 1] not in (",", "}"):
                raise self.fail(at, ", or }")

    def key(self, at: int, depth: int) -> Any:
        char = self._text[at : at + 1]
        if char in _PLAIN:
            return self.string(at)
        if char == "{":
            return ObjectKey(self.value(at, depth))
        number = _NUMBER.match(self._text, at)
        if number:
            value = self.number(number)
            return int(value) if isinstance(value, str) and value.lstrip("-").isdigit() else value
        name = _NAME.match(self._text, at)
        if name:
            self.end = name.end()
            return name.group()
        raise self.fail(at, "a key")


def _pair_surrogates(text: str) -> str:
    """Join escaped surrogate pairs; half a pair becomes ``?``, as when Java writes it as UTF-8."""
    if not _LONE_SURROGATE.search(text):
        return text
    joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return _LONE_SURROGATE.sub("?", joined)


_STEP = re.compile(r"\.((?:[^.\[\\]|\\.)+)|\[(\d+)\]|\[(['\"])(.*?)\3\]")


class _Resolver:
    """Replaces ``{"$ref": path}`` by a copy of what the path names, within a budget of copied values."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._budget = _MAX_COPIES

    def resolve(self, value: Any, inside: tuple[int, ...]) -> Any:
        """Return *value* without references; *inside* holds the ids of the referenced values being copied."""
        if isinstance(value, dict):
            path = value.get("$ref")
            if len(value) == 1 and isinstance(path, str):
                return self._follow(path, inside)
            if inside:
                self._spend(1 + len(value))
            return {key: self.resolve(member, inside) for key, member in value.items()}
        if isinstance(value, list):
            if inside:
                self._spend(1 + len(value))
            return [self.resolve(member, inside) for member in value]
        return value

    def _follow(self, path: str, inside: tuple[int, ...]) -> Any:
        target = self._target(path)
        if id(target) in inside or len(inside) >= MAX_DEPTH:
            raise FormatError(f"JSON reference {path!r} contains itself")
        self._spend(1)
        return self.resolve(target, (*inside, id(target)))

    def _target(self, path: str) -> Any:
        value, at = self._root, 1
        while path.startswith("$") and at < len(path):
            step = _STEP.match(path, at)
            if step is None:
                break
            name, index, _, quoted = step.groups()
            try:
                value = value[int(index)] if index else self._member(value, quoted or re.sub(r"\\(.)", r"\1", name))
            except (KeyError, IndexError, TypeError) as error:
                raise FormatError(f"JSON reference {path!r} leads nowhere") from error
            at = step.end()
        if not path.startswith("$") or at < len(path):
            raise FormatError(f"JSON reference {path!r} is of a kind that is not read")
        return value

    @staticmethod
    def _member(value: Any, name: str) -> Any:
        if isinstance(value, dict) and name not in value and name.lstrip("-").isdigit():
            return value[int(name)]
        return value[name]

    def _spend(self, values: int) -> None:
        self._budget -= values
        if self._budget < 0:
            raise FormatError(f"JSON references expand to more than {_MAX_COPIES} values")


# --- writing --------------------------------------------------------------------------------------------------------

_SHORT = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_SPECIAL = re.compile('["\\\\\x00-\x1f\x7f-\x9f\u2028\u2029]')
_SPECIAL_BROWSER = re.compile(r"[^ !#-.0-\[\]-~]")  # negated: a wide range is slow to compile


def _escape(found: re.Match[str]) -> str:
    char = found.group()
    if char in _SHORT:
        return _SHORT[char]
    if char == "/":
        return "\\/"
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at] << 8 | units[at + 1]:04X}" for at in range(0, len(units), 2))


def _quote(text: str) -> str:
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return f'"{_SPECIAL.sub(_escape, text)}"'


def _quote_browser(text: str) -> str:
    return f'"{_SPECIAL_BROWSER.sub(_escape, text)}"'


def _java_double(value: float) -> str:
    """``Double.toString``: plain between 0.001 and 10**7, else d.dddE±n; what is not finite becomes null."""
    if value != value or value in (float("inf"), float("-inf")):
        return "null"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    _, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    shown = "".join(map(str, digits))
    return f"{'-' if value < 0 else ''}{shown[0]}.{shown[1:] or '0'}E{int(exponent) + len(shown) - 1}"


class _Writer:
    """Collects the pieces of one document."""

    __slots__ = ("_keep_nulls", "_quote", "_sort", "_standard")

    def __init__(
        self, quote: Callable[[str], str], *, sort: bool, standard: bool = False, keep_nulls: bool = False
    ) -> None:
        self._quote = quote
        self._sort = sort
        self._standard = standard
        self._keep_nulls = keep_nulls

    def parts(self, value: Any) -> list[str]:
        out: list[str] = []
        try:
            self._value(value, out)
        except RecursionError:
            raise FormatError("the value is nested too deep to be written as JSON") from None
        return out

    def _value(self, value: Any, out: list[str]) -> None:
        if isinstance(value, str):
            out.append(self._quote(value))
        elif value is None:
            out.append("null")
        elif isinstance(value, bool):
            out.append("true" if value else "false")
        elif isinstance(value, int):
            quoted = self._standard and not -_SAFE_INTEGER <= value <= _SAFE_INTEGER
            out.append(f'"{int(value)}"' if quoted else str(int(value)))
        elif isinstance(value, float):
            out.append(_java_double(value))
        elif isinstance(value, Mapping):
            self._members(value, out)
        elif isinstance(value, list | tuple | set | frozenset):
            self._items(value, out)
        else:
            raise TypeError(f"{type(value).__name__} has no JSON form")

    def _items(self, values: Iterable[Any], out: list[str]) -> None:
        lead = "["
        for value in values:
            out.append(lead)
            self._value(value, out)
            lead = ","
        out.append("]" if lead == "," else "[]")

    def _members(self, values: Mapping[Any, Any], out: list[str]) -> None:
        entries: Iterable[tuple[Any, Any]] = values.items()
        if self._sort:
            entries = sorted(entries, key=_sort_key)
        lead = "{"
        for key, value in entries:
            if value is None and not self._keep_nulls:
                continue
            out.append(lead)
            self._key(key, out)
            out.append(":")
            self._value(value, out)
            lead = ","
        out.append("}" if lead == "," else "{}")

    def _key(self, key: Any, out: list[str]) -> None:
        if isinstance(key, str):
            out.append(self._quote(key))
        elif isinstance(key, int) and not isinstance(key, bool):
            out.append(f'"{int(key)}"' if self._standard else str(int(key)))
        elif isinstance(key, ObjectKey):
            if self._standard:
                out.append(self._quote("".join(_Writer(_quote, sort=self._sort).parts(key))))
            else:
                self._members(key, out)
        else:
            raise TypeError(f"{type(key).__name__} cannot be a JSON key")


def _sort_key(entry: tuple[Any, Any]) -> tuple[int, Any]:
    """Integers by value, then strings by UTF-16 unit as Java compares them, then objects as they come."""
    key = entry[0]
    if isinstance(key, str):
        return (1, key if key.isascii() else key.encode("utf-16-be", "surrogatepass").decode("latin-1"))
    return (0, key) if isinstance(key, int) else (2, 0)


def _freeze(value: Any) -> Any:
    if isinstance(value, Mapping):
        return value if isinstance(value, ObjectKey) else ObjectKey(value)
    return tuple(_freeze(item) for item in value) if isinstance(value, list | tuple) else value
