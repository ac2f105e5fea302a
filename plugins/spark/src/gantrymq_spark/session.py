"""The Spark session of the commands, embedded or on a cluster, and checks of its requirements."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from gantrymq.errors import ConfigError, install_command

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["EMBEDDED", "open_session", "refuse_old_java", "refuse_old_spark"]

EMBEDDED = "local[*]"
OLDEST_SPARK = (4, 2)
OLDEST_JAVA = 17
INSTALL = install_command("gantrymq-spark", extra="spark")
_OWN_SETTINGS = (
    "PYSPARK_GATEWAY_PORT",
    "SPARK_HOME",
    "SPARK_CONF_DIR",
)  # set by spark-submit or for an installed Spark
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
    """Return a session with the sources and the sink registered; an existing session is reused.

    Args:
        master: where Spark runs, such as ``spark://host:7077``; None for the setting of spark-submit or $SPARK_HOME,
            else `EMBEDDED`.
        settings: Spark settings, which override the defaults.
        name: the application name on the cluster's pages.

    Raises:
        ConfigError: pyspark or Java is missing or too old, or Java exits; one sentence that says what to do.
    """
    refuse_old_spark()
    refuse_old_java()
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

    from gantrymq_spark import register
    from gantrymq_spark.java import quiet_startup

    where = master or ("" if any(os.environ.get(name) for name in _OWN_SETTINGS) else EMBEDDED)
    if where.startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers need the packages installed here
    conf = SparkConf().setAppName(name)
    for key, value in {**_USUAL, **({"spark.master": where} if where else {}), **(settings or {})}.items():
        conf.set(key, value)
    with quiet_startup(conf):
        session: SparkSession = SparkSession.builder.config(conf=conf).getOrCreate()
    register(session)
    return session


def refuse_old_spark() -> None:
    """Raise ConfigError unless pyspark is installed and new enough for its Python Data Source API."""
    try:
        from pyspark import __version__
    except ImportError:
        raise ConfigError(f"pyspark is not installed, and this command requires Spark; {INSTALL}") from None
    found = re.match(r"(\d+)\.(\d+)", __version__)
    if found is None or (int(found[1]), int(found[2])) < OLDEST_SPARK:
        least = ".".join(map(str, OLDEST_SPARK))
        raise ConfigError(f"pyspark {__version__} is too old, Spark {least} or newer is needed; {INSTALL}")


def refuse_old_java() -> None:
    """Raise ConfigError unless the Java that Spark would start is new enough."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    needs = f"Spark needs Java {OLDEST_JAVA} or newer"
    remedy = "install it (on Debian: apt install openjdk-17-jre-headless), or set JAVA_HOME to it"
    if java is None or not os.path.exists(java):
        raise ConfigError(f"{needs}, and there is no {java or 'java on the PATH'}; {remedy}")
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    if found is None or int(found[1]) < OLDEST_JAVA:
        raise ConfigError(f"{needs}, and {java} is {found[1] if found else 'of an unknown version'}; {remedy}")
