"""The Spark options, session and progress that all jobs share, and errors as one sentence.

Spark's error messages are pages long; the relevant sentence is extracted from them.
"""

from __future__ import annotations

import logging
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gantrymq.errors import GantryError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_OURS = re.compile(r"^\s*gantrymq[\w.]*\.\w+: (.+)$", re.MULTILINE)  # the last line of a traceback
_VERSIONS = re.compile(r"Python in worker(?: has)?(?: a)? different version:? \D*(\d[\d.]*)\D+(\d[\d.]*\d)")
_MODULE = re.compile(r"^\s*ModuleNotFoundError: No module named '([\w]+)", re.MULTILINE)
_PYTHONS = re.compile(r"^\s*((?:[a-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Exit|Interrupt)(?:: .+)?)$", re.MULTILINE)
_JAVAS = re.compile(r"^: (?:[\w.$]+: )?(.+)$", re.MULTILINE)
_LOST = re.compile(r"most recent failure: Lost task [^:]*: (?:[\w.$]+(?:Exception|Error): )?(.+)")
_NO_PROGRAM = re.compile(r'Cannot run program "([^"]+)"')
_SPARKS = re.compile(r"^(?:\[[\w.]+\] )?(.+?)(?:\.? SQLSTATE: \w+.*)?$", re.MULTILINE)
_PAGE = "docs/spark/cluster.md describes its installation"
Command = TypeVar("Command", bound=Callable[..., Any])
_INTERRUPTED = 130  # exit code after Ctrl-C
_PROGRESS = "gantrymq_spark.progress"  # in click's context


def sentence_of(text: str) -> str:
    """Return GantryMQ's own sentence if *text* contains one, else the first message of a worker or of Spark."""
    if ours := _OURS.findall(text):
        return str(ours[-1]).strip()
    if versions := _VERSIONS.search(text):
        return f"executors run Python {versions[1]}, the driver {versions[2]}; set PYSPARK_PYTHON to the same version"
    if module := _MODULE.search(text):
        return f"the Python of the executors has no {module[1]}; {_PAGE}"
    if program := _NO_PROGRAM.search(text):
        return f"executors have no {program[1]}; set PYSPARK_PYTHON to an installed Python, {_PAGE}"
    if "Traceback (most recent call last)" in text and (pythons := _PYTHONS.findall(text)):
        return f"a task failed: {pythons[-1].strip()}"
    if lost := _LOST.search(text):
        return f"a task failed: {lost[1].strip()}"
    if javas := _JAVAS.search(text):
        return f"Spark: {javas[1].strip()}"
    first = _SPARKS.search(text.strip())
    return f"Spark: {first[1].strip() if first else 'it failed without a message'}"


class JobFailed(GantryError):
    """Raised when Spark fails, with its message as one sentence."""


def spark_options(command: Command) -> Command:
    """Add ``--master``, ``--conf`` and ``--progress``; the command gets ``master`` and ``conf``, for `job_session`."""
    command = click.option(
        "--progress/--no-progress",
        default=None,
        expose_value=False,
        callback=_keep_progress,
        help="Show jobs, stages and tasks on stderr; by default bars if it is a terminal.",
    )(command)
    command = click.option(
        "--conf",
        multiple=True,
        metavar="KEY=VALUE",
        callback=_settings,
        help="A Spark setting, such as spark.driver.memory=4g; may be repeated.",
    )(command)
    return click.option(
        "--master",
        metavar="URL",
        help="Where Spark runs, such as spark://host:7077, yarn or k8s://...; by default here, on all cores.",
    )(command)


@contextmanager
def job_session(job: str, master: str | None, conf: dict[str, str]) -> Iterator[SparkSession]:
    """Provide a session while the job runs, with progress on stderr. An open session is reused and not stopped.

    If an exception of Spark contains one of GantryMQ's sentences, that sentence is raised. Ctrl-C ends the session with
    exit code 130.

    Raises:
        ConfigError: as `session.open_session`.
        JobFailed: Spark or one of its tasks failed.
    """
    from gantrymq_spark.session import open_session, refuse_old_java, refuse_old_spark

    refuse_old_spark()
    refuse_old_java()
    from py4j.protocol import Py4JError
    from pyspark import SparkContext
    from pyspark.errors import PySparkException

    from gantrymq_spark.commands.progress import show_progress

    found = SparkContext._active_spark_context is not None
    session, interrupts = None, _Interrupts()
    try:
        session = open_session(master, {"spark.log.level": "OFF", **conf}, name=f"gantrymq {job}")
        context = click.get_current_context(silent=True)
        with show_progress(session, context.meta.get(_PROGRESS) if context else None), interrupts:
            yield session
    except (KeyboardInterrupt, PySparkException, Py4JError) as problem:
        if not interrupts.seen and not isinstance(problem, KeyboardInterrupt):
            raise JobFailed(sentence_of(str(problem))) from None
        click.echo("gantrymq: interrupted", err=True)
        sys.exit(_INTERRUPTED)
    finally:
        if session is not None and not found:
            session.stop()
        logging.disable(logging.NOTSET)


class _Interrupts:
    """A context in which Ctrl-C only raises KeyboardInterrupt.

    Spark's own handler calls Java from within a call to Java.
    """

    def __init__(self) -> None:
        self.seen = False  # the interrupted call to Java may then fail with another error
        self._mine = threading.current_thread() is threading.main_thread()

    def __enter__(self) -> _Interrupts:
        if self._mine:
            self._before = signal.signal(signal.SIGINT, self._interrupt)
        return self

    def __exit__(self, *_: object) -> None:
        if self._mine:
            signal.signal(signal.SIGINT, self._before)

    def _interrupt(self, number: int, frame: object) -> None:
        self.seen = True
        logging.disable(logging.CRITICAL)  # py4j logs every interrupted call
        raise KeyboardInterrupt


def _settings(ctx: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    for text in given:
        if not text.partition("=")[0].strip() or "=" not in text:
            raise click.BadParameter(f"{text!r} is not a setting; write KEY=VALUE, such as spark.driver.memory=4g")
    return {key.strip(): value for key, _, value in (text.partition("=") for text in given)}


def _keep_progress(ctx: click.Context, parameter: click.Parameter, value: bool | None) -> None:
    ctx.meta[_PROGRESS] = value
