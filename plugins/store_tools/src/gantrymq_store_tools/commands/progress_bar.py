"""Progress bars on stderr, shown only on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from gantrymq_store_tools.findings import ProgressListener

if TYPE_CHECKING:
    from rich.progress import Progress as Bars


@contextmanager
def progress_bar() -> Iterator[ProgressListener]:
    """Show progress bars on stderr while the body runs, nothing if stderr is not a terminal."""
    if not sys.stderr.isatty():
        yield ProgressListener()
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


class _Bars(ProgressListener):
    """One bar for each phase of the work."""

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
