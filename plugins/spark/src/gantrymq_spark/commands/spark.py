"""What every job has of Spark: where it runs, its settings, its session, and progress for people."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gantrymq.errors import GantryError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from rich.progress import Progress, TaskID

__all__ = ["JobFailed", "job_session", "spark_options"]

Command = TypeVar("Command", bound=Callable[..., Any])
LOOK_S = 0.5
INTERRUPTED = 130  # exit code after Ctrl-C
_OURS = re.compile(r"^gantrymq[\w.]*\.\w+: (.+)$", re.MULTILINE)  # the last line of a traceback
_SPARKS = re.compile(r"^(?:\[[A-Z_.]+\] )?(.+?)(?:\. SQLSTATE: \w+.*)?$", re.MULTILINE)


class JobFailed(GantryError):
    """What Spark said, as one sentence."""


def spark_options(command: Command) -> Command:
    """Add ``--master`` and ``--conf``; the command gets ``master`` and ``conf``, for `job_session`."""
    command = click.option(
        "--conf",
        multiple=True,
        metavar="KEY=VALUE",
        callback=_settings,
        help="A setting of Spark, such as spark.driver.memory=4g; may be given again.",
    )(command)
    return click.option(
        "--master",
        metavar="URL",
        help="Where Spark runs, such as spark://host:7077, yarn or k8s://...; without it, here, on all cores.",
    )(command)


@contextmanager
def job_session(job: str, master: str | None, conf: dict[str, str]) -> Iterator[SparkSession]:
    """A session while the job runs, with its stages as bars on stderr where that is a terminal.

    What Spark raises around one of our sentences is raised as that sentence; Ctrl-C ends the session, exit code 130.

    Raises:
        ConfigError: as `session.open_session`.
        JobFailed: Spark, or one of its tasks, gave up.
    """
    from gantrymq_spark.session import open_session

    session = open_session(master, {"spark.log.level": "ERROR", **conf}, name=f"gantrymq {job}")
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        with _bars(session):
            yield session
    except (PySparkException, Py4JError) as problem:
        raise JobFailed(sentence_of(str(problem))) from None
    except KeyboardInterrupt:
        click.echo("gantrymq: interrupted", err=True)
        sys.exit(INTERRUPTED)
    finally:
        session.stop()


def sentence_of(text: str) -> str:
    """Of what Spark says: our own sentence if one is in it, else its first line."""
    ours = _OURS.findall(text)
    if ours:
        return str(ours[-1]).strip()
    first = _SPARKS.search(text.strip())
    return f"Spark: {first[1] if first else text}"


@contextmanager
def _bars(session: SparkSession) -> Iterator[None]:
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    ended = threading.Event()
    with Progress(*columns, console=Console(file=sys.stderr), transient=True) as bars:
        looker = threading.Thread(target=_look, args=(session, bars, ended), daemon=True)
        looker.start()
        try:
            yield
        finally:
            ended.set()
            looker.join()


def _look(session: SparkSession, bars: Progress, ended: threading.Event) -> None:
    """Show the stages that run, until *ended*."""
    tracker, shown = session.sparkContext.statusTracker(), dict[int, "TaskID"]()
    while not ended.wait(LOOK_S):
        try:
            infos = {number: tracker.getStageInfo(number) for number in tracker.getActiveStageIds()}
        except Exception:  # the session is going
            return
        for number in shown.keys() - infos.keys():
            bars.remove_task(shown.pop(number))
        for number, info in sorted(infos.items()):
            if info is None:
                continue
            if number not in shown:
                shown[number] = bars.add_task(f"stage {number}, tasks", total=info.numTasks)
            bars.update(shown[number], completed=info.numCompletedTasks)


def _settings(ctx: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    for text in given:
        if not text.partition("=")[0].strip() or "=" not in text:
            raise click.BadParameter(f"{text!r} is no setting; write KEY=VALUE, such as spark.driver.memory=4g")
    return {key.strip(): value for key, _, value in (text.partition("=") for text in given)}
