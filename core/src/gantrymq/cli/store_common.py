"""What the commands of ``gantrymq store`` share: the folder, settings of the store, progress, how findings are shown.

Progress goes to stderr and only to a terminal. Exit codes: 0 sound, 1 damaged or refused, 2 wrong usage, 3 a broker has
the store open, so that nothing final can be said.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gantrymq.cli.output import print_table, say, warn
from gantrymq.cli.times import read_time_ms
from gantrymq.formats.tags_code import DEFAULT_DELAY_LEVELS
from gantrymq.offline.findings import Finding, Progress
from gantrymq.world.real.lock import held_elsewhere

if TYPE_CHECKING:
    from rich.progress import Progress as Bars

Command = TypeVar("Command", bound=Callable[..., Any])

IN_USE = 3  # exit code
MOST_SHOWN = 200  # findings in a table for people; the JSON has them all

folder_argument = click.argument("root", metavar="DIR", type=click.Path(path_type=Path))
log_option = click.option(
    "--commit-log",
    "log_folders",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Where the commit log lies if not in DIR/commitlog; once for each folder of storePathCommitLog.",
)
levels_option = click.option(
    "--delay-levels",
    default=DEFAULT_DELAY_LEVELS,
    metavar="TEXT",
    help="The broker's messageDelayLevel, if it is not the default.",
)
target_option = click.option(
    "--to", "target", type=click.Path(path_type=Path), metavar="DIR", help="Where the copy goes; beside DIR by default."
)


def in_use(root: Path) -> bool:
    """Whether a broker, ours or a Java one, has the store open."""
    return held_elsewhere(root / "lock")


def warn_if_in_use(root: Path) -> bool:
    """Say on stderr that a broker has the store open, if it has: what is read then may be half written."""
    open_now = in_use(root)
    if open_now:
        warn(f"a broker has {root} open; what it writes meanwhile may look like damage")
    return open_now


def refuse_if_in_use(ctx: click.Context, root: Path) -> None:
    """End the command with `IN_USE` when a broker has the store open: a copy made now would be half of its work."""
    if in_use(root):
        say(
            f"gantrymq: a broker has {root} open, and what is made of it now would lack what the broker still writes; "
            f"stop the broker first (gantrymq store check {root} looks at what is durable)"
        )
        ctx.exit(IN_USE)


@contextmanager
def progress_bar() -> Iterator[Progress]:
    """Bars on stderr while the body runs, nothing where that is no terminal."""
    if not sys.stderr.isatty():
        yield Progress()
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Bars(*columns, console=Console(file=sys.stderr), transient=True) as bars:
        yield _Bars(bars)


class _Bars(Progress):
    """A bar for each part of the work."""

    def __init__(self, bars: Bars) -> None:
        self._bars = bars
        self._tasks: list[Any] = []

    def begin(self, what: str, total_bytes: int) -> None:
        self._tasks.append(self._bars.add_task(what, total=total_bytes))

    def advance(self, read_bytes: int) -> None:
        self._bars.advance(self._tasks[-1], read_bytes)

    def end(self) -> None:
        task = self._tasks.pop()
        self._bars.update(task, completed=self._bars.tasks[task].total)


def show_findings(findings: Sequence[Finding]) -> None:
    """A table for people; the many of a hopeless store are cut short."""
    if not findings:
        return
    rows: Iterable[Sequence[object]] = (
        (
            finding.kind if finding.damage else f"({finding.kind})",
            finding.path,
            "" if finding.place is None else finding.place,
            "" if finding.extent is None else finding.extent,
            finding.text,
        )
        for finding in findings[:MOST_SHOWN]
    )
    print_table(["Kind", "Where", "Place", "Extent", "What"], rows)
    if len(findings) > MOST_SHOWN:
        say(f"{len(findings) - MOST_SHOWN} more; --output json has all of them")


def time_ms(_context: click.Context, option: click.Parameter, text: str | None) -> int | None:
    """A store time, as click's callback: milliseconds, or a local time such as '2026-11-21 10:00:00'."""
    return None if text is None else read_time_ms(text, param=option)
