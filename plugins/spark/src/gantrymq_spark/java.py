"""Starts the Java process of a session without its startup messages."""

from __future__ import annotations

import os
import re
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

from gantrymq.errors import ConfigError

if TYPE_CHECKING:
    from pyspark import SparkConf

__all__ = ["quiet_startup"]

KEPT_LINES = 50
_EXCEPTION = re.compile(r"Exception in thread \"[^\"]*\" (?:[\w.$]+(?:Exception|Error): )?(.+)")


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
        self._kept: deque[str] = deque(maxlen=KEPT_LINES)
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
