"""How pages read the history of a cluster, whether the console's own file keeps it or Prometheus."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, Protocol

import attrs

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
RANGES: Final = {"1h": HOUR_MS, "6h": 6 * HOUR_MS, "24h": DAY_MS, "7d": 7 * DAY_MS, "30d": 30 * DAY_MS}
"""Length of each range that pages offer, ms."""
MOST_POINTS: Final = 720  # of a chart
_OFF: Final = "The console was started without a history."
KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "cluster": ("in", "out"),
    "broker": ("in", "out", "disk", "oldest_s", "replica_lag"),
    "topic": ("in", "out"),
    "group": ("lag", "late_s", "out", "retries", "dead_letters"),
}
"""Kinds of subjects with the words of their series.

``in`` and ``out`` are messages a second, ``disk`` is percent of the file system, ``oldest_s`` the age of the oldest
stored message in seconds, ``replica_lag`` the bytes by which the last slave is behind, ``lag`` messages, ``late_s`` the
age of the oldest message that is not consumed in seconds, ``retries`` messages that wait for another try.
"""
AVERAGED: Final = frozenset({"in", "out"})
"""Words whose points are averages over the step; points of the others are the largest values in the step."""


@attrs.frozen
class Window:
    """A period and its points, which are ``begin_ms + n * step_ms``; a point stands for the step that begins there."""

    begin_ms: int  # wall time, a multiple of step_ms
    end_ms: int  # exclusive
    step_ms: int

    def before(self, shift_ms: int) -> Window:
        """Return the window of the same length *shift_ms* earlier."""
        return Window(self.begin_ms - shift_ms, self.end_ms - shift_ms, self.step_ms)


@attrs.frozen
class Curve:
    """One series at the points of a window."""

    word: str
    values: tuple[float | None, ...]  # None: unknown, drawn as a gap
    last_ms: int | None = None  # wall time of the last known value

    @property
    def known(self) -> list[float]:
        """The values that are known."""
        return [each for each in self.values if each is not None]


@attrs.frozen
class HistoryData:
    """The history of one subject in a window."""

    kind: str
    name: str
    times: tuple[int, ...]  # of the points, wall ms, ascending
    curves: tuple[Curve, ...]
    rate_s: int  # period over which each sampled rate is an average, seconds

    @property
    def is_empty(self) -> bool:
        """Whether no curve has two known points."""
        return all(len(each.known) < 2 for each in self.curves)


@attrs.frozen
class Mark:
    """An event at one time.

    Words: ``elected`` (another master of a broker name), ``broker_gone``, ``broker_back``, ``setting`` (of a broker;
    its fields are key, old and new), ``group_new``, ``group_silent`` (its last member left), ``group_back``.
    """

    at_ms: int  # wall time of the sample that found it
    word: str
    kind: str  # of the subject
    name: str
    fields: Mapping[str, Any] = attrs.field(factory=dict)


class HistorySource(Protocol):
    """A history that can be read.

    If a window has smaller steps than what is kept of its period, each point has the value of the kept step around it.
    """

    @property
    def problem(self) -> str:
        """One sentence about what is wrong with keeping the history, such as a full disk; empty if nothing is."""

    @property
    def origin(self) -> str:
        """HOST:PORT of the Prometheus whose curves these are; empty for samples of the console."""

    def window(self, length_ms: int, now_ms: int, most_points: int = MOST_POINTS) -> Window:
        """Return the window of the last *length_ms*, as `window_of` with the step that is kept of such a period."""

    async def known_since(self) -> int | None:
        """Return the wall time of the oldest sample, None without one. Raises HistoryUnavailable."""

    async def curves(self, kind: str, name: str, window: Window) -> HistoryData:
        """Return all series of a subject, in the order of `KINDS`. Raises HistoryUnavailable."""

    async def curve_of_each(self, kind: str, names: Collection[str], word: str, window: Window) -> Mapping[str, Curve]:
        """Return one series of several subjects, such as for the rows of a list. Raises HistoryUnavailable."""

    async def moved(
        self, kind: str, word: str, window: Window, new: Collection[str] = ()
    ) -> Mapping[str, tuple[float, float]]:
        """Return the first and the last known value of each subject where they differ; *new* ones begin with 0.

        Raises HistoryUnavailable.
        """

    async def marks(self, window: Window) -> Sequence[Mark]:
        """Return the events of a period in the order of time, at most 1,000. Raises HistoryUnavailable."""


class HistoryUnavailable(Exception):
    """The history cannot be read now; the text is one sentence with the cause."""


class HistoryOff(HistoryUnavailable):
    """The console keeps no history."""


class NoHistory:
    """The source of a console without a history: each method raises HistoryOff."""

    problem = ""
    origin = ""

    def window(self, length_ms: int, now_ms: int, most_points: int = MOST_POINTS) -> Window:
        """Return a window with steps of 10 s."""
        return window_of(length_ms, now_ms, 10_000, most_points)

    async def known_since(self) -> int | None:
        """Raise HistoryOff."""
        raise HistoryOff(_OFF)

    async def curves(self, kind: str, name: str, window: Window) -> HistoryData:
        """Raise HistoryOff."""
        raise HistoryOff(_OFF)

    async def curve_of_each(self, kind: str, names: Collection[str], word: str, window: Window) -> Mapping[str, Curve]:
        """Raise HistoryOff."""
        raise HistoryOff(_OFF)

    async def moved(
        self, kind: str, word: str, window: Window, new: Collection[str] = ()
    ) -> Mapping[str, tuple[float, float]]:
        """Raise HistoryOff."""
        raise HistoryOff(_OFF)

    async def marks(self, window: Window) -> Sequence[Mark]:
        """Raise HistoryOff."""
        raise HistoryOff(_OFF)


def differing(ends: Mapping[str, tuple[float, float]], new: Collection[str]) -> dict[str, tuple[float, float]]:
    """Return the first and the last value of each subject where they differ; *new* ones begin with 0."""
    pairs = ((name, 0.0 if name in new else round(first, 3), round(last, 3)) for name, (first, last) in ends.items())
    return {name: (first, last) for name, first, last in pairs if first != last}


def window_of(length_ms: int, now_ms: int, kept_step_ms: int, most_points: int = MOST_POINTS) -> Window:
    """Return the window of the last *length_ms*, with at most *most_points* points of whole multiples of kept steps."""
    steps = -(-length_ms // kept_step_ms)
    step_ms = kept_step_ms * -(-steps // most_points)
    end_ms = (now_ms // step_ms + 1) * step_ms
    return Window(end_ms - -(-length_ms // step_ms) * step_ms, end_ms, step_ms)
