"""Writes the file of a history as a console that ran for days would have left it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from gantrymq_console.history.file import HistoryFile
from gantrymq_console.history.keeping import FILE_NAME, HistoryOptions
from gantrymq_console.history.reading import KINDS, Mark
from gantrymq_console.history.recent import Recent

STEP_MS: Final = 10_000
_FLUSHED: Final = 360  # samples
Values = Callable[[int], float | None]


def fill_history(
    folder: Path,
    begin_ms: int,
    end_ms: int,
    series: Mapping[tuple[str, str, str], Values],
    marks: Sequence[Mark] = (),
    gaps: Sequence[tuple[int, int]] = (),
) -> None:
    """Write samples of each 10 s from *begin_ms* to before *end_ms*, except in *gaps*, and events.

    Args:
        folder: of the console's state.
        begin_ms, end_ms: wall times.
        series: value at a time by kind, name and word; series of these subjects that are not given are unknown.
        marks: events.
        gaps: periods in which the console did not run.
    """
    file, recent = HistoryFile(folder / FILE_NAME, HistoryOptions().bounds()), Recent()
    recent.note(marks)

    def flush() -> None:
        batch = recent.take()
        recent.written(batch, file.write(batch, recent.ids))

    names = {kind: sorted({name for of, name, _ in series if of == kind}) for kind in KINDS}
    begun = begin_ms // STEP_MS * STEP_MS
    for number, at_ms in enumerate(range(begun, end_ms, STEP_MS)):
        if any(first <= at_ms < end for first, end in gaps):
            continue
        if (due := recent.due(at_ms)) is not None:
            recent.add_point(due, due.made())
        recent.add(
            at_ms,
            {
                kind: [
                    {name: values(at_ms) if (values := series.get((kind, name, word))) else None for name in found}
                    for word in KINDS[kind]
                ]
                for kind, found in names.items()
                if found
            },
        )
        if number % _FLUSHED == 0:
            flush()
    flush()
    file.close()
