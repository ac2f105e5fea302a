"""A streaming query that is killed between and inside micro-batches: its Parquet has every offset once."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("gantrymq_storage_mmap")
pytest.importorskip("gantrymq_filter_tag")

from gantrymq_spark import register
from gantrymq_testing.running_broker import RunningBroker

pytestmark = pytest.mark.spark
SETTINGS = {"plugins": "storage_mmap,filter_tag,admin", "store": "mmap"}
QUERY = Path(__file__).parent / "live_query.py"
QUEUES, A_KILL, DEADLINE_S = 3, 60, 120


@pytest.fixture
def broker(tmp_path):
    with RunningBroker(tmp_path / "broker", SETTINGS) as running:
        running.create_topic("Killed", QUEUES)
        yield running


def newest(folder):
    """The number of the newest micro-batch in a log of a checkpoint, -1 before the first."""
    return max((int(each.name) for each in folder.glob("*") if each.name.isdigit()), default=-1)


def is_inside(checkpoint):
    """Whether a micro-batch is planned and not committed."""
    return newest(checkpoint / "commits") < newest(checkpoint / "offsets")


@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.long)])
def test_every_offset_is_in_the_parquet_once(spark, broker, tmp_path, kills):
    register(spark)
    folder, checkpoint = tmp_path / "rows", tmp_path / "checkpoint"
    sent, died_inside = 0, []
    command = [sys.executable, str(QUERY), broker.namesrv, "Killed", str(folder), str(checkpoint)]
    for kill in range(kills):
        for number in range(sent, sent + A_KILL):
            broker.put("Killed", b"body %d" % number, queue_id=number % QUEUES)
        sent += A_KILL
        inside, before = kill % 2 == 0, newest(checkpoint / "commits")
        with subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        ) as run:
            deadline = time.monotonic() + DEADLINE_S
            try:
                while newest(checkpoint / "commits") <= before or is_inside(checkpoint) != inside:
                    assert run.poll() is None, f"the query ended with {run.returncode}"
                    assert time.monotonic() < deadline, "the query does not get to work"
            finally:
                os.killpg(run.pid, signal.SIGKILL)
        died_inside.append(is_inside(checkpoint))
    assert True in died_inside
    assert False in died_inside

    options = {"namesrv": broker.namesrv, "subscribe": "Killed", "startingOffsets": "earliest"}
    frame = spark.readStream.format("gantrymq").options(**options).load()
    rows = frame.selectExpr("queueId", "queueOffset", "cast(body as string) as body", "cast(null as string) as slept")
    writer = rows.writeStream.format("parquet").option("checkpointLocation", str(checkpoint))
    assert writer.trigger(availableNow=True).start(str(folder)).awaitTermination(DEADLINE_S)
    found = spark.read.parquet(str(folder)).collect()
    assert sorted((row.queueId, row.queueOffset, row.body) for row in found) == [
        (queue, at, f"body {at * QUEUES + queue}") for queue in range(QUEUES) for at in range(sent // QUEUES)
    ]
