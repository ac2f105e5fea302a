"""An archive whose Spark process is killed while writing: its content is complete, and the next run continues."""

import contextlib
import os
import signal
import subprocess
import sys
import time

import pytest

pytest.importorskip("pyspark")

from gantrymq.world.real import RealFiles
from gantrymq_spark import register
from gantrymq_spark.jobs.archive import archive
from gantrymq_spark.jobs.archive_manifest import read_state
from gantrymq_spark.jobs.archive_read import read_archive
from gantrymq_spark.jobs.inputs import Input, messages

pytestmark = pytest.mark.spark
DEADLINE_S = 120
RUN = """
import sys
from gantrymq_spark.jobs.archive import archive
from gantrymq_spark.jobs.inputs import Input
from gantrymq_spark.session import open_session
archive(open_session("local[1]"), Input(store=sys.argv[1]), sys.argv[2], commit_messages=40)
"""


@pytest.mark.parametrize("kills", [1, pytest.param(8, marks=pytest.mark.long)])
def test_a_run_that_was_killed_is_gone_on_with(spark, golden, tmp_path, kills):
    register(spark)
    store, folder = golden("normal").store, tmp_path / "archive"
    for kill in range(kills):
        version = read_state(RealFiles(), folder).version
        command = [sys.executable, "-c", RUN, str(store), str(folder)]
        with subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        ) as run:
            deadline = time.monotonic() + DEADLINE_S
            while not any((folder / "_staging").glob("*")) or read_state(RealFiles(), folder).version <= version:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    run.wait(0.05)
                    break
                assert time.monotonic() < deadline, "the run does not get to work"
            os.killpg(run.pid, signal.SIGKILL)
        state = read_state(RealFiles(), folder)
        assert state.version > version or kill, "it was killed before it had done anything"
        rows = read_archive(spark, str(folder)).select("topic", "queueId", "queueOffset").collect()
        assert len(rows) == len(set(rows)) == sum(file.rows for file in state.files.values())
    report = archive(spark, Input(store=str(store)), str(folder))
    given = Input(store=str(store), options={"systemTopics": "false", "unwrapBatches": "true"})
    order = ("topic", "queueId", "queueOffset")
    assert (
        read_archive(spark, str(folder)).orderBy(*order).collect() == messages(spark, given).orderBy(*order).collect()
    )
    assert kills > 1 or report.messages > 0
    assert list((folder / "_staging").iterdir()) == []
