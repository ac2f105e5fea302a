"""`rebuild` of gantrymq-spark on Java's stores: ranges give the result of one process, and Java's files."""

import pytest
from golden_stores import SCENARIOS

from gantrymq.world.real import RealFiles
from gantrymq_spark.jobs import rebuild
from gantrymq_store_tools.rebuild_store import rebuild_index, rebuild_queues

LEFT_OUT = {"cleaned/cleaned", "crash/recovered", "crash/torn"}  # see test_store_tools: no log says all they hold


@pytest.mark.parametrize("range_bytes", [7001, 1 << 20])
@pytest.mark.parametrize("name", SCENARIOS)
def test_what_ranges_make_is_what_one_process_makes_and_java_s(golden, tmp_path, name, range_bytes):
    store = golden(name).store
    before = contents(store)
    done = rebuild.rebuild(RealFiles(), store, tmp_path / "made", lambda time_ms: 0, range_bytes=range_bytes, shares=3)
    whole = [
        rebuild_queues(RealFiles(), store, tmp_path / "whole"),
        rebuild_index(RealFiles(), store, tmp_path / "whole", lambda time_ms: 0),
    ]
    made = contents(tmp_path / "made")
    assert made == contents(tmp_path / "whole")
    for ours, theirs in zip((done.queues, done.index), whole, strict=True):
        assert ours.to_json() | {"target": ""} == theirs.to_json() | {"target": ""}
    assert contents(store) == before
    if name not in LEFT_OUT:
        queues = {path: data for path, data in before.items() if path.split("/")[0].endswith("consumequeue")}
        assert {path: data for path, data in made.items() if not path.startswith("index/")} == queues
        index = [data for path, data in sorted(before.items()) if path.startswith("index/")]
        assert [data for path, data in sorted(made.items()) if path.startswith("index/")] == index


def contents(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
