"""Parse the table of docs/operations/bad-input.md: the promise of each row, and a check of a test's result."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

PAGE = Path(__file__).parents[2] / "docs/operations/bad-input.md"
_ROW = re.compile(r"\| (BI-\d{2,3}) \| (.+?) \| (.+?) \| (.+?) \| (.+?) \| (.+?) \|")
_PLACE = re.compile(r"<(\w+)>")


class Row(NamedTuple):
    """One row.

    ``sentence`` has placeholders such as ``<topic>``; ``code`` is a response code, ``exit 1``, ``closed``,
    ``raises`` or ``starts``.
    """

    number: str
    comes_in: str
    where: str
    sentence: str
    code: str
    rest: str

    def check(self, seen: str, code: int | str, /, **values: object) -> None:
        """Compare the actual sentence word for word; *values* fill the placeholders; white space is not compared."""
        assert str(code) == self.code, f"{self.number}: code {code}, the table says {self.code}: {seen}"
        assert " ".join(seen.split()) == self.filled(**values)

    def filled(self, **values: object) -> str:
        """The sentence with *values* in its places."""
        places = set(_PLACE.findall(self.sentence))
        assert places == set(values), f"{self.number} has the places {sorted(places)}"
        return _PLACE.sub(lambda found: str(values[found[1]]), self.sentence)


def read_rows() -> dict[str, Row]:
    """Rows by number. Their sentences are in code quotes."""
    rows: dict[str, Row] = {}
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if not line.startswith("| BI-"):
            continue
        found = _ROW.fullmatch(line.replace("\\|", "\0"))
        assert found, f"not a row of six columns: {line}"
        row = Row(*(each.replace("\0", "|") for each in found.groups()))
        assert row.number not in rows, f"{row.number} stands twice"
        rows[row.number] = row._replace(sentence=row.sentence.strip("` "))
    return rows
