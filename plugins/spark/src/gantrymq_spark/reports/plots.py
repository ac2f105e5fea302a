"""Bars and lines as SVG texts, drawn by matplotlib without a screen."""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

__all__ = ["bars", "lines"]

MOST_BARS = 30
MOST_LINES = 8  # the rest is one more line
SIZE = (9, 3.2)  # inches


def bars(values: Mapping[str, float], title: str, unit: str) -> str:
    """Horizontal bars, the longest first; more than `MOST_BARS` are summed up in the last."""
    ordered = sorted(values.items(), key=lambda each: -each[1])
    if len(ordered) > MOST_BARS:
        rest = ordered[MOST_BARS - 1 :]
        ordered = [*ordered[: MOST_BARS - 1], (f"{len(rest)} others", sum(value for _, value in rest))]
    figure, axes = _figure((SIZE[0], max(1.6, 0.28 * len(ordered) + 0.9)))
    axes.barh([_short(name) for name, _ in reversed(ordered)], [value for _, value in reversed(ordered)])
    axes.set_title(title)
    axes.set_xlabel(unit)
    return _svg(figure)


def lines(series: Mapping[str, Sequence[tuple[datetime, float]]], title: str, unit: str) -> str:
    """A line for each name over time; of more than `MOST_LINES` the smaller ones are one together."""
    ordered = sorted(series.items(), key=lambda each: -sum(value for _, value in each[1]))
    if len(ordered) > MOST_LINES:
        rest: dict[datetime, float] = {}
        for _, points in ordered[MOST_LINES - 1 :]:
            for time, value in points:
                rest[time] = rest.get(time, 0) + value
        ordered = [*ordered[: MOST_LINES - 1], (f"{len(ordered) - MOST_LINES + 1} others", sorted(rest.items()))]
    figure, axes = _figure(SIZE)
    for name, points in ordered:
        axes.plot([time for time, _ in points], [value for _, value in points], label=_short(name), marker=".")
    axes.set_title(title)
    axes.set_ylabel(unit)
    axes.set_ylim(bottom=0)
    if ordered:
        axes.legend(fontsize=7)
    figure.autofmt_xdate()
    return _svg(figure)


def _figure(size: tuple[float, float]) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    return figure, figure.subplots()


def _svg(figure: Any) -> str:
    from matplotlib import rc_context

    made = io.StringIO()
    with warnings.catch_warnings(), rc_context({"svg.fonttype": "none"}):  # browsers have the letters that are missing
        warnings.simplefilter("ignore", UserWarning)
        figure.savefig(made, format="svg", metadata={"Date": None})
    text = made.getvalue()
    return text[text.index("<svg") :]


def _short(name: str) -> str:
    text = name.replace("$", r"\$")  # no formulas
    return text if len(text) <= 40 else text[:37] + "..."
