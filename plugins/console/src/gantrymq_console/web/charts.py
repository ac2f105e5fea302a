"""Charts of a history as SVG, and their values as text. The script draws the same charts again, see static/charts.js.

An image has no text, because it is stretched to the width of the page; labels are HTML beside it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

from markupsafe import Markup

from gantrymq_console.history.reading import DAY_MS, Curve, Window
from gantrymq_console.history.reading import RANGES as RANGES
from gantrymq_console.history.subject import SubjectHistory

UNITS: Final = {
    "in": "rate",
    "out": "rate",
    "disk": "percent",
    "oldest_s": "time",
    "replica_lag": "size",
    "lag": "count",
    "late_s": "time",
    "retries": "count",
    "dead_letters": "count",
}
"""Unit of each series."""
_NOT_FROM_ZERO: Final = frozenset({"disk", "oldest_s", "dead_letters"})  # a change of them is small beside the value
_WIDTH: Final = 720  # units of an image
_HEIGHT: Final = 240
_SPARK: Final = (100, 24)
_STEPS: Final = (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)  # tops of a scale, times a power of ten
_LABELS: Final = 4  # sections of the time axis


def scale_of(word: str, values: Iterable[float]) -> tuple[float, float]:
    """Return the least and the largest value that the chart of *values* has room for."""
    known = list(values)
    top, least = max(known, default=0.0), min(known, default=0.0)
    if word in _NOT_FROM_ZERO and least > 0:
        room = max(top - least, top / 50, 1.0) / 5
        return max(0.0, least - room), top + room
    if top <= 0:
        return 0.0, 1.0
    factor = 10.0 ** math.floor(math.log10(top))
    return 0.0, next((each * factor for each in _STEPS if each * factor >= top), top)


def chart(shown: SubjectHistory, curve: Curve) -> Markup:
    """Return the image of a curve, the one to compare with, and events."""
    earlier = shown.earlier_of(curve.word)
    low, high = scale_of(curve.word, curve.known + (earlier.known if earlier is not None else []))
    length_ms = max(1, shown.end_ms - shown.begin_ms)

    def x(at_ms: int) -> int:
        return round((at_ms - shown.begin_ms) * _WIDTH / length_ms)

    places = [x(each) for each in shown.times]
    lines = [_line(_WIDTH * number // _LABELS, "grid") for number in range(_LABELS + 1)]
    lines += [_line(x(each.at_ms), "event") for each in shown.events]
    if earlier is not None:
        lines.append(_polylines(places, earlier.values, low, high, _HEIGHT, "earlier"))
    lines.append(_polylines(places, curve.values, low, high, _HEIGHT, "curve"))
    shape = Markup('<svg class="chart" viewBox="0 0 {} {}" preserveAspectRatio="none" aria-hidden="true">{}</svg>')
    return shape.format(_WIDTH, _HEIGHT, Markup("").join(lines))


def sparkline(curve: Curve, window: Window, label: str) -> Markup:
    """Return a small image of a curve from 0 to its maximum.

    Args:
        curve: its values have the times of *window*, which is as wide as the image.
        window: the period.
        label: text for screen readers.
    """
    width, height = _SPARK
    length_ms = max(1, window.end_ms - window.begin_ms)
    places = [round(number * window.step_ms * width / length_ms, 1) for number in range(len(curve.values))]
    top = max(curve.known, default=0.0) or 1.0
    lines = _polylines(places, curve.values, 0.0, top, height, "curve")
    shape = Markup('<svg class="spark" viewBox="0 -1 {} {}" preserveAspectRatio="none" role="img" aria-label="{}">')
    return shape.format(width, height + 2, label) + lines + Markup("</svg>")


def axis_times(shown: SubjectHistory) -> list[str]:
    """Return the labels of the time axis, in UTC: the begin, the end, and the times between."""
    length_ms = shown.end_ms - shown.begin_ms
    form = "%H:%M" if length_ms <= DAY_MS else "%m-%d %H:%M"
    moments = (shown.begin_ms + number * length_ms // _LABELS for number in range(0, _LABELS + 1, 2))
    first, *others = (datetime.fromtimestamp(each / 1000, UTC).strftime(form) for each in moments)
    return [f"{first} UTC", *others]


def comparison(range_: str) -> str:
    """Return the key of the text that offers to compare a range with the one before."""
    return f"history.compare_{range_}"


def _line(x: int, word: str) -> Markup:
    return Markup('<line class="{}" x1="{}" y1="0" x2="{}" y2="{}"/>').format(word, x, x, _HEIGHT)


def _polylines(
    places: Sequence[float], values: Sequence[float | None], low: float, high: float, height: int, word: str
) -> Markup:
    """Return one line for each run of known values. A point on a level line is left out."""
    lines, line = [], list[tuple[float, int]]()
    for x, value in [*zip(places, values, strict=False), (0.0, None)]:
        if value is not None:
            y = round(height * (1 - (min(max(value, low), high) - low) / (high - low)))
            if len(line) > 1 and line[-1][1] == line[-2][1] == y:
                line.pop()
            line.append((x, y))
        elif line:
            points = " ".join(f"{each:g},{y}" for each, y in (line if len(line) > 1 else line * 2))
            lines.append(Markup('<polyline class="{}" points="{}"/>').format(word, points))
            line = []
    return Markup("").join(lines)
