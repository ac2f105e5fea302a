"""Avro: ``avro:FILE`` with a schema in JSON; ``avro:FILE#5`` skips five bytes, such as those of a schema registry.

Container files are read if their schema is that of FILE and they are not compressed: with a schema of its own, a body
of a hundred bytes has a list that fills the memory, and so has a compressed block.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any, Final

_CONTAINER: Final = b"Obj\x01"
_MOST_RECORDS: Final = 1000  # of a container file
_REGISTRY: Final = 5  # bytes that clients of a schema registry write first: 0, and the number of the schema


class AvroDecoder:
    """Decodes records of one schema."""

    def __init__(self, argument: str) -> None:
        """Read the schema. Raises ValueError or OSError: it cannot be used."""
        file, _, skipped = argument.partition("#")
        if not file or not (skipped or "0").isdecimal():
            raise ValueError("write FILE or FILE#BYTES, such as order.avsc or order.avsc#5")
        try:
            import fastavro
        except ImportError:
            raise ValueError("Avro needs a package: pip install fastavro") from None
        self._fastavro: Any = fastavro
        self._file = file
        self._skipped = int(skipped or "0")
        text = Path(file).read_bytes()
        try:
            self._schema = fastavro.parse_schema(json.loads(text))
            self._form = fastavro.schema.to_parsing_canonical_form(self._schema)
        except Exception as problem:
            raise ValueError(f"{file} is not a schema of Avro: {problem}") from None

    def decode(self, topic: str, body: bytes, properties: Mapping[str, str]) -> object:
        """Return the record.

        Raises:
            ValueError: bytes are left after it, or it begins with those of a schema registry.
            Exception: of the library, for other bodies that are no record of the schema.
        """
        if body.startswith(_CONTAINER):
            return self._records(body)
        try:
            return self._record(body, self._skipped)
        except Exception as problem:
            if self._skipped or not self._is_of_registry(body):
                raise
            raise ValueError(
                f"the body begins with the {_REGISTRY} bytes of a schema registry: "
                f"use the decoder avro:{self._file}#{_REGISTRY}"
            ) from problem

    def _record(self, body: bytes, skipped: int) -> object:
        source = BytesIO(body[skipped:])
        found: object = self._fastavro.schemaless_reader(source, self._schema, None)
        left = len(source.read())
        if left:
            raise ValueError(f"{left} bytes are left after the record; the schema may be another one")
        return found

    def _is_of_registry(self, body: bytes) -> bool:
        """Return whether the body is a record after the bytes of a schema registry."""
        if not body.startswith(b"\0"):
            return False
        try:
            self._record(body, _REGISTRY)
        except Exception:  # of the library, which has no common base class of them
            return False
        return True

    def _records(self, body: bytes) -> list[object]:
        records = self._fastavro.reader(BytesIO(body))
        if records.codec != "null":
            raise ValueError(f"a container file that is compressed, with codec {records.codec}, is not read")
        if self._fastavro.schema.to_parsing_canonical_form(records.writer_schema) != self._form:
            raise ValueError("the schema of the container file is another one")
        return list(islice(records, _MOST_RECORDS))
