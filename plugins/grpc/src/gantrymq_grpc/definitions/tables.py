"""Message classes from tables: a class statement with field numbers becomes a class of a private descriptor pool.

    @message
    class Digest(ProtobufMessage):
        type: DigestType = field(1)
        checksum: str = field(2)

`message` builds the descriptor from the annotations and returns the class that `google.protobuf` makes of it. Type
checkers see the statement itself: its attributes, and a constructor that takes them as keywords. The pool is private,
so that the generated modules of an SDK can be imported in the same process.

| annotation | type |
|---|---|
| `str`, `bytes`, `bool`, `Float`, `Int32`, `Int64` | string, bytes, bool, float, int32, int64 |
| an `IntEnum` | an enum; nested in the class if its statement is |
| a class of `message` | a message |
| `MutableSequence[X]`, `MutableMapping[str, str]` | repeated, map |
"""

from collections.abc import MutableMapping, MutableSequence
from enum import IntEnum
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    NamedTuple,
    Self,
    TypeVar,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)

if TYPE_CHECKING:

    class ProtobufMessage:
        """The methods of messages that type checkers know; `google.protobuf` has no types of its own."""

        DESCRIPTOR: Any

        @classmethod
        def FromString(cls, data: bytes) -> Self: ...  # noqa: N802
        def SerializeToString(self) -> bytes: ...  # noqa: N802
        def HasField(self, name: str) -> bool: ...  # noqa: N802
        def WhichOneof(self, group: str) -> str | None: ...  # noqa: N802
        def ClearField(self, name: str) -> None: ...  # noqa: N802
        def CopyFrom(self, other: Self) -> None: ...  # noqa: N802
        def ByteSize(self) -> int: ...  # noqa: N802
else:
    from google.protobuf.message import Message as ProtobufMessage

__all__ = ["PACKAGE", "Float", "Int32", "Int64", "ProtobufMessage", "field", "message", "one_of", "optional"]

PACKAGE = "apache.rocketmq.v2"

Int32 = Annotated[int, FieldDescriptorProto.TYPE_INT32]
Int64 = Annotated[int, FieldDescriptorProto.TYPE_INT64]
Float = Annotated[float, FieldDescriptorProto.TYPE_FLOAT]

_SCALARS = {
    str: FieldDescriptorProto.TYPE_STRING,
    bytes: FieldDescriptorProto.TYPE_BYTES,
    bool: FieldDescriptorProto.TYPE_BOOL,
}
_pool = descriptor_pool.DescriptorPool()
_files: dict[str, str] = {}  # full name of a message or enum in the pool -> its file

T = TypeVar("T", bound=ProtobufMessage)


class _Field(NamedTuple):
    number: int
    oneof: str = ""
    optional: bool = False


def field(number: int) -> Any:
    """A field that has its default value if it is absent."""
    return _Field(number)


def optional(number: int) -> Any:
    """A field whose presence is recorded (`HasField`)."""
    return _Field(number, optional=True)


def one_of(group: str, number: int) -> Any:
    """A field of which at most one in *group* is present (`WhichOneof`)."""
    return _Field(number, oneof=group)


@dataclass_transform(kw_only_default=True)
def message(statement: type[T]) -> type[T]:
    """Return the message class that a class statement declares."""
    package = getattr(statement, "package", PACKAGE)
    descriptor = DescriptorProto(name=statement.__name__)
    file = FileDescriptorProto(name=f"{package}.{statement.__name__}", package=package, syntax="proto3")
    for member in vars(statement).values():
        if isinstance(member, type) and issubclass(member, IntEnum):
            descriptor.enum_type.append(_enum(member))
            _files[f"{package}.{member.__qualname__}"] = file.name
    for name, annotation in get_type_hints(statement, include_extras=True).items():
        given = vars(statement).get(name)
        if isinstance(given, _Field):
            _add_field(descriptor, name, given, annotation, package)
    _add_synthetic_oneofs(descriptor)
    file.message_type.append(descriptor)
    used = {_files[each.type_name[1:]] for each in descriptor.field if each.type_name and not _is_map(descriptor, each)}
    file.dependency.extend(sorted(used - {file.name}))
    _pool.Add(file)
    full_name = f"{package}.{statement.__name__}"
    _files[full_name] = file.name
    made: type[T] = message_factory.GetMessageClass(_pool.FindMessageTypeByName(full_name))
    return made


