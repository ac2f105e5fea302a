"""A master and two workers of Spark on this machine, and a job on them, as docs/spark-cluster.md has it."""

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
import json, sys
from pyspark.sql import functions as sql
from gantrymq_spark.session import open_session

session = open_session(sys.argv[1], {"spark.driver.host": "127.0.0.1", "spark.executor.memory": "512m"})
context = session.sparkContext
while context._jsc.sc().getExecutorMemoryStatus().size() < 3:  # the driver and two executors
    pass
store = session.read.format("gantrymq.store").option("maxBytesPerPartition", "8k").load(sys.argv[2])
rows = {row.topic: row["count"] for row in store.groupBy("topic").count().collect()}
where = context.range(8, numSlices=8).map(lambda _: __import__("os").environ["SPARK_EXECUTOR_DIRS"]).distinct().count()
print(json.dumps({"rows": rows, "executors": where}))
session.stop()
"""


def test_two_workers_do_the_work(golden, tmp_path):
    scenario = golden("normal")
    environ = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    made = tmp_path / "made"
    rebuild = ["pipeline", "rebuild", str(scenario.store), "--to", str(made), "--output", "json"]
    with StandaloneCluster(tmp_path) as cluster:
        options = ["--master", cluster.url, "--conf", "spark.executor.memory=512m"]
        commands = (
            [sys.executable, "-c", PROGRAM, cluster.url, str(scenario.store)],
            [sys.executable, "-c", f"from gantrymq.cli import main; main({[*rebuild, *options]!r})"],
        )
        done = [
            subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=120)
            for command in commands
        ]
    for each in done:
        assert each.returncode == 0, each.stderr
    counted, rebuilt = (json.loads(each.stdout) for each in done)
    topics = [line["topic"] for line in recorded(scenario.records)]
    assert counted == {"rows": {topic: topics.count(topic) for topic in set(topics)}, "executors": 2}
    assert rebuilt["queues"]["entries"] == len(topics)
    for path in (scenario.store / "consumequeue").rglob("0*"):
        assert (made / path.relative_to(scenario.store)).read_bytes() == path.read_bytes()
