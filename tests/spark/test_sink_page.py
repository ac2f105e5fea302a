"""The page of the sink names every option and every column."""

import re
from pathlib import Path

from gantrymq_spark.sink.options import OPTIONS, TAKEN

PAGE = Path(__file__).parents[2] / "docs/spark/sink.md"


def test_the_page_names_every_column_and_option_and_no_other():
    columns, options = PAGE.read_text().split("## Options")
    assert sorted(re.findall(r"^\| `(\w+)` \|", columns, re.MULTILINE)) == sorted(TAKEN)
    assert sorted(re.findall(r"^\| `(\w+)` \|", options, re.MULTILINE)) == sorted(OPTIONS)
