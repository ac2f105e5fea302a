"""Layout of the picture of a cluster: where each box and line is. The template `_cluster_picture.html` draws it.

    master ----+---- slave 1
    engine     +---- slave 2

Lengths are in CSS pixels. Texts are cut by their boxes, whatever letters a name has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from gantrymq_console.data.cluster_picture import PicturedCopy, PicturedName

BOX_WIDTH: Final = 214
BOX_HEIGHT: Final = 66
GAP: Final = 154  # between the columns: has the line and its label
_ROW: Final = BOX_HEIGHT + 18
_BUS: Final = 22  # from the master to the line down
_EDGE: Final = 4  # around, so that frames and focus are not cut


@attrs.frozen
class Box:
    """A broker, or the engine that elects."""

    x: int
    y: int
    copy: PicturedCopy | None  # None: the engine


@attrs.frozen
class Line:
    """From a master to a copy that follows it."""

    path: str
    label_x: int
    y: int
    copy: PicturedCopy


@attrs.frozen
class Drawing:
    """The picture of one broker name."""

    width: int
    height: int
    boxes: tuple[Box, ...]
    lines: tuple[Line, ...]
    votes: str  # path from the engine to the master; empty without an engine


def drawing_of(name: PicturedName) -> Drawing:
    """Lay out the copies of one broker name: masters and engine on the left, the others on the right."""
    masters, followers = name.masters, name.followers
    left = [*masters, None] if name.engine else list(masters)
    right = BOX_WIDTH + GAP + _EDGE
    boxes = [*_column(left, _EDGE), *_column(followers, right)]
    lines, source = [], next((each for each in boxes if each.copy in masters), None)
    for box in boxes:
        if source is not None and box.copy is not None and box.copy in followers:
            lines.append(_line(source, box, box.copy))
    votes = ""
    if name.engine and source is not None:
        x = _EDGE + BOX_WIDTH // 2
        votes = f"M{x} {_EDGE + _ROW * len(masters)}V{_EDGE + _ROW * (len(masters) - 1) + BOX_HEIGHT}"
    height = _ROW * max(len(left), len(followers), 1) - (_ROW - BOX_HEIGHT) + 2 * _EDGE
    width = (right + BOX_WIDTH if followers else BOX_WIDTH + _EDGE) + _EDGE
    return Drawing(width, height, tuple(boxes), tuple(lines), votes)


def _column(copies: Sequence[PicturedCopy | None], x: int) -> list[Box]:
    return [Box(x, _EDGE + row * _ROW, each) for row, each in enumerate(copies)]


def _line(source: Box, box: Box, copy: PicturedCopy) -> Line:
    begin, bus = source.x + BOX_WIDTH, source.x + BOX_WIDTH + _BUS
    from_y, to_y = source.y + BOX_HEIGHT // 2, box.y + BOX_HEIGHT // 2
    path = f"M{begin} {from_y}H{bus}V{to_y}H{box.x - 2}"
    return Line(path, (bus + box.x) // 2, to_y, copy)
