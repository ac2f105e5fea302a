"""Mapping of typed headers to the strings of extFields, and base classes of headers.

A header class lists its fields in snake_case; on the wire they are camelCase unless the field gives another name:

    @header_of(RequestCode.GET_MAX_OFFSET)
    class GetMaxOffsetRequest(RequestHeader):
        topic: str                      # mandatory string
        queue_id: Int32                 # mandatory, "queueId"
        committed: bool = True          # default of a missing field
        max_msg_bytes: Int32 | None = None

One loop over the fields reads every header, another writes it. As in Java, true is the word ``true`` in any case and
everything else is false, numbers may have a sign, an empty optional number counts as missing, fields that are None are
not sent, and unknown fields are ignored. Java leaves a missing or malformed mandatory field null and fails later; here
the request is refused with a message.

Source: apache/rocketmq remoting/.../protocol/RemotingCommand.java (decodeCommandCustomHeader, makeCustomHeaderToNet),
rpc/RpcRequestHeader.java, TopicRequestHeader.java.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final, NamedTuple, Protocol, Self, TypeVar, dataclass_transform

import attrs

from gantrymq import speedups
from gantrymq.errors import RequestRefused
from gantrymq.remoting.codes import RequestCode, ResponseCode, request_name
from gantrymq.remoting.command import LongFields

_ATTRS_FIELD: Final[type] = type(attrs.field())
MAX_TEXT_CHARS: Final = 65_535  # of one field, except in send requests

Int32 = int  # the name in the annotation selects the conversion
Int64 = int

HeaderType = TypeVar("HeaderType", bound="Header")


class _Decorator(Protocol):
    def __call__(self, cls: type[HeaderType], /) -> type[HeaderType]: ...


class Header:
    """Base of all typed headers."""

    __slots__ = ()

    codes: ClassVar[tuple[int, ...]] = ()  # of the requests, or of the requests that a response belongs to
    _declared: ClassVar[Mapping[str, tuple[str, Any]]] = {}  # types and defaults of the class's own fields
    _fields: ClassVar[tuple[Field, ...] | None] = None

    @classmethod
    def from_ext(cls, ext: Mapping[str, str] | None, code: int | None = None) -> Self:
        """Return the header decoded from *ext*.

        Args:
            ext: extFields; None counts as empty.
            code: the request's code, for the error message; by default the first code of the class.
        Raises:
            RequestRefused: code 1, a mandatory field is missing or a number is malformed; the message names request,
                field, value and expected type.
        """
        if type(ext) is LongFields:
            for each in fields_of(cls):
                if len(ext.get(each.wire, "")) > MAX_TEXT_CHARS:
                    long = f"{len(ext[each.wire])} characters, at most {MAX_TEXT_CHARS} are allowed"
                    raise _refusal(cls, code, f"field {each.wire} has {long}")
        return read_fields(cls, fields_of(cls), ext, code)

    def to_ext(self) -> dict[str, str]:
        """Return the fields as extFields, omitting those that are None."""
        return write_fields(self, fields_of(type(self)))

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, f.attribute) == getattr(other, f.attribute) for f in fields_of(type(self)))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        given = [(f.attribute, getattr(self, f.attribute)) for f in fields_of(type(self))]
        return f"{type(self).__name__}({', '.join(f'{n}={v!r}' for n, v in given if v is not None)})"


class _Named(NamedTuple):
    wire: str
    default: Any


def named(wire: str, *, default: Any = attrs.NOTHING) -> Any:
    """Declare a field whose name on the wire is *wire*."""
    return _Named(wire, default)


@dataclass_transform(kw_only_default=True, field_specifiers=(named,))
def header_of(*codes: RequestCode) -> _Decorator:
    """Make the decorated class the header of requests with these *codes*, or of the responses to them.

    The types of its fields are str, bool, Int32 and Int64, as they are written in the annotations: its module needs
    ``from __future__ import annotations``. The class is made anew to have slots, as attrs does; it must not use
    ``super()`` without arguments.
    """

    def make(cls: type[HeaderType]) -> type[HeaderType]:
        members = {name: each for name, each in vars(cls).items() if name not in ("__dict__", "__weakref__")}
        types: Mapping[str, Any] = members.get("__annotations__", {})
        declared = {name: (str(each), members.pop(name, attrs.NOTHING)) for name, each in types.items()}
        members["__slots__"] = tuple(name for name in declared if not hasattr(cls.__base__, name))

        def first_init(header: Header, **values: Any) -> None:
            _initialize(made, header, values)  # not the header's own class: that may call this with super()

        members.setdefault("__init__", first_init)
        members.update(__qualname__=cls.__qualname__, codes=codes, _declared=declared, _fields=None)
        made: type[HeaderType] = type(cls)(cls.__name__, cls.__bases__, members)  # type: ignore[misc]
        return made

    return make


def _initialize(cls: type[Header], header: Header, values: Mapping[str, Any]) -> None:
    """Generate the initializer of *cls*, and initialize *header* with it.

    Generating it with the class would take a third of a millisecond for each header of a program, and most are never
    constructed.
    """
    these = {each.attribute: attrs.field(default=each.default) for each in fields_of(cls)}
    attrs.define(cls, these=these, slots=False, init=True, kw_only=True, eq=False, repr=False)
    cls.__init__(header, **values)


@header_of()
class RequestHeader(Header):
    """Optional fields common to nearly all requests."""

    ns: str | None = None  # namespace of the second kind
    nsd: bool | None = None  # resource names already carry the namespace
    bname: str | None = None  # broker name the client means
    oway: bool | None = None
    lo: bool | None = None  # false: the queue id is a physical one (static topics)


# --- fields and texts -----------------------------------------------------------------------------------------------


class Field(NamedTuple):
    """Mapping of one attribute of a header."""

    attribute: str
    wire: str  # its name in extFields
    kind: str  # string, int32, int64, boolean
    read: Callable[[str], Any] | None  # raises ValueError; None for strings
    required: bool
    default: Any  # value of a missing optional field; NOTHING for a required one


def fields_of(cls: type[Header]) -> tuple[Field, ...]:
    """Return the fields of a header class, in the order of their declaration."""
    found = cls._fields
    if found is None:
        declared: dict[str, Field] = {}
        for each in reversed(cls.__mro__):
            for name, (annotation, default) in vars(each).get("_declared", {}).items():
                declared.pop(name, None)  # a field that is declared again takes the later place
                declared[name] = _field(name, annotation, default)
        found = cls._fields = tuple(declared.values())
    return found


def read_fields(
    cls: type[HeaderType], fields: Sequence[Field], ext: Mapping[str, str] | None, code: int | None
) -> HeaderType:
    """Decode a header like `Header.from_ext`, with the wire names in *fields*."""
    if _fill_header is not None and type(ext) is dict:
        header = cls.__new__(cls)
        if _fill_header(header, fields, ext):
            return header
    return _read_fields(cls, fields, ext, code)


_fill_header = None if speedups.compiled is None else speedups.compiled.fill_header  # returns false for unusual values


def _read_fields(
    cls: type[HeaderType], fields: Sequence[Field], ext: Mapping[str, str] | None, code: int | None
) -> HeaderType:
    get = ({} if ext is None else ext).get
    self = cls.__new__(cls)
    for attribute, wire, kind, read, required, default in fields:
        value: Any = get(wire)
        if value is None:
            if required:
                raise _refusal(cls, code, f"missing field {wire}, expected {kind}")
            value = default
        elif read is not None:
            try:
                value = read(value)
            except ValueError:
                if value or required:
                    raise _refusal(cls, code, f"field {wire} is {value[:40]!r}, expected {kind}") from None
                value = default
        setattr(self, attribute, value)
    return self


def write_fields(header: Header, fields: Sequence[Field]) -> dict[str, str]:
    """Encode a header like `Header.to_ext`, with the wire names in *fields*."""
    ext = {}
    for attribute, wire, kind, _, _, _ in fields:
        value = getattr(header, attribute)
        if value is not None:
            ext[wire] = ("true" if value else "false") if kind == "boolean" else str(value)
    return ext


def _field(name: str, annotation: str, default: Any) -> Field:
    try:
        kind, read = _KINDS[annotation.removesuffix(" | None")]
    except KeyError:
        raise TypeError(
            f"field {name} of a header has the type {annotation}; expected one of {', '.join(_KINDS)}, each "
            "perhaps with | None, in a module with 'from __future__ import annotations'"
        ) from None
    wire = re.sub("_(.)", lambda m: m.group(1).upper(), name)
    if isinstance(default, _Named):
        wire, default = default
    elif isinstance(default, _ATTRS_FIELD):
        raise TypeError(
            f"field {name} of a header is declared with attrs.field; write its default itself behind the equals sign"
        )
    return Field(name, wire, kind, read, default is attrs.NOTHING, default)


def _refusal(cls: type[Header], code: int | None, what: str) -> RequestRefused:
    title = request_name(next(iter(cls.codes), 0) if code is None else code)
    return RequestRefused(ResponseCode.SYSTEM_ERROR, f"{title}: {what}")


# --- texts to values ------------------------------------------------------------------------------------------------

_DIGITS = re.compile(r"[+-]?\d+")


def _to_int32(text: str) -> int:
    """Parse *text* like Java's Integer.parseInt. Raises ValueError."""
    if len(text) < 10 and text.isdecimal():  # short decimal digits, the usual case
        return int(text)
    return _to_int(text, 0x7FFFFFFF)


def _to_int64(text: str) -> int:
    """Parse *text* like Java's Long.parseLong. Raises ValueError."""
    if len(text) < 19 and text.isdecimal():
        return int(text)
    return _to_int(text, 0x7FFFFFFFFFFFFFFF)


def _to_int(text: str, limit: int) -> int:
    if len(text) > 64 or not _DIGITS.fullmatch(text):
        raise ValueError(text)
    value = int(text)
    if not -limit - 1 <= value <= limit:
        raise ValueError(text)
    return value


def _to_bool(text: str) -> bool:
    """Return whether *text* is the word true, in any case."""
    return text == "true" or text.lower() == "true"


_KINDS: Final[dict[str, tuple[str, Callable[[str], Any] | None]]] = {
    "str": ("string", None),
    "Int32": ("int32", _to_int32),
    "Int64": ("int64", _to_int64),
    "bool": ("boolean", _to_bool),
}
