"""Every row of bad_input.toml has a test, every test a row, and the page for users is generated from the rows."""

import re
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

from bad_input_table import TABLE

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PAGE = ROOT / "docs/operations/bad-input.md"
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


def test_every_row_is_in_an_area_of_the_page_and_every_area_has_rows(rows):
    areas = tomllib.loads(TABLE.read_text(encoding="utf-8"))["areas"]
    assert {row.area for row in rows.values()} == set(areas)


def test_the_page_is_generated_from_the_rows():
    show = "import sys; sys.path[0] = '.ci'; import bad_input_page as b; sys.stdout.buffer.write(b.page().encode())"
    made = subprocess.run([sys.executable, "-c", show], cwd=ROOT, capture_output=True, check=True).stdout.decode()
    assert PAGE.read_text(encoding="utf-8") == made, "bring the page up to date with: python .ci/bad_input_page.py"


def test_links_to_rows_and_areas_lead_to_a_place_on_the_page():
    shown = PAGE.read_text(encoding="utf-8")
    titles = re.findall(r"^## (.+)$", shown, re.MULTILINE)
    places = {*re.findall(r'<a id="([\w-]+)"', shown), *(title.lower().replace(" ", "-") for title in titles)}
    pages = [*ROOT.glob("docs/**/*.md"), *ROOT.glob("*/*/README.md")]
    texts = [page.read_text(encoding="utf-8") for page in pages]
    linked = {name for text in texts for name in re.findall(r"bad-input\.md#([\w-]+)", text)}
    assert linked
    assert linked <= places
