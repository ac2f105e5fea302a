"""The Spark session of the commands, embedded or on a cluster: requirements, and a start without Java's messages."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

from gantrymq.errors import ConfigError, install_command

if TYPE_CHECKING:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

__all__ = ["EMBEDDED", "open_session", "quiet_startup", "refuse_old_java", "refuse_old_spark"]

_KEPT_LINES = 50
_EXCEPTION = re.compile(r"Exception in thread \"[^\"]*\" (?:[\w.$]+(?:Exception|Error): )?(.+)")
EMBEDDED = "local[*]"
_OLDEST_SPARK = (4, 2)
_OLDEST_JAVA = 17
_INSTALL = install_command("gantrymq-spark", extra="spark")
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


@contextmanager
def quiet_startup(conf: SparkConf) -> Iterator[None]:
    """Start Java for a session that is opened in the body; does nothing if Java runs already.

    Java's stderr is held back until the body is done; later output is passed on.

    Raises:
        ConfigError: Java did not start; with its message.
    """
    from pyspark import SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is not None or _given(os.environ):
        yield
        return
    reading, writing = os.pipe()
    relay = _Relay(os.fdopen(reading, errors="replace"), lambda line: print(line, end="", file=sys.stderr, flush=True))
    try:
        launch: Any = launch_gateway
        gateway = launch(conf, {"stderr": writing})
    except PySparkRuntimeError:
        os.close(writing)
        relay.join(10)
        raise ConfigError(f"Spark did not start: {relay.problem()}") from None
    os.close(writing)
    SparkContext._ensure_initialized(gateway=gateway, conf=conf)
    yield
    relay.opened.set()


def _given(environ: Mapping[str, str]) -> bool:
    """Return whether spark-submit runs this program."""
    return "PYSPARK_GATEWAY_PORT" in environ


class _Relay(threading.Thread):
    """Reads lines until the end of the stream."""

    def __init__(self, lines: IO[str], show: Callable[[str], object]) -> None:
        super().__init__(name="stderr of Java", daemon=True)
        self.opened = threading.Event()
        self._lines = lines
        self._show = show
        self._kept: deque[str] = deque(maxlen=_KEPT_LINES)
        self.start()

    def run(self) -> None:
        for line in self._lines:
            if self.opened.is_set():
                self._show(line)
            else:
                self._kept.append(line)

    def problem(self) -> str:
        """Return the exception's line, else the first that is not a warning."""
        lines = [line.strip() for line in self._kept if line.strip() and not line.startswith("WARNING")]
        found = [match[1] for line in lines if (match := _EXCEPTION.match(line))]
        return (found or lines or ["Java exited without a message"])[0]


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
    from gantrymq_spark.session import quiet_startup

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
        raise ConfigError(f"pyspark is not installed, and this command requires Spark; {_INSTALL}") from None
    found = re.match(r"(\d+)\.(\d+)", __version__)
    if found is None or (int(found[1]), int(found[2])) < _OLDEST_SPARK:
        least = ".".join(map(str, _OLDEST_SPARK))
        raise ConfigError(f"pyspark {__version__} is too old, Spark {least} or newer is needed; {_INSTALL}")


def refuse_old_java() -> None:
    """Raise ConfigError unless the Java that Spark would start is new enough."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    needs = f"Spark needs Java {_OLDEST_JAVA} or newer"
    remedy = "install it (on Debian: apt install openjdk-17-jre-headless), or set JAVA_HOME to it"
    if java is None or not os.path.exists(java):
        raise ConfigError(f"{needs}, and there is no {java or 'java on the PATH'}; {remedy}")
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    if found is None or int(found[1]) < _OLDEST_JAVA:
        raise ConfigError(f"{needs}, and {java} is {found[1] if found else 'of an unknown version'}; {remedy}")
