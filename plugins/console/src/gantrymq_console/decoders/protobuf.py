"""Protobuf: ``protobuf:FILE#TYPE``, with a set of descriptors as ``protoc`` writes it.

protoc --include_imports --descriptor_set_out=shop.desc shop.proto
gantrymq console --decoder 'Orders=protobuf:shop.desc#shop.Order'
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

_UNKNOWN: Final = "(unknown fields)"


class ProtobufDecoder:
    """Decodes messages of one type."""

    def __init__(self, argument: str) -> None:
        """Read the descriptors. Raises ValueError or OSError: they cannot be used."""
        file, _, kind = argument.rpartition("#")
        if not file or not kind:
            raise ValueError("write FILE#TYPE, such as shop.desc#shop.Order")
        try:
            from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory, unknown_fields
            from google.protobuf.message import DecodeError
        except ImportError:
            raise ValueError("Protobuf needs a package: pip install protobuf") from None
        self._json, self._unknown = json_format, unknown_fields
        self._pool = descriptor_pool.DescriptorPool()
        data = Path(file).read_bytes()
        try:
            files = descriptor_pb2.FileDescriptorSet.FromString(data).file
        except DecodeError:
            raise ValueError(f"{file} is not a set of descriptors; protoc --descriptor_set_out writes one") from None
        try:
            for each in files:
                self._pool.Add(each)
            found = self._pool.FindMessageTypeByName(kind)
        except (KeyError, TypeError) as problem:
            types = sorted(f"{each.package}.{one.name}".lstrip(".") for each in files for one in each.message_type)
            raise ValueError(
                f"{file} has no message type {kind} with all of its imports; it has {', '.join(types[:20]) or 'none'} "
                f"(protoc needs --include_imports): {problem}"
            ) from None
        self._class: Any = message_factory.GetMessageClass(found)

    def decode(self, topic: str, body: bytes, properties: Mapping[str, str]) -> object:
        """Return the fields, with the names of the file; numbers of fields that the type does not have are added."""
        message = self._class.FromString(body)
        found: dict[str, Any] = self._json.MessageToDict(
            message, preserving_proto_field_name=True, descriptor_pool=self._pool
        )
        unknown = sorted({each.field_number for each in self._unknown.UnknownFieldSet(message)})
        return {**found, _UNKNOWN: unknown} if unknown else found
