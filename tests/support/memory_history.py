"""A history in memory that behaves as the real ones: bounds, gaps, coarse old periods, failures."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

from gantrymq_console.history.reading import (
    AVERAGED,
    DAY_MS,
    KINDS,
    MOST_POINTS,
    Curve,
    HistoryData,
    HistoryUnavailable,
    Mark,
    Window,
    differing,
    window_of,
)

FINE_MS: Final = 10_000  # kept step of the last 24 hours
COARSE_MS: Final = 300_000
KEPT_MS: Final = 30 * DAY_MS
Values = Mapping[int, float] | Callable[[int], float | None]


class MemoryHistory:
    """Samples and events that a test sets; each read is counted in `reads`."""

    def __init__(self, now_ms: int, since_ms: int | None = None) -> None:
        """Create it with an oldest sample at *since_ms*, by default as old as samples are kept."""
        self.now_ms = now_ms
        self.since_ms: int | None = now_ms - KEPT_MS if since_ms is None else since_ms
        self.samples: dict[tuple[str, str, str], Values] = {}
        self.events: list[Mark] = []
        self.failure = ""  # each read fails with it
        self.problem = ""  # with keeping it
        self.origin = ""
        self.reads: list[str] = []

    def put(self, kind: str, name: str, word: str, values: Values) -> None:
        """Set the samples of a series, by wall ms or as a function of it; the times are multiples of 10 s."""
        assert word in KINDS[kind]
        self.samples[kind, name, word] = values

    def window(self, length_ms: int, now_ms: int, most_points: int = MOST_POINTS) -> Window:
        return window_of(length_ms, now_ms, FINE_MS if length_ms <= DAY_MS else COARSE_MS, most_points)

    async def known_since(self) -> int | None:
        self._read("known_since")
        return self.since_ms

    async def curves(self, kind: str, name: str, window: Window) -> HistoryData:
        self._read("curves")
        times = tuple(range(window.begin_ms, window.end_ms, window.step_ms))
        curves = tuple(self._curve(kind, name, word, window) for word in KINDS[kind])
        return HistoryData(kind, name, times, curves, FINE_MS // 1000)

    async def curve_of_each(self, kind: str, names: Collection[str], word: str, window: Window) -> Mapping[str, Curve]:
        self._read("curve_of_each")
        return {name: self._curve(kind, name, word, window) for name in names if (kind, name, word) in self.samples}

    async def moved(
        self, kind: str, word: str, window: Window, new: Collection[str] = ()
    ) -> Mapping[str, tuple[float, float]]:
        self._read("moved")
        found = {}
        for of_kind, name, of_word in self.samples:
            if (of_kind, of_word) == (kind, word):
                known = self._curve(kind, name, word, window).known
                if known:
                    found[name] = known[0], known[-1]
        return differing(found, new)

    async def marks(self, window: Window) -> Sequence[Mark]:
        self._read("marks")
        return [each for each in self.events if window.begin_ms <= each.at_ms < window.end_ms][-1000:]

    def _read(self, name: str) -> None:
        self.reads.append(name)
        if self.failure:
            raise HistoryUnavailable(self.failure)

    def _curve(self, kind: str, name: str, word: str, window: Window) -> Curve:
        samples: Any = self.samples.get((kind, name, word), {})
        value_at = samples if callable(samples) else samples.get
        values: list[float | None] = []
        last_ms = None
        for begin_ms in range(window.begin_ms, window.end_ms, window.step_ms):
            is_old = self.now_ms - begin_ms > DAY_MS
            step_ms = COARSE_MS if is_old else FINE_MS
            first = begin_ms // step_ms * step_ms
            found = [
                (at, value)
                for at in range(first, max(begin_ms + window.step_ms, first + step_ms), step_ms)
                if (self.since_ms or 0) <= at <= self.now_ms and at > self.now_ms - KEPT_MS
                if (value := value_at(at)) is not None
            ]
            if not found:
                values.append(None)
                continue
            numbers = [value for _, value in found]
            values.append(sum(numbers) / len(numbers) if word in AVERAGED else max(numbers))
            last_ms = found[-1][0]
        return Curve(word, tuple(values), last_ms)
