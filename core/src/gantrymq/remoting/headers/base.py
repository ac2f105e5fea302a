"""How a typed header maps to the texts of extFields, and the classes every header builds on.

A header class lists its fields in snake_case; on the wire they are camelCase unless the field names its word:

    @header_of(RequestCode.GET_MAX_OFFSET)
    class GetMaxOffsetRequest(RequestHeader):
        topic: str                      # mandatory text
        queue_id: Int32                 # mandatory, "queueId"
        committed: bool = True          # the default stands in when the field is missing
        max_msg_bytes: Int32 | None = None

Reading and writing code is generated once per class, at first use. Rules, as in Java: true is the word ``true`` in any
case and everything else is false; numbers may carry a sign; an optional number of no characters counts as missing;
fields that are None are not sent; fields nobody knows are ignored. Unlike Java, which leaves a missing or unreadable
field null and fails later, we refuse with a sentence.

Source: apache/rocketmq remoting/.../protocol/RemotingCommand.java (decodeCommandCustomHeader, makeCustomHeaderToNet),
rpc/RpcRequestHeader.java, TopicRequestHeader.java.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, NamedTuple, Protocol, Self, TypeVar, dataclass_transform

import attrs

from gantrymq.errors import RefusedWith
from gantrymq.remoting.codes import RequestCode, ResponseCode, request_name

__all__ = [
    "Header",
    "Int32",
    "Int64",
    "RequestHeader",
    "header_of",
    "named",
    "to_bool",
    "to_int32",
    "to_int64",
]

Int32 = int  # the name in an annotation decides what texts are taken
Int64 = int

HeaderType = TypeVar("HeaderType", bound="Header")


class _Decorator(Protocol):
    def __call__(self, cls: type[HeaderType], /) -> type[HeaderType]: ...


class Header:
    """Base of all typed headers."""

    __slots__ = ()

    codes: ClassVar[tuple[int, ...]] = ()  # of the requests, or for a response of what it answers
    _codec: ClassVar[_Codec | None] = None

    @classmethod
    def from_ext(cls, ext: Mapping[str, str] | None, code: int | None = None) -> Self:
        """Return the header that *ext* spells.

        Args:
            ext: extFields; None counts as empty.
            code: the request's code, for the sentence of a refusal; the class's first when left out.
        Raises:
            RefusedWith: code 1, a mandatory field is missing or a number cannot be read; the text names request,
                field, what was seen and what was expected.
        """
        codec = cls._codec or _compile(cls)
        header: Self = codec.read(cls, {} if ext is None else ext, code)
        return header

    def to_ext(self) -> dict[str, str]:
        """Return the fields as extFields, those that are None left out."""
        codec = self._codec or _compile(type(self))
        return codec.write(self)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, f.attribute) == getattr(other, f.attribute) for f in _fields(type(self)))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        given = [(f.attribute, getattr(self, f.attribute)) for f in _fields(type(self))]
        return f"{type(self).__name__}({', '.join(f'{n}={v!r}' for n, v in given if v is not None)})"


@dataclass_transform(kw_only_default=True, field_specifiers=(attrs.field,))
def header_of(*codes: RequestCode) -> _Decorator:
    """Make the decorated class the header of requests with these *codes*, or of the answers to them."""

    def make(cls: type[HeaderType]) -> type[HeaderType]:
        made = attrs.define(cls, slots=True, kw_only=True, eq=False, repr=False)
        made._codec = None
        made.codes = codes
        return made

    return make


def named(wire_name: str) -> dict[str, str]:
    """Metadata for a field whose name on the wire is not its own in camelCase; for ``attrs.field(metadata=...)``."""
    return {"wire": wire_name}


@header_of()
class RequestHeader(Header):
    """Fields that nearly every request may carry; servers need none of them."""

    ns: str | None = None  # namespace of the second kind
    nsd: bool | None = None  # resource names already carry the namespace
    bname: str | None = None  # broker name the client means
    oway: bool | None = None
    lo: bool | None = None  # false: the queue id is a physical one (static topics)


# --- texts to values ------------------------------------------------------------------------------------------------

_DIGITS = re.compile(r"[+-]?\d+")


def to_int32(text: str) -> int:
    """Return *text* as Java's Integer.parseInt would. Raises ValueError."""
    return _to_int(text, 0x7FFFFFFF)


def to_int64(text: str) -> int:
    """Return *text* as Java's Long.parseLong would. Raises ValueError."""
    return _to_int(text, 0x7FFFFFFFFFFFFFFF)


