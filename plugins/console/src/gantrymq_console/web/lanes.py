"""The time line of a message as SVG: a lane for the message and one for each group, events from left to right.

Distances are drawn on a logarithmic scale, so that milliseconds and days fit into one picture, and are written above.
The list beside the picture has the same as text.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from markupsafe import Markup

from gantrymq_console.data.timeline import Moment
from gantrymq_console.web.context import RequestContext
from gantrymq_console.web.render import duration

MOST_LANES: Final = 12
MOST_COLUMNS: Final = 24  # distinct times
_LABEL: Final = 190  # px
_VERDICT: Final = 220
_LANE: Final = 30
_HEAD: Final = 26
_NARROW, _WIDE = 72, 150  # px between two columns
_LETTERS: Final = 26  # of a name
_SIGNS: Final = {
    "good": "M-5 0l4 4 6-8",
    "bad": "M-4-4l8 8M4-4l-8 8",
    "warn": "M0-5v6M0 4v1",
    "unknown": "",
}
"""Lines in the circle of an event."""
_AGAIN: Final = "M-5 0H4M1-3l3 3-3 3"
_SIGNS_OF_WORDS: Final = {"retried": _AGAIN, "sent_again": _AGAIN, "sent_again_by": _AGAIN}
"""Lines of events that differ from others of their level: a copy for another try is not the failure before it."""
_STORED: Final = frozenset({"stored", "retried", "dead_letter"})
"""Events that are squares: a broker stored the message, or a copy of it."""


class _Event(NamedTuple):
    time_ms: int
    group: str
    word: str
    sign: str
    sentence: str


Verdict = tuple[str, str, str]  # group, sign, text


def lanes(
    context: RequestContext, moments: Sequence[Moment], sentences: Sequence[str], verdicts: Sequence[Verdict]
) -> Markup:
    """Return the picture of the first `MOST_LANES` lanes and `MOST_COLUMNS` times; *sentences* are of the moments."""
    timed = [
        _Event(each.time_ms, each.group, each.word, each.sign, sentence)
        for each, sentence in zip(moments, sentences, strict=True)
        if each.time_ms is not None
    ]
    times = sorted({each.time_ms for each in timed})[:MOST_COLUMNS]
    groups = [*dict.fromkeys([*(each[0] for each in verdicts), *(each.group for each in timed if each.group)])]
    names = ["", *groups[: MOST_LANES - 1]]
    places = _places(times)
    width, height = (places[-1] if places else _LABEL) + _VERDICT, _HEAD + _LANE * len(names)
    found = [_distance(context, times, places, at) for at in range(1, len(times))]
    known = {group: (sign, text) for group, sign, text in verdicts}
    for number, name in enumerate(names):
        y = _HEAD + _LANE * number + _LANE // 2
        own = [each for each in timed if each.group == name and each.time_ms in times]
        label = name or context.texts.plain("message.lane")
        found.append(_text(0, y, label, _LETTERS, "b" if not name else ""))
        begin = places[0] if places else _LABEL
        if name in known:
            sign, text = known[name]
            last = places[times.index(own[-1].time_ms)] if own else begin
            rest = width - _VERDICT + 44
            found.append(Markup('<path class="line" d="M{} {}H{}"/>').format(begin, y, last) if own else Markup(""))
            found.append(Markup('<path class="line open" d="M{} {}H{}"/>').format(last, y, rest))
            found.append(_text(rest + 8, y, text, _LETTERS, sign))
        else:
            found.append(Markup('<path class="line" d="M{} {}H{}"/>').format(begin, y, places[-1] if places else begin))
        found += _marks(own, times, places, y)
    label = context.texts.plain("message.picture", count=len(timed), lanes=len(names))
    shape = Markup(
        '<svg class="lanes" width="{0}" height="{1}" viewBox="0 0 {0} {1}" role="img" aria-label="{2}">{3}</svg>'
    )
    return shape.format(width, height, label, Markup("").join(found))


def _places(times: Sequence[int]) -> list[int]:
    """Return the x of each time."""
    found, x = [], _LABEL + 16
    for at, time in enumerate(times):
        if at:
            x += round(min(_WIDE, _NARROW + 9 * math.log10(1 + time - times[at - 1])))
        found.append(x)
    return found


def _distance(context: RequestContext, times: Sequence[int], places: Sequence[int], at: int) -> Markup:
    middle = (places[at - 1] + places[at]) // 2
    text = f"+{_short(times[at] - times[at - 1]) or duration(context, times[at] - times[at - 1])}"
    return Markup('<text class="distance" x="{}" y="12">{}</text>').format(middle, text)


def _short(ms: int) -> str:
    """Return a distance with the symbol of its unit; empty for days, which have a word."""
    for limit, unit, factor in ((1000, "ms", 1), (60_000, "s", 1000), (3_600_000, "min", 60_000)):
        if ms < limit:
            return f"{ms / factor:.3g} {unit}"
    return f"{ms / 3_600_000:.3g} h" if ms < 172_800_000 else ""


def _marks(own: Sequence[_Event], times: Sequence[int], places: Sequence[int], y: int) -> list[Markup]:
    """Return the events of a lane; those of one time are beside each other."""
    found, used = [], dict[int, int]()
    for each in own:
        column = times.index(each.time_ms)
        beside = used.get(column, 0)
        used[column] = beside + 1
        if beside > 2:  # they would reach the next time
            continue
        shape = '<rect x="-8" y="-8" width="16" height="16"/>' if each.word in _STORED else '<circle r="8"/>'
        lines = _SIGNS_OF_WORDS.get(each.word, _SIGNS[each.sign])
        mark = Markup('<g class="{}" transform="translate({} {})"><title>{}</title>{}<path d="{}"/></g>')
        x = places[column] + 19 * beside
        found.append(mark.format(each.sign, x, y, _printable(each.sentence), Markup(shape), lines))
    return found


def _text(x: int, y: int, text: str, letters: int, name: str) -> Markup:
    whole = _printable(text)
    shown = whole if len(whole) <= letters else f"{whole[: letters - 8]}…{whole[-7:]}"
    title = Markup("<title>{}</title>").format(whole) if shown != whole else ""
    return Markup('<text class="{}" x="{}" y="{}">{}{}</text>').format(name, x, y + 4, title, shown)


def _printable(text: str) -> str:
    """Return text for SVG, which has no signs for control characters."""
    plain = text.striptags() if isinstance(text, Markup) else text
    return "".join(each if each.isprintable() else "\ufffd" for each in plain)
