"""A master and two workers of Spark on this machine, and jobs on them, as docs/spark/cluster.md has it."""

import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("pyspark")

from spark_columns import recorded
from standalone_cluster import StandaloneCluster

pytestmark = pytest.mark.spark

PROGRAM = """
import json, os, sys
from gantrymq.cli import main
from gantrymq_spark.commands.spark import job_session

master, store, made = sys.argv[1:]
with job_session("test", master, {"spark.executor.memory": "512m"}) as session:
    context = session.sparkContext
    while context._jsc.sc().getExecutorMemoryStatus().size() < 3:  # the driver and two executors
        pass
    messages = session.read.format("gantrymq.store").option("maxBytesPerPartition", "8k").load(store)
    rows = {row.topic: row["count"] for row in messages.groupBy("topic").count().collect()}
    where = context.range(8, numSlices=8).map(lambda _: os.environ["SPARK_EXECUTOR_DIRS"]).distinct().count()
    print(json.dumps({"rows": rows, "executors": where}))
    main(["pipeline", "rebuild", store, "--to", made, "--master", master, "--output", "json"])
"""


def test_two_workers_do_the_work(golden, tmp_path):
    scenario = golden("normal")
    made = tmp_path / "made"
    with StandaloneCluster(tmp_path) as cluster:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, cluster.url, scenario.store, made],
            env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
    assert (done.returncode, done.stderr) == (0, "")
    counted, rebuilt = map(json.loads, done.stdout.splitlines())
    topics = [line["topic"] for line in recorded(scenario.records)]
    assert counted == {"rows": {topic: topics.count(topic) for topic in set(topics)}, "executors": 2}
    assert rebuilt["queues"]["entries"] == len(topics)
    queues = list((scenario.store / "consumequeue").rglob("[0-9]" * 20))
    assert len(queues) == 16
    for path in queues:
        assert (made / path.relative_to(scenario.store)).read_bytes() == path.read_bytes()
