"""Reader of JSON, strict or in fastjson's dialect.

Source: com.alibaba:fastjson 1.2.83 JSONLexerBase.java, DefaultJSONParser.java.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from gantrymq import strict_json
from gantrymq.errors import FormatError
from gantrymq.loose_json.keys import MAX_DEPTH, MAX_LOOSE_CHARS, ObjectKey
from gantrymq.loose_json.references import Resolver

__all__ = ["loads", "loads_strict", "object_key"]


def loads(data: bytes | bytearray | memoryview | str, *, raw_numbers: bool = False) -> Any:
    """Read one JSON value, strict or in fastjson's dialect.

    Args:
        data: UTF-8 bytes or text.
        raw_numbers: return numbers as their original text, which signatures cover.
    Raises:
        FormatError: the text is not UTF-8, not JSON in either form, has trailing characters, is nested deeper than
            `MAX_DEPTH`, contains a `$ref` without target or to itself, or is longer than `MAX_LOOSE_CHARS` and not
            strict apart from keys that are integers or flat objects. The message gives the position in characters.
    """
    try:
        value = _STRICT_RAW.decode(_text(data)) if raw_numbers else strict_json.loads(data)
    except (ValueError, RecursionError):
        text = _text(data)
        value = None if raw_numbers else _read_keys(text)
        if value is None:
            if len(text) > MAX_LOOSE_CHARS:
                raise FormatError(
                    f"JSON that is not strict may have {MAX_LOOSE_CHARS} characters, this text has {len(text)}"
                ) from None
            return _resolved(*_read_loose(text, raw_numbers))
    return _resolved(value, _mentions_ref(data))


def loads_strict(data: bytes | str) -> Any:
    """Read one JSON value that is strict except for keys that are integers or flat objects. ``$ref`` is not resolved.

    For untrusted text that may be large at little cost for the sender, such as a compressed body. Reading takes about
    10 ns per byte, while `loads` may take 1 us per byte, and references may expand to many times their length.

    Raises:
        FormatError: the text is not UTF-8 or not such JSON.
    """
    try:
        return strict_json.loads(data)
    except (ValueError, RecursionError) as error:
        value = _read_keys(_text(data))
        if value is None:
            raise FormatError(f"JSON: {error}") from error
        return value


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


# Bare integer keys and flat objects as keys are by far the most common deviation (offset tables of any size). Text
# without other deviations is converted to strict JSON and parsed by orjson: such keys are quoted with a prefix, a mark
# that the text does not contain, and converted back afterwards. An object key is replaced by two marks and its index in
# a list. An object with integer keys and values becomes one list: {0:5,1:6} is parsed as {"<mark>":[0,5,1,6]}.
_MARK: Final = "\ue000"
_MARK_ESCAPED = re.compile(r"\\ue000", re.IGNORECASE)
_ESCAPE = re.compile(r"\\.", re.DOTALL)
_MOST_PARTS: Final = 2_000_000  # quotes or escapes in the text, about 0.3 us each
_END_OF_KEY = re.compile(r"[^}]*\}(?=[ \t\r\n]*:)")
_PAIR = r"[ \t\r\n]*+-?[0-9]++[ \t\r\n]*+:[ \t\r\n]*+-?[0-9]++[ \t\r\n]*+"
_INTEGERS = re.compile(rf"\{{({_PAIR}(?:,{_PAIR})*+)\}}")
_ONLY_INTEGERS: Final = {int}
_BARE_KEY = re.compile(r"([{,]\s*)(-?\d+)(?=\s*:)", re.ASCII)
_QUOTED_KEY: Final = rf'\1"{_MARK}\2"'


def _read_keys(text: str) -> Any:
    """Read text that is strict except for integer keys and flat objects as keys. Return None for other text."""
    if _MARK in text or _MARK_ESCAPED.search(text) or max(text.count("\\"), text.count('"')) > _MOST_PARTS:
        return None
    if '\\"' in text:
        text = _ESCAPE.sub(lambda found: "\\u0022" if found.group() == '\\"' else found.group(), text)
    parts = text.split('"')  # every second part is the inside of a string, as there are no escaped quotes
    try:
        parts, keys = _without_objects(parts)
        parts[::2] = [_quote_keys(part) if part.rfind(":") > 0 else part for part in parts[::2]]
        return _restore(strict_json.loads('"'.join(parts)), keys)
    except (ValueError, RecursionError, IndexError):
        return None


def _without_objects(parts: list[str]) -> tuple[list[str], list[ObjectKey]]:
    """Replace each object in key position by its index in the returned list of keys."""
    kept: list[str] = []
    keys: list[ObjectKey] = []
    opened, brace = -1, -1  # the part with the last opening brace, and its position there
    for place, part in enumerate(parts):
        if not place % 2:
            found = _END_OF_KEY.match(part) if "}" in part else None
            if found is not None and opened >= 0 and "{" not in found.group():
                head, part = kept[opened], part[found.end() :]
                key = '"'.join([head[brace:], *kept[opened + 1 :], found.group()])
                keys.append(ObjectKey(strict_json.loads(key)))
                kept[opened:] = [head[:brace], f"{_MARK}{_MARK}{len(keys) - 1}"]
            if "{" in part:
                opened, brace = len(kept), part.rindex("{")
        kept.append(part)
    return kept, keys


def _quote_keys(part: str) -> str:
    """Quote the bare keys of text without strings."""
    pieces = _INTEGERS.split(part)  # every second piece is the inside of an object of integers
    pieces[::2] = [_BARE_KEY.sub(_QUOTED_KEY, piece) if ":" in piece else piece for piece in pieces[::2]]
    pieces[1::2] = [f'{{"{_MARK}":[{inside.replace(":", ",")}]}}' for inside in pieces[1::2]]
    return "".join(pieces)


def _restore(value: Any, keys: list[ObjectKey]) -> Any:
    if isinstance(value, dict):
        if _MARK in value:
            integers = value[_MARK]
            if set(map(type, integers)) != _ONLY_INTEGERS:
                raise ValueError("an integer of more than 64 bits")
            return dict(zip(integers[::2], integers[1::2], strict=True))
        return {
            _key(key, keys) if key[:1] == _MARK else key: (
                _restore(member, keys) if isinstance(member, dict | list) else member
            )
            for key, member in value.items()
        }
    return [_restore(item, keys) for item in value] if isinstance(value, list) else value


def _key(marked: str, keys: list[ObjectKey]) -> int | ObjectKey:
    return keys[int(marked[2:])] if marked[1:2] == _MARK else int(marked[1:])


def _resolved(value: Any, mentions_ref: bool) -> Any:
    if not mentions_ref:
        return value
    try:
        return Resolver(value).resolve(value, ())
    except RecursionError:
        raise FormatError("JSON with references is nested too deep to follow them") from None


def _read_loose(text: str, raw_numbers: bool) -> tuple[Any, bool]:
    """Return the value, and whether it may contain references."""
    reader = _Reader(text, raw_numbers)
    value = reader.value(reader.skip(0), 0)
    end = reader.skip(reader.end)
    if end != len(text):
        raise FormatError(f"JSON has trailing text at {end}: {text[end : end + 20]!r}")
    return value, "$ref" in text


class _Reader:
    """Recursive-descent parser. Each method starts at a position and sets ``end`` to the next one."""

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
            assert found is not None  # the pattern also matches an empty string
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
    """Join escaped surrogate pairs. A lone surrogate becomes ``?``, as in Java's UTF-8 encoder."""
    if not _LONE_SURROGATE.search(text):
        return text
    joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return _LONE_SURROGATE.sub("?", joined)
