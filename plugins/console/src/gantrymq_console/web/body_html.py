"""HTML of bodies: text with marked hits, and JSON that is folded and coloured.

JSON becomes nested ``<details>``, from the lines of `gantrymq_console.data.body_forms.indented`. Its tokens stay as
they were sent. A text that is nested deep, or has many lines, is not folded: browsers stop at some depth, and slow
down.
"""

from __future__ import annotations

import re
from typing import Final

from markupsafe import Markup

from gantrymq_console.data.body_forms import Body
from gantrymq_console.web.render import visible

MOST_LINES: Final = 20_000
MOST_DEPTH: Final = 60
MOST_MARKED: Final = 1000  # places
_MOST_OPEN: Final = 400  # lines; of longer texts, only the upper levels are open
_OPEN_DEPTH: Final = 2
_LINE: Final = re.compile(r'( *)("(?:[^"\\]|\\.)*": )?(.*?)(,?)', re.DOTALL)
_NUMBER: Final = re.compile(r"-?[0-9]")


def text_html(text: str, found: str = "") -> Markup:
    """Return text with visible control characters, and the first places of *found* marked."""
    if not found:
        return visible(text)
    return (
        Markup("<mark>{}</mark>").format(visible(found)).join(visible(each) for each in text.split(found, MOST_MARKED))
    )


def json_html(body: Body) -> Markup | None:
    """Return the tree of a body in indented JSON; None if it has too many lines, is nested too deep, or is no JSON."""
    lines = body.marked.split("\n")
    if lines[0] not in ("{", "["):
        return None
    deepest = max(len(each) - len(each.lstrip(" ")) for each in lines) // 2
    if len(lines) > MOST_LINES or deepest > MOST_DEPTH:
        return None
    found: list[str] = []
    opened: list[int] = []  # places in *found* that wait for the number of members
    counts = [0]
    for line in lines:
        parts = _LINE.fullmatch(line)
        if parts is None:
            return None
        _, key, value, comma = parts.groups()
        if value in ("}", "]"):
            if not opened:
                return None
            found.append(f'</div><span class="p">{value}{comma}</span></details>')
            count = counts.pop()
            found[opened.pop()] = f' data-count="{count}" data-end="{value}{comma}">'
            continue
        counts[-1] += 1
        name = f'<span class="k">{visible(key[:-2])}</span>: ' if key else ""
        if value in ("{", "["):
            is_open = len(lines) <= _MOST_OPEN or len(opened) < _OPEN_DEPTH
            found += [f"<details{' open' if is_open else ''}><summary", "", f'{name}<span class="p">{value}</span>']
            opened.append(len(found) - 2)
            found.append("</summary><div>")
            counts.append(0)
        else:
            found.append(f'<div class="v">{name}<span class="{_kind(value)}">{visible(value)}</span>{comma}</div>')
    return None if opened else Markup("".join(found))


def _kind(value: str) -> str:
    """Return the class of a token: string, number, or another one."""
    return "s" if value.startswith('"') else "n" if _NUMBER.match(value) else "l"
