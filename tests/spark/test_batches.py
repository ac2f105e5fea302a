"""Arrow batches of stored records against Java's own reading of them and against the record-by-record reader."""

import numpy as np
import pyarrow as pa
import pytest
from golden_stores import SCENARIOS
from spark_columns import described, recorded

from gantrymq_spark.batches import record_batch
from gantrymq_spark.columns import schema


def batches(scenario, **options):
    """One batch for each file of the log."""
    found = []
    for path in scenario.log_files():
        data = path.read_bytes()
        at = [place.position for place in scenario.log() if place.file == path.name and place.check.record is not None]
        found.append(record_batch(data, np.array(at, dtype=np.int64), int(path.name), "broker-a", **options))
    return found


@pytest.mark.parametrize("name", [name for name in SCENARIOS if name != "crash/torn"])
def test_rows_are_what_java_reads(golden, name):
    scenario = golden(name)
    table = pa.Table.from_batches(batches(scenario, stored_bodies=True))
    assert table.schema == schema()
    table.validate(full=True)
    size = scenario.size("mappedFileSizeCommitLog")
    rows = table.to_pylist()
    assert [described(row, size) for row in rows] == recorded(scenario.records)
    for row in rows:
        properties = dict(row["properties"])
        assert (row["keys"], row["tags"], row["uniqueKey"], row["brokerName"]) == (
            *(properties.get(key) for key in ("KEYS", "TAGS", "UNIQ_KEY")),
            "broker-a",
        )
