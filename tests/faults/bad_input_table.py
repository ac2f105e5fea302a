"""The rows of bad_input.toml, and the check of a test's result against its row."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import NamedTuple

TABLE = Path(__file__).with_name("bad_input.toml")
_NUMBER = re.compile(r"BI-\d{2,3}")
_PLACE = re.compile(r"<(\w+)>")


class Row(NamedTuple):
    """One row.

    ``message`` has placeholders such as ``<topic>``; ``code`` is a response code, ``exit 1``, ``closed``,
    ``raises`` or ``starts``.
    """

    number: str
    area: str
    input: str
    where: str
    message: str
    code: str
    effect: str

    def check(self, seen: str, code: int | str, /, **values: object) -> None:
        """Compare the actual message word for word; *values* fill the placeholders; white space is not compared."""
        assert str(code) == self.code, f"{self.number}: code {code}, the table says {self.code}: {seen}"
        assert " ".join(seen.split()) == self.filled(**values)

    def filled(self, **values: object) -> str:
        """Return the message with *values* in its placeholders."""
        places = set(_PLACE.findall(self.message))
        assert places == set(values), f"{self.number} has the places {sorted(places)}"
        return _PLACE.sub(lambda found: str(values[found[1]]), self.message)


def read_rows() -> dict[str, Row]:
    """Return the rows by number."""
    table = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    return {number: Row(number, **row) for number, row in table.items() if _NUMBER.fullmatch(number)}
