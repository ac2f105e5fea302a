"""Every row of docs/operations/bad-input.md has a test, every test a row."""

import re
from collections import Counter
from pathlib import Path

HERE = Path(__file__).parent
TEST = re.compile(r"^def test_bi(\d{2,3})_", re.MULTILINE)


def test_every_row_has_one_test_and_every_test_a_row(rows):
    files = sorted(HERE.glob("test_bad_input_*.py"))
    tested = Counter(f"BI-{number}" for file in files for number in TEST.findall(file.read_text(encoding="utf-8")))
    assert tested == dict.fromkeys(rows, 1)


def test_the_rows_are_in_order_and_say_something(rows):
    assert list(rows) == [f"BI-{number:02}" for number in range(1, len(rows) + 1)]
    assert len(rows) >= 40
    for row in rows.values():
        assert all(field.strip() for field in row), row.number
        assert re.fullmatch(r"\d+|exit [0-3]|closed|raises|starts", row.code), row
