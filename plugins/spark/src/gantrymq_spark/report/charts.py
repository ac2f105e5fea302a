"""Charts as SVG texts for a page. Only this module knows matplotlib; it is imported when a chart is drawn."""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

__all__ = ["bars", "lines"]

MAX_BARS = 25
MAX_LINES = 8
_NAME_CHARS = 48  # of a label


def bars(names: Sequence[str], values: Sequence[float], unit: str) -> str:
    """Bars that lie, the first above; at most `MAX_BARS`, of the first. Empty without values."""
    if not names:
        return ""
    names, values = list(names)[:MAX_BARS][::-1], list(values)[:MAX_BARS][::-1]
    figure, axes = _figure(0.6 + 0.26 * len(names))
    axes.barh(range(len(names)), values, color="#3d6fa5", height=0.7)
    axes.set_yticks(range(len(names)), [_short(name) for name in names])
    axes.set_ylim(-0.6, len(names) - 0.4)
    axes.set_xlabel(unit)
    axes.grid(axis="x", alpha=0.3)
    return _svg(figure)


def lines(series: Mapping[str, Sequence[tuple[int, float]]], unit: str) -> str:
    """Lines over time; at most `MAX_LINES`, of the first. Empty without points.

    Args:
        series: by name, points of a time (us since 1970, UTC) and a value, in the order of time.
        unit: of the values.
    """
    drawn = [(name, points) for name, points in series.items() if points][:MAX_LINES]
    if not drawn:
        return ""
    figure, axes = _figure(2.8)
    for number, (_, points) in enumerate(drawn):
        times = [datetime.fromtimestamp(time // 1_000_000, UTC) for time, _ in points]
        axes.plot(times, [value for _, value in points], label=str(number), linewidth=1.4, marker=".", markersize=4)
    axes.set_ylabel(unit)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    legend = axes.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False)
    for text, (name, _) in zip(legend.get_texts(), drawn, strict=True):
        text.set_text(_short(name))  # as a label, one that begins with _ would be left out
    figure.autofmt_xdate(rotation=30)
    return _svg(figure)


def _figure(height: float) -> tuple[Any, Any]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, height), layout="constrained")
    FigureCanvasAgg(figure)  # no window, whatever the settings say
    axes = figure.add_subplot()
    axes.tick_params(labelsize=8)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return figure, axes


def _svg(figure: Any) -> str:
    import matplotlib

    out = io.StringIO()
    with warnings.catch_warnings(), matplotlib.rc_context({"svg.fonttype": "none", "text.parse_math": False}):
        warnings.simplefilter("ignore")  # letters that the font does not have are the browser's
        for text in figure.findobj(match=lambda artist: hasattr(artist, "set_parse_math")):
            text.set_parse_math(False)
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    text = out.getvalue()
    return text[text.index("<svg") :]


def _short(name: str) -> str:
    return name if len(name) <= _NAME_CHARS else name[: _NAME_CHARS - 1] + "…"
