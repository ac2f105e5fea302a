"""Java's recorded answers to SQL92 expressions: sql92.jsonl.xz, written by pack_sql92.py."""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

FILE = Path(__file__).resolve().parent / "sql92.jsonl.xz"


class Answered(NamedTuple):
    """A pair and the answer of Java's filter 5.3.3."""

    expression: str
    properties: bytes
    answer: str  # true, false, null, refused (by the parser) or failed (on the message)


def read() -> list[Answered]:
    """The frozen pairs, in their order."""
    lines = lzma.decompress(FILE.read_bytes()).decode("ascii").splitlines()
    found = map(json.loads, lines)
    return [Answered(expression, properties.encode("latin-1"), answer) for expression, properties, answer in found]


def write(answered: Iterable[Answered]) -> None:
    """One line of JSON each: expression, raw properties with a character for each byte, and the answer."""
    lines = (json.dumps([one.expression, one.properties.decode("latin-1"), one.answer]) + "\n" for one in answered)
    FILE.write_bytes(lzma.compress("".join(lines).encode("ascii"), preset=9 | lzma.PRESET_EXTREME))