def to_bool(text: str) -> bool:
    """Return whether *text* is the word true, in any case."""
    return text == "true" or text.lower() == "true"


def _to_int(text: str, limit: int) -> int:
    if len(text) > 64 or not _DIGITS.fullmatch(text):
        raise ValueError(text)
    value = int(text)
    if not -limit - 1 <= value <= limit:
        raise ValueError(text)
    return value


# --- generated code -------------------------------------------------------------------------------------------------


class _Field(NamedTuple):
    attribute: str
    wire: str
    kind: str  # string, int32, int64, boolean, double
    required: bool
    default: Any


class _Codec(NamedTuple):
    read: Callable[[type[Any], Mapping[str, str], int | None], Any]
    write: Callable[[Any], dict[str, str]]


_CONVERT: Final[dict[str, Callable[[str], Any]]] = {
    "string": str,
    "int32": to_int32,
    "int64": to_int64,
    "boolean": to_bool,
    "double": float,
}
# Short decimal digits, the usual case, skip the regular expression and the range check.
_READ: Final = {
    "string": "v",
    "int32": "int(v) if len(v) < 10 and v.isdecimal() else to_int32(v)",
    "int64": "int(v) if len(v) < 19 and v.isdecimal() else to_int64(v)",
    "boolean": "v == 'true' or v.lower() == 'true'",
    "double": "float(v)",
}
_WRITE: Final = {
    "string": "v",
    "int32": "str(v)",
    "int64": "str(v)",
    "boolean": "'true' if v else 'false'",
    "double": "repr(v)",
}
_KINDS: Final = {"str": "string", "Int32": "int32", "Int64": "int64", "bool": "boolean", "float": "double"}


def _fields(cls: type[Header]) -> list[_Field]:
    members: tuple[attrs.Attribute[Any], ...] = attrs.fields(cls)  # type: ignore[arg-type]  # all are attrs classes
    found = []
    for member in members:
        # Annotations are text in every header module, and nothing but these names occurs in them.
        kind = _KINDS[str(member.type).removesuffix(" | None")]
        wire = member.metadata.get("wire") or re.sub("_(.)", lambda m: m.group(1).upper(), member.name)
        required = member.default is attrs.NOTHING
        found.append(_Field(member.name, wire, kind, required, None if required else member.default))
    return found


def _compile(cls: type[Header]) -> _Codec:
    """Write the two functions of *cls* as source and keep them on the class."""
    read = ["def read(cls, ext, code):", "    self, get = new(cls), ext.get", "    try:"]
    write = ["def write(self):", "    ext = {}"]
    for field in _fields(cls):
        name, wire, expression = field.attribute, repr(field.wire), _READ[field.kind]
        if field.required:
            read += [f"        v = ext[{wire}]", f"        self.{name} = {expression}"]
            write += [f"    v = self.{name}", f"    ext[{wire}] = {_WRITE[field.kind]}"]
        else:
            missing = "v is None" if field.kind in ("string", "boolean") else "not v"
            read += [
                f"        v = get({wire})",
                f"        self.{name} = {field.default!r} if {missing} else ({expression})",
            ]
            write += [f"    v = self.{name}", f"    if v is not None: ext[{wire}] = {_WRITE[field.kind]}"]
    read += [
        "        return self",
        "    except (KeyError, ValueError):",
        "        raise explain(cls, ext, code) from None",
    ]
    write += ["    return ext"]
    space: dict[str, Any] = {"new": cls.__new__, "explain": explain, "to_int32": to_int32, "to_int64": to_int64}
    exec(compile("\n".join(read + write), f"<header {cls.__name__}>", "exec"), space)
    codec = cls._codec = _Codec(space["read"], space["write"])
    return codec


def explain(cls: type[Header], ext: Mapping[str, str], code: int | None) -> RefusedWith:
    """Return the refusal for the first field of *ext* that *cls* cannot read."""
    title = request_name(next(iter(cls.codes), 0) if code is None else code)
    for field in _fields(cls):
        text = ext.get(field.wire)
        if text is None:
            if field.required:
                return refusal(title, f"missing field {field.wire}, expected {field.kind}")
            continue
        try:
            if text or field.required:
                _CONVERT[field.kind](text)
        except ValueError:
            return refusal(title, f"field {field.wire} is {text[:40]!r}, expected {field.kind}")
    return refusal(title, "the header fields cannot be read")


def refusal(title: str, what: str) -> RefusedWith:
    """Return the error that answers a request with an unreadable header."""
    return RefusedWith(ResponseCode.SYSTEM_ERROR, f"{title}: {what}")
