"""A Spark of two threads in this process, for tests."""

import os
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / ".ci"))

from javas import no_spark


def started(folder: Path) -> SparkSession:
    """The session; skips the test where there is no Java for it."""
    if missing := no_spark():
        pytest.skip(missing)
    os.environ["PYSPARK_PYTHON"] = sys.executable  # workers need what is installed here
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.warehouse.dir": str(folder),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.python.sql.dataFrameDebugging.enabled": "false",  # a look at the stack for every part of a column
    }
    session = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
