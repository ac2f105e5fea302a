"""Curves made of stored periods: values by slot, then the points of a window."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeAlias

import attrs

from gantrymq_console.history.file import HistoryFile, Stored
from gantrymq_console.history.packing import Values, unpack_row
from gantrymq_console.history.periods import Level, Period, combined, slots_of
from gantrymq_console.history.reading import AVERAGED, KINDS, Window

Row: TypeAlias = "Sequence[float | Values | None]"  # of one subject: for each word one value, or one for each sample


@attrs.frozen
class Slots:
    """Values of one subject by slot, for each word."""

    level: Level
    first: int
    words: tuple[str, ...]
    values: list[list[float | None]]

    @classmethod
    def empty(cls, level: Level, kind: str, begin_ms: int, end_ms: int) -> Slots:
        """Return slots of which nothing is known, for a period of wall time."""
        first, end = begin_ms // level.step_ms, -(-end_ms // level.step_ms)
        return cls(level, first, KINDS[kind], [[None] * (end - first) for _ in KINDS[kind]])

    @property
    def end(self) -> int:
        """The slot after the last one."""
        return self.first + len(self.values[0])

    def put(self, slots: Sequence[int], row: Row) -> None:
        """Set the values of one period; slots that are not here are ignored."""
        first, most = self.first, len(self.values[0])
        inside = not slots or (slots[0] >= first and slots[-1] < first + most)
        for found, values in zip(self.values, row, strict=True):
            each: Iterable[float | None] = values if isinstance(values, array) else (values,) * len(slots)
            for slot, value in zip(slots, each, strict=True):
                if inside or 0 <= slot - first < most:
                    found[slot - first] = None if value != value else value

    def last_ms(self, place: int) -> int | None:
        """Return the wall time of the last known value of a word."""
        values = self.values[place]
        for number in range(len(values) - 1, -1, -1):
            if values[number] is not None:
                return (self.first + number) * self.level.step_ms
        return None

    def points(self, place: int, window: Window) -> list[float | None]:
        """Return the points of a word; a step smaller than a slot has the value of the slot around it."""
        values, step_ms, averaged = self.values[place], self.level.step_ms, self.words[place] in AVERAGED
        found = list[float | None]()
        if window.step_ms == step_ms:
            start = window.begin_ms // step_ms - self.first
            return [None if each is None else round(each, 3) for each in values[start : start + count_of(window)]]
        for at_ms in range(window.begin_ms, window.end_ms, window.step_ms):
            first = at_ms // step_ms - self.first
            end = max(first + 1, (at_ms + window.step_ms) // step_ms - self.first)
            value = combined([each for each in values[max(0, first) : end] if each is not None], averaged)
            found.append(None if value is None else round(value, 3))
        return found


def count_of(window: Window) -> int:
    """Return the number of points of a window."""
    return len(range(window.begin_ms, window.end_ms, window.step_ms))


def put_periods(found: Slots, kind: str, name: str, periods: Iterable[Period]) -> None:
    """Set the values of periods in memory."""
    for period in periods:
        part = period.parts.get(kind)
        if part is not None:
            count = len(part.slots)
            found.put(part.slots, [each.of(name, count) for each in part.series])


def put_stored(found: Slots, kind: str, stored: Iterable[Stored]) -> None:
    """Set the values of periods of the file, in the order of their numbers; a damaged row is unknown."""
    row: Row | None = None
    chain, nothing = None, [None] * len(found.words)
    for each in stored:
        slots = slots_of(each.begin, each.bits)
        if each.chain != chain:
            row, chain = None, each.chain
        if each.data is not None:
            row = row_of(kind, each.data, len(slots))
        # Without a row there was no value; before a step of the clock, there may have been one at the same time.
        found.put(slots, nothing if row is None else row)
        row = None if row is None else ends_of(row)


def row_of(kind: str, data: bytes, count: int, only: int | None = None) -> Row | None:
    """Return the series of a row, see `unpack_row`; None if it is damaged."""
    try:
        return unpack_row(kind, data, count, only)
    except ValueError:
        return None


def ends_of(row: Row) -> list[float | None]:
    """Return the last value of each series."""
    return [each[-1] if isinstance(each, array) else each for each in row]


def slots_from(
    file: HistoryFile, kind: str, subjects: Mapping[str, int], found: Mapping[str, Slots], before: int
) -> None:
    """Set the values that the file has of some subjects, in periods with numbers less than *before*.

    Raises:
        sqlite3.Error: the file cannot be read.
    """
    for name, slots in found.items():
        if name in subjects:
            stored = file.read(slots.level, kind, subjects[name], slots.first, slots.end)
            put_stored(slots, kind, (each for each in stored if each.number < before))


class Ends:
    """The first and the last known value of one word of all subjects within some slots."""

    def __init__(self, kind: str, word: str, first: int, end: int) -> None:
        self._kind = kind
        self._place = KINDS[kind].index(word)
        self._first = first
        self._end = end
        self.found: dict[str, tuple[float, float]] = {}

    def _within(self, slots: Sequence[int]) -> tuple[int, int]:
        inside = [place for place, slot in enumerate(slots) if self._first <= slot < self._end]
        return (inside[0], inside[-1] + 1) if inside else (0, 0)

    def add_period(self, period: Period) -> None:
        """Add a period in memory, which is later than those that were added."""
        part = period.parts.get(self._kind)
        begin, end = self._within(part.slots) if part is not None else (0, 0)
        if part is None or begin == end:
            return
        series, found, count = part.series[self._place], self.found, len(part.slots)
        for name, last in series.last.items():
            if name not in series.varying:
                if last is not None:
                    found[name] = (found[name][0], last) if name in found else (last, last)
            else:
                values = series.of(name, count)
                assert isinstance(values, array)
                self._add(name, values[begin:end])

    def _add(self, name: str, values: Sequence[float]) -> None:
        known = [each for each in values if each == each]
        if known:
            self.found[name] = self.found[name][0] if name in self.found else known[0], known[-1]

    def add_file(self, file: HistoryFile, level: Level, names: Mapping[int, str], before: int) -> None:
        """Add the periods of the file with numbers less than *before*, which are earlier than those that were added.

        Raises:
            sqlite3.Error: the file cannot be read.
        """
        stored = [each for each in file.read_all(level, self._kind, self._first, self._end) if each[0].number < before]
        rows: dict[int, tuple[bytes, int]] = {}  # the newest of each subject
        firsts: dict[int, float] = {}
        chain, changes = None, list[tuple[dict[int, bytes], Sequence[int], int, int]]()
        for period, data in stored:
            if period.chain != chain:
                rows, chain = {}, period.chain
            slots = slots_of(period.begin, period.bits)
            begin, end = self._within(slots)
            if begin < end:
                for subject in names.keys() - firsts.keys():
                    value = self._first_of(data.get(subject), rows.get(subject), len(slots), begin, end)
                    if value is not None:
                        firsts[subject] = value
                changes.append((data, slots, begin, end))
            rows |= {subject: (each, len(slots)) for subject, each in data.items()}
        lasts = self._lasts(changes, {subject for subject in firsts if names[subject] not in self.found})
        for subject, first in firsts.items():
            name = names[subject]
            self.found[name] = first, self.found[name][1] if name in self.found else lasts.get(subject, first)

    def _first_of(
        self, data: bytes | None, carried: tuple[bytes, int] | None, count: int, begin: int, end: int
    ) -> float | None:
        if data is None:
            if carried is None:
                return None
            row = row_of(self._kind, *carried, self._place)
            value = None if row is None else ends_of(row)[self._place]
            return None if value != value else value
        return _known(self._values(data, count)[begin:end], 0)

    def _lasts(
        self, changes: Sequence[tuple[dict[int, bytes], Sequence[int], int, int]], wanted: Collection[int]
    ) -> dict[int, float]:
        """Return the last known values: those of the newest row of each subject with one."""
        lasts: dict[int, float] = {}
        for data, slots, begin, end in reversed(changes):
            for subject in (data.keys() & wanted) - lasts.keys():
                value = _known(self._values(data[subject], len(slots))[begin:end], -1)
                if value is not None:
                    lasts[subject] = value
        return lasts

    def _values(self, data: bytes, count: int) -> Sequence[float]:
        row = row_of(self._kind, data, count, self._place)
        value = None if row is None else row[self._place]
        return value if isinstance(value, array) else () if value is None else (value,) * count


def _known(values: Sequence[float], place: int) -> float | None:
    known = [each for each in values if each == each]
    return known[place] if known else None
