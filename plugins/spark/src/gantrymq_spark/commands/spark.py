"""The Spark options, session and progress that all jobs share."""

from __future__ import annotations

import logging
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gantrymq.errors import GantryError
from gantrymq_spark.commands.error_text import sentence_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["JobFailed", "job_session", "spark_options"]

Command = TypeVar("Command", bound=Callable[..., Any])
INTERRUPTED = 130  # exit code after Ctrl-C
PROGRESS = "gantrymq_spark.progress"  # in click's context


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
        with show_progress(session, context.meta.get(PROGRESS) if context else None), interrupts:
            yield session
    except (KeyboardInterrupt, PySparkException, Py4JError) as problem:
        if not interrupts.seen and not isinstance(problem, KeyboardInterrupt):
            raise JobFailed(sentence_of(str(problem))) from None
        click.echo("gantrymq: interrupted", err=True)
        sys.exit(INTERRUPTED)
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
    ctx.meta[PROGRESS] = value
