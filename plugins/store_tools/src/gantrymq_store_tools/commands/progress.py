"""Progress of a command: bars on stderr if it is a terminal, and a limit of the rate at which the command reads."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from gantrymq_store_tools.findings import ProgressListener

if TYPE_CHECKING:
    from rich.progress import Progress as Bars


_LEAST_S = 0.01  # shorter pauses are added up


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


class Paced(ProgressListener):
    """Pauses after each read until the average rate since the first one is below the limit."""

    def __init__(
        self,
        inner: ProgressListener,
        bytes_per_second: float,
        monotonic: Callable[[], float],
        pause: Callable[[float], None],
    ) -> None:
        """*inner* receives the progress; *monotonic* returns the time in seconds; *pause* waits for some seconds."""
        self._inner = inner
        self._rate = bytes_per_second
        self._monotonic = monotonic
        self._pause = pause
        self._due = monotonic()  # when the bytes read so far are allowed

    def begin(self, what: str, total_bytes: int) -> None:
        """Pass it on."""
        self._inner.begin(what, total_bytes)

    def advance(self, read_bytes: int) -> None:
        """Pass it on, and pause. A time without reads does not allow faster ones afterwards."""
        self._inner.advance(read_bytes)
        now = self._monotonic()
        self._due = max(self._due, now) + read_bytes / self._rate
        if self._due - now >= _LEAST_S:
            self._pause(self._due - now)

    def end(self) -> None:
        """Pass it on."""
        self._inner.end()
