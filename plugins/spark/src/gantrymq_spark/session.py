"""A Spark session for the commands, embedded or on a cluster, and what has to be here for one."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from gantrymq.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["EMBEDDED", "open_session", "refuse_old_java", "refuse_old_spark"]

EMBEDDED = "local[*]"
OLDEST_SPARK = (4, 2)
OLDEST_JAVA = 17
INSTALL = "pip install './plugins/spark[spark]' (in a clone of GantryMQ)"
_OWN_SETTINGS = ("PYSPARK_GATEWAY_PORT", "SPARK_HOME", "SPARK_CONF_DIR")  # spark-submit, or an installed Spark
_USUAL = {
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.shuffle.partitions": "8",
}


def open_session(
    master: str | None = None, settings: Mapping[str, str] | None = None, *, name: str = "gantrymq"
) -> SparkSession:
    """A session with the sources and the sink; the one that is open already, if there is one.

    Args:
        master: where it runs, such as ``spark://host:7077``; for None what spark-submit or $SPARK_HOME's settings say,
            and `EMBEDDED` without.
        settings: of Spark, which go before ours.
        name: for the cluster's pages.

    Raises:
        ConfigError: pyspark or Java is missing or too old, or Java ends; one sentence with what to do.
    """
    refuse_old_spark()
    refuse_old_java()
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

    from gantrymq_spark import register
    from gantrymq_spark.java import quiet_startup

    where = master or ("" if any(os.environ.get(name) for name in _OWN_SETTINGS) else EMBEDDED)
    if where.startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # its workers need what is installed here
    conf = SparkConf().setAppName(name)
    for key, value in {**_USUAL, **({"spark.master": where} if where else {}), **(settings or {})}.items():
        conf.set(key, value)
    with quiet_startup(conf):
        session: SparkSession = SparkSession.builder.config(conf=conf).getOrCreate()
    register(session)
    return session


def refuse_old_spark() -> None:
    """Raises ConfigError unless pyspark can be imported and has the Python Data Source API as it is used here."""
    try:
        from pyspark import __version__
    except ImportError:
        raise ConfigError(f"pyspark is not installed, and this works with Spark; {INSTALL}") from None
    found = re.match(r"(\d+)\.(\d+)", __version__)
    if found is None or (int(found[1]), int(found[2])) < OLDEST_SPARK:
        least = ".".join(map(str, OLDEST_SPARK))
        raise ConfigError(f"pyspark {__version__} is too old, Spark {least} or newer is needed; {INSTALL}")


def refuse_old_java() -> None:
    """Raises ConfigError unless the Java that Spark would start is one it runs on."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    needs = f"Spark needs Java {OLDEST_JAVA} or newer"
    mend = "install it (on Debian: apt install openjdk-17-jre-headless), or set JAVA_HOME to it"
    if java is None or not os.path.exists(java):
        raise ConfigError(f"{needs}, and there is no {java or 'java on the PATH'}; {mend}")
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    if found is None or int(found[1]) < OLDEST_JAVA:
        raise ConfigError(f"{needs}, and {java} is {found[1] if found else 'none that says its version'}; {mend}")
