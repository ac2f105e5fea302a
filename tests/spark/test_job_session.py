"""Jobs in Spark: output, progress and interruption."""

import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("pyspark")

from click.testing import CliRunner

from gantrymq.cli import main
from gantrymq_spark import register
from gantrymq_spark.commands.spark import sentence_of
from gantrymq_spark.session import open_session

pytestmark = pytest.mark.spark

CTRL_C = """
import os, signal, threading, time
from gantrymq_spark.commands.spark import job_session
with job_session("sleep", "local[1]", {}) as session:
    tracker, own = session.sparkContext.statusTracker(), os.getpid()
    def when_it_runs():
        while not tracker.getActiveStageIds():
            time.sleep(0.05)
        os.kill(own, signal.SIGINT)
    threading.Thread(target=when_it_runs, daemon=True).start()
    session.sparkContext.parallelize([1], 1).map(lambda _: time.sleep(100)).collect()
"""
MISTAKES = {
    "a folder that is not there": lambda spark: spark.read.format("gantrymq.store").load("/nowhere").count(),
    "no name server": lambda spark: (
        spark.read.format("gantrymq").options(namesrv="127.0.0.1:1", subscribe="T").load().count()
    ),
    "a worker that is refused": lambda spark: spark.sparkContext.parallelize([1]).map(refused).collect(),
    "a worker that ends": lambda spark: spark.sparkContext.parallelize([1]).map(os._exit).collect(),
    "a column that is not there": lambda spark: spark.range(1).select("nothing").collect(),
}
SENTENCES = {
    "a folder that is not there": "/nowhere is not a folder; give the store's folder, the broker's storePathRootDir",
    "no name server": "no name server answers at 127.0.0.1:1 ",
    "a worker that is refused": "a task failed: PermissionError: [Errno 13] not for you: '/x'",
    "a worker that ends": "a task failed: Python worker exited unexpectedly",
    "a column that is not there": "Spark: A column, variable, or function parameter with name `nothing` cannot be",
}


def refused(_):
    raise PermissionError(13, "not for you", "/x")


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_sentence_without_a_stack(spark, mistake):
    register(spark)
    with pytest.raises(Exception, match="(?s).") as problem:
        MISTAKES[mistake](spark)
    said = sentence_of(str(problem.value))
    assert said.startswith(SENTENCES[mistake])
    assert "\n" not in said


def test_executors_of_another_python_are_told(spark, monkeypatch, tmp_path):
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(tmp_path / "python"))
    with pytest.raises(Exception, match="(?s).") as problem:
        spark.sparkContext.parallelize([1]).map(str).collect()
    assert sentence_of(str(problem.value)).startswith(f"executors have no {tmp_path}/python; set PYSPARK_PYTHON to an ")
    other = "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.12 than that in driver: 3.11, PySpark"
    assert sentence_of(other) == "executors run Python 3.12, the driver 3.11; set PYSPARK_PYTHON to the same version"


def test_a_session_that_is_open_is_used_and_stays(spark, golden, tmp_path):
    arguments = ["pipeline", "rebuild", str(golden("normal").store), "--to", str(tmp_path / "made"), "--output", "json"]
    done = CliRunner().invoke(main, arguments)
    assert (done.exit_code, done.stderr) == (0, "")
    assert json.loads(done.stdout)["queues"]["entries"] == 211
    assert open_session() is spark
    assert spark.range(3).count() == 3
    again = CliRunner().invoke(main, arguments)
    assert again.exit_code == 1
    assert again.stderr.startswith(f"gantrymq: {tmp_path}/made/consumequeue already exists; move it away")


def test_a_process_of_its_own_says_nothing_of_spark(golden, tmp_path):
    arguments = ["pipeline", "rebuild", str(golden("normal").store), "--to", str(tmp_path / "made")]
    code = f"from gantrymq.cli import main; main({arguments!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert [line.split(": ")[-1] for line in done.stdout.splitlines()] == [
        "16 queue files with 211 entries from 211 records",
        "4 index files with 416 entries from 211 records",
    ]
    assert all("of them are identical in" in line for line in done.stderr.splitlines())
    arguments += ["--conf", "spark.driver.memory=much"]
    code = f"from gantrymq.cli import main; main({arguments!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (
        1,
        "gantrymq: Spark did not start: Invalid maximum heap size: -Xmxmuch\n",
    )


def test_ctrl_c_ends_job_and_session():
    done = subprocess.run([sys.executable, "-c", CTRL_C], capture_output=True, text=True, check=False, timeout=90)
    assert (done.returncode, done.stderr) == (130, "gantrymq: interrupted\n")
