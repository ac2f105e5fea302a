"""docs/spark/live.md has every option."""

import re
from pathlib import Path

from gantrymq_spark.live.options import DEFAULT_DELAY_MS, DEFAULT_WAIT_MS, OPTIONS
from gantrymq_spark.live.starting_offsets import duration_ms

PAGE = (Path(__file__).parents[2] / "docs/spark/live.md").read_text()


def test_the_table_has_every_option():
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \|", PAGE, re.MULTILINE)
    assert sorted(name for name, _ in rows) == sorted(OPTIONS)
    defaults = {name: default.strip("`") for name, default in rows}
    assert duration_ms("maxTriggerDelay", defaults["maxTriggerDelay"]) == DEFAULT_DELAY_MS
    assert duration_ms("brokerWait", defaults["brokerWait"]) == DEFAULT_WAIT_MS
