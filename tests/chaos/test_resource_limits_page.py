"""docs/operations/resource-limits.md names a test for every row of its tables, and every test that it names exists."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/operations/resource-limits.md").read_text()


def test_every_row_has_a_test_and_every_test_is_there() -> None:
    rows = re.findall(r"^\| ([FDCKM]\d) \| (?!`)", PAGE, re.MULTILINE)
    tests = re.findall(r"^\| ([FDCKM]\d) \| `(tests/\S+\.py)::(test_\w+)` \|$", PAGE, re.MULTILINE)
    assert len(rows) == len(set(rows)) > 10
    assert sorted({row for row, _, _ in tests}) == sorted(rows)
    for _, path, name in tests:
        assert re.search(rf"^(?:async )?def {name}\(", (ROOT / path).read_text(), re.MULTILINE), f"{path}::{name}"
