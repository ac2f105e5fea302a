"""Write docs/operations/bad-input.md from the tests' table, tests/faults/bad_input.toml.

python .ci/bad_input_page.py
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "tests/faults/bad_input.toml"
PAGE = ROOT / "docs/operations/bad-input.md"
COLUMNS: Final = ("input", "message", "code", "effect")
HEAD: Final = """\
# Bad input

Error messages of GantryMQ by area, beginning with the ones that users meet first. To find one, search this page
for words of the message; words in `<angle brackets>` are placeholders for actual values. Unless a row says
otherwise, refused input has no effect: nothing is stored, changed or started, an open store is closed cleanly, and
other requests are served as before.

| Code | Meaning |
|---|---|
| a number | response code of the remoting protocol; of gRPC clients that of the status, or of an error of gRPC |
| `closed` | the connection is closed and the message is logged |
| `exit 1` | the command ends with the message on stderr, after `gantrymq: ` and without a traceback |
| `exit 2`, `exit 3` | wrong usage; the store is open in a broker |
| `starts` | the process continues, and the message is logged as a warning |
| `raises` | a program gets an exception with the message |

A one-way request never gets a response. Refused sends count in `putMessageFailedTimes` of the broker's runtime
information.

This page is generated from `tests/faults/bad_input.toml`. Each row has a test of its number in `tests/faults`
(`test_bi07_...` tests BI-07), which compares the message word for word and then sends and pulls normally on
another connection. `test_random_requests.py` sends every request with random values to a broker and a name server:
none may cause a traceback, and the broker must be able to open its store again afterwards.
"""


def main() -> None:
    PAGE.write_text(page(), encoding="utf-8")


def page() -> str:
    """Return the text of the page."""
    rows = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    areas, usual = rows.pop("areas"), rows.pop("usual_effects")
    parts = [HEAD]
    for name, area in areas.items():
        own = {number: row for number, row in rows.items() if row["area"] == name}
        text = f"{area['text'].strip()}\n\n" if "text" in area else ""
        parts.append(f"## {area['title']}\n\n{text}{_table(own, area.get('columns', COLUMNS), usual)}")
    return "\n".join(parts)


def _table(rows: Mapping[str, Mapping[str, str]], columns: Sequence[str], usual: Sequence[str]) -> str:
    """Return a Markdown table; rows with equal cells are one line."""
    lines: dict[tuple[str, ...], list[str]] = {}
    for number, row in rows.items():
        lines.setdefault(tuple(_cell(row, column, usual) for column in columns), []).append(number)
    shown = [_line("#", *(column.capitalize() for column in columns)), "|---" * (len(columns) + 1) + "|"]
    shown += [_line(", ".join(map(_anchored, numbers)), *cells) for cells, numbers in lines.items()]
    return "\n".join(shown) + "\n"


def _cell(row: Mapping[str, str], column: str, usual: Sequence[str]) -> str:
    text = row[column].replace("|", r"\|")
    if column == "message":
        return f"`{text}`"
    return "" if column == "effect" and row[column] in usual else text


def _anchored(number: str) -> str:
    return f'<a id="{number.lower()}"></a>{number}'


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
