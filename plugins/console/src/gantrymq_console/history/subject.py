"""The history of one subject as a page shows it: a range, the period before to compare with, and events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from gantrymq.plugin.client import within
from gantrymq.plugin.world import Clock
from gantrymq_console.history.reading import (
    DAY_MS,
    HOUR_MS,
    RANGES,
    Curve,
    HistoryData,
    HistoryOff,
    HistorySource,
    HistoryUnavailable,
    Mark,
    Window,
)

DEADLINE_S: Final = 2.5
TOO_LATE: Final = f"The history was not read within {DEADLINE_S:g} seconds."
_MOST_EVENTS: Final = 100  # of a page, the newest
_OF_ALL: Final = frozenset({"elected", "broker_gone", "broker_back"})  # events that concern topics and groups too
_NOW_MS: Final = 30_000  # age up to which a value is shown as the present one
_SPARK_POINTS: Final = 60


@attrs.frozen
class SubjectHistory:
    """The history of a subject in one of the `RANGES`."""

    kind: str
    name: str
    range: str
    begin_ms: int
    end_ms: int
    step_ms: int
    times: tuple[int, ...] = ()  # of all points of the period, wall ms
    curves: tuple[Curve, ...] = ()  # each with a value or None for each time
    rate_s: int = 10  # period over which each sampled rate is an average
    earlier_ms: int = 0  # by which the period to compare with is earlier; 0: there is no comparison
    earlier: tuple[Curve, ...] = ()  # of the period to compare with, with a value or None for each time
    events: tuple[Mark, ...] = ()
    more_events: int = 0  # older ones that are left out
    since_ms: int | None = None  # wall time of the oldest sample of the history
    problem: str = ""  # why it could not be read, in English
    is_off: bool = False
    origin: str = ""  # HOST:PORT of the Prometheus whose curves these are
    keeping_problem: str = ""  # what is wrong with keeping the history, in English

    @property
    def is_empty(self) -> bool:
        """Whether no curve has two known points."""
        return all(len(each.known) < 2 for each in self.curves)

    @property
    def average_ms(self) -> int:
        """Period over which a point of a rate is an average."""
        return max(self.rate_s * 1000, self.step_ms)

    @property
    def unknown(self) -> tuple[str, ...]:
        """Words of the curves of which nothing is known in this period."""
        return tuple(each.word for each in self.curves if not each.known)

    @property
    def single(self) -> tuple[str, ...]:
        """Words of the curves of which one point is known in this period, too few to draw."""
        return tuple(each.word for each in self.curves if len(each.known) == 1)

    @property
    def has_earlier(self) -> bool:
        """Whether there is a curve to compare with."""
        return any(self.earlier_of(each.word) is not None for each in self.curves)

    def is_now(self, curve: Curve, now_ms: int) -> bool:
        """Return whether the last value of *curve* is the present one."""
        return curve.last_ms is not None and now_ms - curve.last_ms <= max(_NOW_MS, 2 * self.step_ms)

    def earlier_of(self, word: str) -> Curve | None:
        """Return the curve to compare with; None without a comparison, or if less than two points of it are known."""
        return next((each for each in self.earlier if each.word == word and len(each.known) > 1), None)


def shift_of(length_ms: int) -> int:
    """Return how much earlier the period is that is compared: a day, for longer ranges the period before."""
    return max(length_ms, DAY_MS)


async def subject_history(
    source: HistorySource,
    clock: Clock,
    kind: str,
    name: str,
    range_: str = "1h",
    *,
    compare: bool = False,
    after_ms: int = 0,
) -> SubjectHistory:
    """Return the history of a subject; if it cannot be read, the result says why.

    Args:
        source: what to read.
        clock: of the console.
        kind, name: the subject.
        range_: a key of `RANGES`.
        compare: whether to read the period before too.
        after_ms: the last time that the reader knows; only its point and later ones are returned.
    """
    length_ms = RANGES[range_]
    window = source.window(length_ms, clock.now_ms())
    if after_ms > window.begin_ms:
        begin_ms = min(after_ms // window.step_ms * window.step_ms, window.end_ms - window.step_ms)
        window = attrs.evolve(window, begin_ms=begin_ms)
    empty = SubjectHistory(kind, name, range_, window.begin_ms, window.end_ms, window.step_ms, origin=source.origin)
    earlier_ms = shift_of(length_ms) if compare else 0

    async def read() -> SubjectHistory:
        found = await source.curves(kind, name, window)
        before = await source.curves(kind, name, window.before(earlier_ms)) if compare else None
        marks = [each for each in await source.marks(window) if _concerns(each, kind, name)]
        times = tuple(range(window.begin_ms, window.end_ms, window.step_ms))
        return attrs.evolve(
            empty,
            times=times,
            curves=_aligned(found, times),
            rate_s=found.rate_s,
            earlier_ms=earlier_ms,
            earlier=() if before is None else _aligned(before, [each - earlier_ms for each in times]),
            events=tuple(marks[-_MOST_EVENTS:]),
            more_events=max(0, len(marks) - _MOST_EVENTS),
            since_ms=await source.known_since(),
            keeping_problem=source.problem,
        )

    try:
        return await within(clock, DEADLINE_S, read()) or attrs.evolve(empty, problem=TOO_LATE)
    except HistoryUnavailable as problem:
        return attrs.evolve(empty, problem=str(problem), is_off=isinstance(problem, HistoryOff))


async def sparks(
    source: HistorySource, clock: Clock, kind: str, names: Sequence[str], word: str
) -> tuple[Window, dict[str, Curve]]:
    """Return the curves of the last hour for the rows of a list; without those that cannot be read."""
    window = source.window(HOUR_MS, clock.now_ms(), _SPARK_POINTS)
    if not names:
        return window, {}
    try:
        found = await within(clock, DEADLINE_S, source.curve_of_each(kind, names, word, window))
    except HistoryUnavailable:
        found = None
    return window, {name: each for name, each in (found or {}).items() if each.known}


def _aligned(data: HistoryData, times: Sequence[int]) -> tuple[Curve, ...]:
    """Return curves with a value or None at each of *times*."""
    if list(data.times) == list(times):
        return data.curves
    found = []
    for each in data.curves:
        values = dict(zip(data.times, each.values, strict=False))
        found.append(attrs.evolve(each, values=tuple(values.get(at) for at in times)))
    return tuple(found)


def _concerns(mark: Mark, kind: str, name: str) -> bool:
    """Return whether the page of a subject shows *mark*."""
    if kind == "cluster":
        return mark.kind != "group"
    if mark.kind == kind == "broker":
        return mark.name in (name, name.partition(":")[0])
    return (mark.kind == kind and mark.name == name) or (kind != "broker" and mark.word in _OF_ALL)
