"""Small charts made by the server, as SVG without styles: a page needs no script to show them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from markupsafe import Markup

__all__ = ["sparkline"]

WIDTH: Final = 360
HEIGHT: Final = 48


def sparkline(values: Sequence[float | None], times: Sequence[int], label: str) -> Markup:
    """Return an image of *values* from 0 to their maximum; gaps stay gaps.

    Args:
        values: the oldest first; None: unknown.
        times: of the values, in any unit.
        label: text for screen readers.
    """
    known = [each for each in values if each is not None]
    top = max([*known, 0.0]) or 1.0
    begin = min(times, default=0)
    scale = WIDTH / max(1, max(times, default=0) - begin)
    lines, line = [], list[str]()
    for at, value in [*zip(times, values, strict=False), (begin, None)]:
        if value is not None:
            line.append(f"{(at - begin) * scale:.1f},{(HEIGHT - 1) - (HEIGHT - 2) * value / top:.1f}")
        elif line:
            lines.append(Markup('<polyline points="{}"/>').format(" ".join(line if len(line) > 1 else line * 2)))
            line = []
    shape = Markup('<svg class="spark" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>')
    return shape.format(WIDTH, HEIGHT, label, Markup("").join(lines))
