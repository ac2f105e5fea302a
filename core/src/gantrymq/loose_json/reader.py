"""Reader of JSON, strict or in fastjson's dialect, with its references: a repeated object is ``{"$ref": path}``.

Source: com.alibaba:fastjson 1.2.83 JSONLexerBase.java, DefaultJSONParser.java, JSONPath.java, SerializeWriter.java
(writeReference).
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from gantrymq import strict_json
from gantrymq.errors import FormatError
from gantrymq.loose_json.keys import MAX_DEPTH, MAX_LOOSE_VALUES, ObjectKey

_MAX_COPIES: Final = 100_000  # values that `$ref` may add to one document

_STEP = re.compile(r"\.((?:[^.\[\\]|\\.)+)|\[(\d+)\]|\[(['\"])(.*?)\3\]")


class Resolver:
    """Replaces ``{"$ref": path}`` by a copy of the target, within a limit of copied values."""

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
                raise FormatError(f"JSON reference {path!r} has no target") from error
            at = step.end()
        if not path.startswith("$") or at < len(path):
            raise FormatError(f"JSON reference {path!r} has an unsupported form")
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


class ReadBudget:
    """Number of values that may still be read one by one, which takes about 2 us each."""

    __slots__ = ("left",)

    def __init__(self, left: int = MAX_LOOSE_VALUES) -> None:
        self.left = left

    def spend(self) -> None:
        """Count one value. Raises FormatError if it is one too many."""
        self.left -= 1
        if self.left < 0:
            raise FormatError("JSON that is not strict has too many values, see MAX_LOOSE_VALUES")


def loads(data: bytes | bytearray | memoryview | str, *, raw_numbers: bool = False) -> Any:
    """Read one JSON value, strict or in fastjson's dialect.

    Strict text is read in one step, at 10 ns per byte; other text in many short ones, so that a thread that reads it
    does not stop the other threads.

    Args:
        data: UTF-8 bytes or text.
        raw_numbers: return numbers as their original text, which signatures cover.
    Raises:
        FormatError: the text is not UTF-8, not JSON in either form, has trailing characters, is nested deeper than
            `MAX_DEPTH`, contains a `$ref` without target or to itself, or is not strict and has more than
            `MAX_LOOSE_VALUES` values. Objects and lists that are strict, or have only integers, and contain no others,
            count as one. The message gives the position in characters.
    """
    try:
        value = _STRICT_RAW.decode(_text(data)) if raw_numbers else strict_json.loads(data)
    except (ValueError, RecursionError):
        text = _text(data)
        reader = _Reader(text, ReadBudget(), flat=not raw_numbers, raw=raw_numbers)
        return _resolved(reader.document(), "$ref" in text)
    return _resolved(value, _mentions_ref(data))


def loads_strict(data: bytes | str, budget: ReadBudget) -> Any:
    """Read one JSON value that is strict except for keys that are integers or objects. ``$ref`` is not resolved.

    For untrusted text that may be large at little cost for the sender, such as a compressed body: references may
    expand to many times their length, and *budget*, which several calls may share, bounds the time.

    Raises:
        FormatError: the text is not UTF-8 or not such JSON, or the budget is spent.
    """
    try:
        return strict_json.loads(data)
    except (ValueError, RecursionError):
        return _Reader(_text(data), budget, strict=True).document()


def object_key(key: Any) -> ObjectKey:
    """Return a table key as an `ObjectKey`; a string is parsed as the JSON text of an object.

    Raises:
        FormatError: the key is neither an object nor the text of one.
    """
    if isinstance(key, ObjectKey):
        return key
    value = loads(key) if isinstance(key, str) else key
    if not isinstance(value, dict):
        raise FormatError(f"expected an object as key, got {key!r}")
    return ObjectKey(value)


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


# Objects and lists that contain no others are most of a long text, such as a table of offsets. They are found by a
# pattern and read by orjson; an object with integer keys and values is read as one list, {0:5,1:6} as [0,5,1,6].
_INSIDE: Final = r"""[^{}\[\]"']*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"[^{}\[\]"']*+)*+"""
_FLAT_OBJECT = re.compile(rf"\{{{_INSIDE}\}}", re.DOTALL)
_FLAT_LIST = re.compile(rf"\[{_INSIDE}\]", re.DOTALL)
_PAIR: Final = r"[ \t\r\n]*+-?[0-9]++[ \t\r\n]*+:[ \t\r\n]*+-?[0-9]++[ \t\r\n]*+"
_INTEGERS = re.compile(rf"\{{({_PAIR}(?:,{_PAIR})*+)\}}")
_ONLY_INTEGERS: Final = {int}
_COMMAS = re.compile(r"[, \t\r\n\f\b]*")
_STRICT_SCALAR = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[^\s,:{}\[\]"]++', re.DOTALL)
_MISSING: Final[Any] = object()


def _resolved(value: Any, mentions_ref: bool) -> Any:
    if not mentions_ref:
        return value
    try:
        return Resolver(value).resolve(value, ())
    except RecursionError:
        raise FormatError("JSON with references is nested too deep to follow them") from None


class _Reader:
    """Recursive-descent parser. Each method starts at a position and sets ``end`` to the next one."""

    __slots__ = ("_budget", "_flat", "_raw", "_strict", "_text", "end")

    def __init__(
        self, text: str, budget: ReadBudget, *, flat: bool = True, strict: bool = False, raw: bool = False
    ) -> None:
        """Create a reader at the start.

        Args:
            budget: see `ReadBudget`.
            flat: read objects and lists without others by orjson.
            strict: refuse everything that is not strict, except for keys.
            raw: return numbers as text.
        """
        self._text = text
        self._budget = budget
        self._flat = flat
        self._strict = strict
        self._raw = raw
        self.end = 0

    def document(self) -> Any:
        """Read the whole text."""
        value = self.value(self.skip(0), 0)
        end = self.skip(self.end)
        if end != len(self._text):
            raise FormatError(f"JSON has trailing text at {end}: {self._text[end : end + 20]!r}")
        return value

    def fail(self, at: int, expected: str) -> FormatError:
        seen = repr(self._text[at : at + 20]) if at < len(self._text) else "the end"
        return FormatError(f"JSON at {at}: expected {expected}, got {seen}")

    def skip(self, at: int) -> int:
        found = _SPACE.match(self._text, at)
        return found.end() if found else at

    def value(self, at: int, depth: int) -> Any:
        self._budget.spend()
        char = self._text[at : at + 1]
        if char in ("{", "["):
            if self._flat:
                value = self.flat(at, char)
                if value is not _MISSING:
                    return value
            if depth >= MAX_DEPTH:
                raise FormatError(f"JSON at {at}: nested deeper than {MAX_DEPTH}")
            return self.members(at, depth + 1) if char == "{" else self.items(at, depth + 1)
        if self._strict:
            return self.strict_scalar(at)
        if char in _PLAIN:
            return self.string(at)
        number = _NUMBER.match(self._text, at)
        if number:
            return self.number(number)
        word = _NAME.match(self._text, at)
        if word and word.group() in _WORDS:
            self.end = word.end()
            return _WORDS[word.group()]
        raise self.fail(at, "a value")

    def flat(self, at: int, char: str) -> Any:
        """Read an object or list that contains no others. Return `_MISSING` for another, or one that is not strict."""
        found = (_FLAT_OBJECT if char == "{" else _FLAT_LIST).match(self._text, at)
        if found is None:
            return _MISSING
        try:
            value = strict_json.loads(found.group())
        except ValueError:
            integers = _INTEGERS.match(self._text, at)
            if integers is None:
                return _MISSING
            value = _pairs(integers[1])
        if value is not _MISSING:
            self.end = found.end()
        return value

    def strict_scalar(self, at: int) -> Any:
        found = _STRICT_SCALAR.match(self._text, at)
        try:
            value = strict_json.loads(found.group() if found else "")
        except ValueError:
            raise self.fail(at, "a value") from None
        assert found is not None  # an empty text is no value
        self.end = found.end()
        return value

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
            assert found is not None  # the pattern also matches an empty string
            pieces.append(found.group())
            at = found.end()
            if at >= len(text):
                raise self.fail(at, f"a closing {quote}")
            if text[at] == quote:
                self.end = at + 1
                return _pair_surrogates("".join(pieces))
            self._budget.spend()
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
        at = self.separator(at + 1, "]", first=True)
        while self._text[at : at + 1] != "]":
            values.append(self.value(at, depth))
            at = self.separator(self.end, "]", first=False)
        self.end = at + 1
        return values

    def members(self, at: int, depth: int) -> dict[Any, Any]:
        values: dict[Any, Any] = {}
        at = self.separator(at + 1, "}", first=True)
        while self._text[at : at + 1] != "}":
            key = self.key(at, depth)
            at = self.skip(self.end)
            if self._text[at : at + 1] != ":":
                raise self.fail(at, ":")
            values[key] = self.value(self.skip(at + 1), depth)
            at = self.separator(self.end, "}", first=False)
        self.end = at + 1
        return values

    def separator(self, at: int, close: str, *, first: bool) -> int:
        """Return the position of the next member, or of *close*. Further commas are skipped, if not strict."""
        begin = self.skip(at)
        found = _COMMAS.match(self._text, begin)
        end = found.end() if found else begin
        closes = self._text[end : end + 1] == close
        if end == begin and not first and not closes:
            raise self.fail(begin, f", or {close}")
        if self._strict and self._text.count(",", begin, end) != (0 if first or closes else 1):
            raise self.fail(begin, f"a value or {close}" if first else f"one comma or {close}")
        return end

    def key(self, at: int, depth: int) -> Any:
        char = self._text[at : at + 1]
        if char == "{":
            return ObjectKey(self.value(at, depth))
        if self._strict:
            key = self.strict_scalar(at)
            if type(key) is not str and type(key) is not int:
                raise self.fail(at, "a key")
            return key
        if char in _PLAIN:
            return self.string(at)
        number = _NUMBER.match(self._text, at)
        if number:
            value = self.number(number)
            return int(value) if isinstance(value, str) and value.lstrip("-").isdigit() else value
        name = _NAME.match(self._text, at)
        if name:
            self.end = name.end()
            return name.group()
        raise self.fail(at, "a key")


def _pairs(inside: str) -> dict[int, int] | Any:
    """Return the object with these pairs of integers, `_MISSING` if one is not strict or has more than 64 bits."""
    try:
        integers = strict_json.loads(f"[{inside.replace(':', ',')}]")
    except ValueError:
        return _MISSING
    if set(map(type, integers)) != _ONLY_INTEGERS:
        return _MISSING
    return dict(zip(integers[::2], integers[1::2], strict=True))


def _pair_surrogates(text: str) -> str:
    """Join escaped surrogate pairs. A lone surrogate becomes ``?``, as in Java's UTF-8 encoder."""
    if not _LONE_SURROGATE.search(text):
        return text
    joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return _LONE_SURROGATE.sub("?", joined)
