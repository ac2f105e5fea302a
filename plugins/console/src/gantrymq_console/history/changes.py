"""What changed in the last hour, for the home page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import attrs

from gantrymq.plugin.client import within
from gantrymq.plugin.world import Clock
from gantrymq_console.history.reading import HOUR_MS, HistoryOff, HistorySource, HistoryUnavailable, Mark, Window
from gantrymq_console.history.subject import DEADLINE_S, TOO_LATE
from gantrymq_console.values import Long

MOST_OF_A_KIND: Final = 5
LEAST_GROWTH: Final = 10  # of a lag, messages; and half of what it was
LEAST_LATE_S: Final = 30.0  # a lag that grew within less than this is that of a busy group
_LEAST_UNKNOWN_MS: Final = 60_000
_LEVELS: Final = {
    "broker_gone": "bad",
    "elected": "warn",
    "dead_letters": "warn",
    "lag": "warn",
    "group_silent": "warn",
    "setting": "neutral",
    "setting_back": "neutral",
    "broker_back": "neutral",
    "group_new": "neutral",
    "group_back": "neutral",
}
"""Words of changes, the worst first, with their levels."""
_OPPOSITE: Final = {
    "broker_gone": "broker_back",
    "broker_back": "broker_gone",
    "group_silent": "group_back",
    "group_back": "group_silent",
}
"""Of these two of a subject only the last one is told."""


@attrs.frozen
class Change:
    """One change. Its text is ``changes.<word>`` with *name* and *fields*."""

    word: str
    kind: str  # of the subject
    name: str
    at_ms: int | None = None  # of the last time; None: some time within the hour
    times: int = 1
    fields: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.frozen
class ChangesOfKind:
    """Changes with the same word, the worst first."""

    word: str
    level: str  # bad, warn, neutral
    changes: tuple[Change, ...]
    more: int  # that are left out


@attrs.frozen
class Changes:
    """What changed in the last hour."""

    kinds: tuple[ChangesOfKind, ...] = ()  # the worst first
    begin_ms: int = 0  # of the hour
    since_ms: int | None = None  # oldest sample of the history; None: there is none yet
    some_groups_only: bool = False  # whether a broker cannot tell about all groups at once
    unknown_ms: int = 0  # part of the hour in which something was not sampled
    problem: str = ""  # why it is not known, in English
    is_off: bool = False

    @property
    def is_young(self) -> bool:
        """Whether the history begins within the hour."""
        return self.since_ms is not None and self.since_ms > self.begin_ms

    @property
    def is_whole(self) -> bool:
        """Whether everything that changed within the hour is known."""
        return not (self.is_young or self.some_groups_only or self.unknown_ms >= _LEAST_UNKNOWN_MS)


async def changes_of(source: HistorySource, clock: Clock) -> Changes:
    """Return what changed in the last hour; if it cannot be read, the result says why."""
    window = source.window(HOUR_MS, clock.now_ms())
    try:
        found = await within(clock, DEADLINE_S, _read(source, window))
    except HistoryUnavailable as problem:
        return Changes(begin_ms=window.begin_ms, problem=str(problem), is_off=isinstance(problem, HistoryOff))
    return found or Changes(begin_ms=window.begin_ms, problem=TOO_LATE)


async def _read(source: HistorySource, window: Window) -> Changes:
    since_ms = await source.known_since()
    marks = await source.marks(window)
    found = _of_marks(marks)
    found += _of_lags(
        await source.moved("group", "lag", window), await source.moved("group", "late_s", window)
    )  # fmt: skip
    letters = await letters_of(source, window, marks)
    found += (_of_numbers("dead_letters", name, *pair) for name, pair in _grown(letters))
    kinds = []
    for word, level in _LEVELS.items():
        all_of_it = [each for each in found if each.word == word]
        if all_of_it:
            shown = tuple(all_of_it[:MOST_OF_A_KIND])
            kinds.append(ChangesOfKind(word, level, shown, len(all_of_it) - len(shown)))
    unknown_ms = await _unknown_ms(source, window, since_ms)
    return Changes(tuple(kinds), window.begin_ms, since_ms, unknown_ms=unknown_ms)


async def letters_of(source: HistorySource, window: Window, marks: Iterable[Mark]) -> Mapping[str, tuple[float, float]]:
    """Return the numbers of dead letters of groups that changed, at the begin and the end of a window.

    A group that is new had none, also if it had some when it was seen for the first time. Raises HistoryUnavailable.
    """
    new = frozenset(each.name for each in marks if each.word == "group_new")
    return await source.moved("group", "dead_letters", window, new)


def _of_marks(marks: Iterable[Mark]) -> list[Change]:
    """Return the events of the hour, the newest first, each once for a subject."""
    last: dict[tuple[str, str, Any], Mark] = {}
    times = Counter[tuple[str, str, Any]]()
    for each in marks:
        if each.word not in _LEVELS:
            continue
        key = (each.word, each.name, each.fields.get("key"))
        last.pop((_OPPOSITE.get(each.word, ""), each.name, None), None)
        before = last.pop(key, None)
        if each.word == "setting" and before is not None:
            each = attrs.evolve(each, fields={**each.fields, "old": before.fields.get("old")})
        last[key] = each
        times[key] += 1
    changes = [
        Change(_word_of(each), each.kind, each.name, each.at_ms, times[key], each.fields) for key, each in last.items()
    ]
    return changes[::-1]


def _word_of(mark: Mark) -> str:
    """Return the word of a change; of a setting that has the value that it had before, ``setting_back``."""
    is_back = mark.word == "setting" and mark.fields.get("old") == mark.fields.get("new")
    return "setting_back" if is_back else mark.word


def _of_lags(lags: Mapping[str, tuple[float, float]], late_s: Mapping[str, tuple[float, float]]) -> list[Change]:
    """Return the lags that grew, the largest growth first."""
    found = []
    for name, (first, last) in _grown(lags):
        late = late_s.get(name, (0.0, LEAST_LATE_S))[1]  # it may not be known
        if last - first >= max(LEAST_GROWTH, first / 2) and late >= LEAST_LATE_S:
            found.append(_of_numbers("lag", name, first, last))
    return found


def _grown(moved: Mapping[str, tuple[float, float]]) -> Sequence[tuple[str, tuple[float, float]]]:
    """Return what grew, the most first."""
    grown = ((name, pair) for name, pair in moved.items() if pair[1] > pair[0])
    return sorted(grown, key=lambda each: each[1][0] - each[1][1])


def _of_numbers(word: str, name: str, first: float, last: float) -> Change:
    return Change(word, "group", name, fields={"first": Long(first), "last": Long(last), "count": Long(last - first)})


async def _unknown_ms(source: HistorySource, window: Window, since_ms: int | None) -> int:
    """Return how much of a period was not sampled whole; the last two steps do not count, as they may be late."""
    if since_ms is None:
        return 0
    found = await source.curves("cluster", "", window)
    rates = next((each.values for each in found.curves if each.word == "in"), ())
    end_ms = window.end_ms - 3 * window.step_ms
    times = zip(found.times, rates, strict=False)
    return window.step_ms * sum(value is None and since_ms <= at < end_ms for at, value in times)
