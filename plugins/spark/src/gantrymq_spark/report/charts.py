"""Charts as SVG texts for a page. Only this module knows matplotlib; it is imported when a chart is drawn."""

from __future__ import annotations

import io
import math
import unicodedata
import warnings
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

MAX_BARS = 25
_MAX_LINES = 8
STEP_SECONDS = {"minute": 60, "hour": 3600, "day": 86_400}
_NAME_CHARS = 48  # of a label
_END_CHARS = 20  # of these, at its end: where the queue's number is


def bars(names: Sequence[str], values: Sequence[float], unit: str) -> str:
    """Horizontal bars, the first on top; at most `MAX_BARS`. Empty without values."""
    if not names:
        return ""
    names, values = list(names)[:MAX_BARS][::-1], list(values)[:MAX_BARS][::-1]
    figure, axes = _figure(0.7 + 0.26 * len(names), unit)
    axes.barh(range(len(names)), values, color="#3d6fa5", height=0.7)
    axes.set_ylim(-0.6, len(names) - 0.4)
    axes.grid(axis="x", alpha=0.3)
    _mark(axes.xaxis, values)

    def label(shown: Callable[[str], str]) -> None:
        axes.set_yticks(range(len(names)), [shown(name) for name in names])

    return _svg(figure, label)


def lines(series: Mapping[str, Sequence[tuple[int, float]]], unit: str, step_s: int) -> str:
    """Lines over time, broken where steps have no point; at most `_MAX_LINES`, of the first. Empty without points.

    If all points have the same time, which is no line, the chart has a bar for each series, and the time in its title.

    Args:
        series: by name, points of a time (us since 1970, UTC) and a value, in the order of time.
        unit: of the values.
        step_s: seconds from one point to the next.
    """
    drawn = [(name, points) for name, points in series.items() if points][:_MAX_LINES]
    if not drawn:
        return ""
    times = {time for _, points in drawn for time, _ in points}
    if len(times) == 1:
        at = datetime.fromtimestamp(times.pop() // 1_000_000, UTC)
        values = [points[0][1] for _, points in drawn]
        return bars([name for name, _ in drawn], values, f"{unit}, {at:%Y-%m-%d %H:%M} UTC")
    figure, axes = _figure(2.8, unit)
    for number, (_, points) in enumerate(drawn):
        axes.plot(*_broken(points, step_s * 1_000_000), label=str(number), linewidth=1.4, marker=".", markersize=4)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    _mark(axes.yaxis, [value for _, points in drawn for _, value in points])
    legend = axes.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False)
    figure.autofmt_xdate(rotation=30)

    def label(shown: Callable[[str], str]) -> None:
        for text, (name, _) in zip(legend.get_texts(), drawn, strict=True):
            text.set_text(shown(name))  # as a label, one that begins with _ would be left out

    return _svg(figure, label)


def _mark(axis: Any, values: Sequence[float]) -> None:
    """Write the numbers of an axis of *values*: whole ones for counts, and large ones short (``2.5 M``)."""
    from matplotlib.ticker import EngFormatter, FuncFormatter, MaxNLocator

    if all(isinstance(value, int) for value in values):
        axis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 2.5, 5, 10], integer=True))
    short = EngFormatter(sep=" ")

    def text(value: float, _: int | None) -> str:
        return short(value) if abs(value) >= 10_000 else f"{value:.10f}".rstrip("0").rstrip(".")

    axis.set_major_formatter(FuncFormatter(text))


def _broken(points: Sequence[tuple[int, float]], step_us: int) -> tuple[list[datetime], list[float]]:
    """Times and values to draw, with NaN for each missing step."""
    times: list[datetime] = []
    values: list[float] = []
    before = points[0][0]
    for time, value in points:
        if time - before > step_us:
            times.append(datetime.fromtimestamp((before + step_us) // 1_000_000, UTC))
            values.append(math.nan)
        times.append(datetime.fromtimestamp(time // 1_000_000, UTC))
        values.append(value)
        before = time
    return times, values


def _figure(height: float, unit: str) -> tuple[Any, Any]:
    """Return a figure of *height* inches and its axes; the unit is above them, where it has room."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, height), layout="constrained")
    FigureCanvasAgg(figure)  # draws without a window, independent of matplotlib's settings
    axes = figure.add_subplot()
    axes.tick_params(labelsize=8)
    axes.set_title(unit, loc="left", fontsize=9)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return figure, axes


def _svg(figure: Any, label: Callable[[Callable[[str], str]], None]) -> str:
    """Return the figure as SVG.

    Args:
        figure: without names.
        label: writes its names, each by the function that it is given.
    """
    import matplotlib

    out = io.StringIO()
    with warnings.catch_warnings(), matplotlib.rc_context({"svg.fonttype": "none", "text.parse_math": False}):
        warnings.simplefilter("ignore")  # letters that the font does not have are the browser's
        label(_as_wide)
        _no_math(figure)
        figure.draw_without_rendering()  # makes room for the names
        figure.set_layout_engine("none")
        label(_short)
        _no_math(figure)
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    text = out.getvalue()
    return text[text.index("<svg") :]


def _no_math(figure: Any) -> None:
    for text in figure.findobj(match=lambda artist: hasattr(artist, "set_parse_math")):
        text.set_parse_math(False)


def _as_wide(name: str) -> str:
    """Return a text about as wide as *name* in a browser; the font used here may lack East Asian letters."""
    return "".join("00" if unicodedata.east_asian_width(letter) in "WF" else letter for letter in _short(name))


def _short(name: str) -> str:
    """*name*, without its middle if it is long: names of one begin differ at their ends."""
    if len(name) <= _NAME_CHARS:
        return name
    return f"{name[: _NAME_CHARS - _END_CHARS - 1]}…{name[-_END_CHARS:]}"
