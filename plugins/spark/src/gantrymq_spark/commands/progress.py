"""Shows the progress of a session's jobs: bars on a terminal, otherwise a line every few seconds."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import attrs
import click

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_POLL_S = 0.5
_LINE_S = 5.0


@attrs.frozen
class JobProgress:
    """The progress of one Spark job."""

    job: int
    stages: int
    stages_done: int
    tasks: int  # of started and planned stages
    tasks_done: int

    def __str__(self) -> str:
        """Return the progress as a line of text."""
        return f"job {self.job}: {self.stages_done} of {self.stages} stages, {self.tasks_done} of {self.tasks} tasks"


def running_jobs(tracker: Any) -> list[JobProgress]:
    """Return the running jobs according to Spark's ``StatusTracker``."""
    found = []
    for number in sorted(tracker.getActiveJobsIds()):
        job = tracker.getJobInfo(number)
        infos = [info for stage in (job.stageIds if job else ()) if (info := tracker.getStageInfo(stage)) is not None]
        if infos:
            ended = sum(info.numCompletedTasks >= info.numTasks > 0 for info in infos)
            tasks = sum(info.numTasks for info in infos), sum(info.numCompletedTasks for info in infos)
            found.append(JobProgress(number, len(infos), ended, *tasks))
    return found


@contextmanager
def show_progress(session: SparkSession, wanted: bool | None) -> Iterator[None]:
    """Show progress on stderr while the body runs.

    Args:
        session: the session of the jobs.
        wanted: None for bars on a terminal and nothing otherwise.
    """
    terminal = sys.stderr.isatty()
    if not (terminal if wanted is None else wanted):
        yield
        return
    ended = threading.Event()
    tracker = session.sparkContext.statusTracker()
    work = _bars if terminal else _lines
    poller = threading.Thread(target=work, args=(tracker, ended), name="progress", daemon=True)
    poller.start()
    try:
        yield
    finally:
        ended.set()
        poller.join(2 * _POLL_S)


def _polls(tracker: Any, ended: threading.Event, every_s: float) -> Iterator[list[JobProgress]]:
    while not ended.wait(every_s):
        try:
            found = running_jobs(tracker)
        except Exception:  # the session is stopping
            return
        yield found


def _lines(tracker: Any, ended: threading.Event) -> None:
    said = ""
    for found in _polls(tracker, ended, _LINE_S):
        line = "; ".join(map(str, found))
        if line and line != said:
            click.echo(line, err=True)
            said = line


def _bars(tracker: Any, ended: threading.Event) -> None:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    shown: dict[int, TaskID] = {}
    with Progress(*columns, console=Console(file=sys.stderr), transient=True) as bars:
        for found in _polls(tracker, ended, _POLL_S):
            for number in shown.keys() - {done.job for done in found}:
                bars.remove_task(shown.pop(number))
            for done in found:
                if done.job not in shown:
                    shown[done.job] = bars.add_task("", total=done.tasks)
                text = f"job {done.job}: {done.stages_done} of {done.stages} stages, tasks"
                bars.update(shown[done.job], description=text, total=done.tasks, completed=done.tasks_done)
