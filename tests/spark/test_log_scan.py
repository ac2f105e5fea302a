"""Whole store folders as rows, and their damage: against Java's reading of them, wherever the log is cut."""

import numpy as np
import pyarrow as pa
import pytest
from golden_stores import SCENARIOS
from spark_columns import described, recorded

from gantrymq.world.real import RealFiles
from gantrymq_spark.batches import Shown
from gantrymq_spark.columns import schema
from gantrymq_spark.log_scan import LogScan
from gantrymq_spark.store_ranges import plan
from gantrymq_store_files.log_walk import LogDamage, scan
from gantrymq_store_tools.layout import find_layout
from gantrymq_store_tools.log_reader import LogReader


def read(root, split_bytes=1 << 26, **shown):
    """All rows, and all damage."""
    files, batches, damages = RealFiles(), [], []
    for part in plan(files, root, split_bytes):
        found = LogScan(files, part)
        batches += found.batches(Shown(**shown))
        damages += found.damages
    return pa.Table.from_batches(batches, schema=shown.get("schema", schema())), damages


@pytest.mark.parametrize("split_bytes", [1 << 26, 10_007])
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_store_is_what_java_reads(golden, name, split_bytes):
    scenario = golden(name)
    table, damages = read(scenario.store, split_bytes, stored_bodies=True)
    table.validate(full=True)
    said = recorded(scenario.records)
    if name == "crash/torn":  # Java's client decoder, which checks no CRC, takes what is torn for a record
        assert said.pop()["topic"] == ""
        assert [(each.kind, each.damage) for each in damages] == [("torn", False)]
    else:
        assert not damages
    size = scenario.size("mappedFileSizeCommitLog")
    assert [described(row, size) for row in table.to_pylist()] == said