def _add_field(descriptor: DescriptorProto, name: str, given: _Field, annotation: Any, package: str) -> None:
    added = descriptor.field.add(name=name, number=given.number, label=FieldDescriptorProto.LABEL_OPTIONAL)
    if get_origin(annotation) is MutableSequence:
        added.label = FieldDescriptorProto.LABEL_REPEATED
        (annotation,) = get_args(annotation)
    elif get_origin(annotation) is MutableMapping:
        added.label = FieldDescriptorProto.LABEL_REPEATED
        added.type = FieldDescriptorProto.TYPE_MESSAGE
        added.type_name = f".{package}.{descriptor.name}.{_add_entry(descriptor, name)}"
        return
    _set_type(added, annotation, package)
    if given.oneof:
        declared = [each.name for each in descriptor.oneof_decl]
        if given.oneof not in declared:
            descriptor.oneof_decl.add(name=given.oneof)
            declared.append(given.oneof)
        added.oneof_index = declared.index(given.oneof)
    added.proto3_optional = given.optional


def _set_type(added: FieldDescriptorProto, annotation: Any, package: str) -> None:
    if get_origin(annotation) is Annotated:
        added.type = get_args(annotation)[1]
    elif annotation in _SCALARS:
        added.type = _SCALARS[annotation]
    elif issubclass(annotation, IntEnum):
        added.type = FieldDescriptorProto.TYPE_ENUM
        added.type_name = f".{package}.{annotation.__qualname__}"
        if added.type_name[1:] not in _files:
            _files[added.type_name[1:]] = _add_enum_file(annotation, package)
    else:
        added.type = FieldDescriptorProto.TYPE_MESSAGE
        added.type_name = f".{annotation.DESCRIPTOR.full_name}"


def _add_entry(descriptor: DescriptorProto, field_name: str) -> str:
    """Add the message of a map's entries, both of whose fields are strings, and return its name."""
    name_of_entry = "".join(word.capitalize() for word in field_name.split("_")) + "Entry"
    entry = descriptor.nested_type.add(name=name_of_entry)
    entry.options.map_entry = True
    for number, name in enumerate(("key", "value"), 1):
        label, kind = FieldDescriptorProto.LABEL_OPTIONAL, FieldDescriptorProto.TYPE_STRING
        entry.field.add(name=name, number=number, label=label, type=kind)
    return name_of_entry


def _add_synthetic_oneofs(descriptor: DescriptorProto) -> None:
    """Give each optional field its own oneof, after the declared ones, as protoc does."""
    for each in descriptor.field:
        if each.proto3_optional:
            each.oneof_index = len(descriptor.oneof_decl)
            descriptor.oneof_decl.add(name=f"_{each.name}")


def _add_enum_file(enum: type[IntEnum], package: str) -> str:
    name = f"{package}.{enum.__qualname__}"
    file = FileDescriptorProto(name=name, package=package, syntax="proto3")
    file.enum_type.append(_enum(enum))
    _pool.Add(file)
    return name


def _enum(enum: type[IntEnum]) -> EnumDescriptorProto:
    descriptor = EnumDescriptorProto(name=enum.__name__)
    for name, member in enum.__members__.items():
        descriptor.value.add(name=name, number=member.value)
    return descriptor


def _is_map(descriptor: DescriptorProto, each: FieldDescriptorProto) -> bool:
    return any(each.type_name.endswith(f".{descriptor.name}.{entry.name}") for entry in descriptor.nested_type)
