"""A history whose samples a test gives, on a clock that a test advances."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from manual_clock import ManualClock

from gantrymq.plugin.real_world import RealFiles
from gantrymq_console.history.keeping import History, HistoryOptions
from gantrymq_console.history.reading import KINDS, Curve, Window
from gantrymq_console.history.sampling import Sample

BEGIN_S = 1_800_000_000.0  # a multiple of all steps
STEP_MS = 10_000
_made: list[Sampled] = []


class InlineWorkers:
    """Runs work at once."""

    async def run(self, work: Any, *args: Any) -> Any:
        return work(*args)


class Sampled:
    """A history of samples that `sample` takes."""

    def __init__(self, folder: Path | None = None, clock: ManualClock | None = None, **options: Any) -> None:
        self.clock = clock or ManualClock(BEGIN_S)
        world: Any = SimpleNamespace(clock=self.clock, workers=InlineWorkers(), files=RealFiles())
        cluster: Any = SimpleNamespace(world=world)
        self.history = History(cluster, HistoryOptions(**options), folder)
        self.columns: dict[str, Any] = {}
        self.brokers: tuple[Any, ...] = ()
        self.copies: dict[str, Any] = {}
        self.members: dict[str, int | None] | None = None
        self.history._sampler.take = self._take  # type: ignore[method-assign]
        _made.append(self)

    @property
    def now_ms(self) -> int:
        """The wall time."""
        return self.clock.now_ms()

    async def _take(self) -> Sample:
        return Sample(self.now_ms, self.columns, self.brokers, self.copies, self.members)

    async def open(self) -> None:
        """Open the file."""
        await self.history._open()

    async def sample(self, *, flush: bool = False, **groups: float | None) -> None:
        """Take a sample in which groups have these lags, ten seconds after the one before."""
        nothing = dict.fromkeys(groups)
        self.columns["group"] = [groups, *[nothing] * (len(KINDS["group"]) - 1)]
        await self.history.sample()
        if flush:
            await self.history.flush()
        self.clock.advance(STEP_MS / 1000)

    async def lags(self, name: str, begin_ms: int, end_ms: int, step_ms: int = STEP_MS) -> tuple[float | None, ...]:
        """Return the lags of a group."""
        return (await self.curve(name, begin_ms, end_ms, step_ms)).values

    async def curve(self, name: str, begin_ms: int, end_ms: int, step_ms: int = STEP_MS) -> Curve:
        """Return the curve of lags of a group."""
        return (await self.history.curves("group", name, Window(begin_ms, end_ms, step_ms))).curves[0]

    def opened_again(self, folder: Path | None = None, **options: Any) -> Sampled:
        """Return the history of another process with the same clock; this one was not closed."""
        path = self.history._path
        return Sampled(folder or (path.parent if path is not None else None), self.clock, **options)


def close_files() -> None:
    """Close the files of all histories, also of those whose process was killed. Nothing is written."""
    while _made:
        file = _made.pop().history._file
        if file is not None:
            file.close()
