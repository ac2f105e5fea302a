"""Samples of one period in memory: what is written when the period is over.

A series has values of its own in a period only if it changes there. Otherwise its last value is that of the whole
period, so that thousands of idle topics cost a comparison for each sample.

Periods have consecutive numbers in the order in which they were begun. Usually each begins where the one before ended.
After a step of the clock it does not, and two periods may have samples of the same time; then the later one counts.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import attrs

from gantrymq_console.history.packing import Column, Values, pack_row
from gantrymq_console.history.reading import AVERAGED, KINDS

KEY_PERIODS: Final = 12
"""Each subject gets a row at least once in so many periods; in others only if it changed."""
_NEVER: Final = object()  # no value so far: differs from all values


@attrs.frozen
class Level:
    """Samples that are kept with the same step."""

    number: int  # in the file
    step_ms: int
    slots: int  # of one period; at most 63, because a row of the file has them as bits

    def slot_of(self, at_ms: int) -> int:
        """Return the slot that begins nearest to a wall time."""
        return (at_ms + self.step_ms // 2) // self.step_ms


FINE: Final = Level(0, 10_000, 60)
COARSE: Final = Level(1, 300_000, 48)
LEVELS: Final = (FINE, COARSE)
Columns: TypeAlias = "Mapping[str, Sequence[Column]]"
"""Values of one sample: kind, then one column for each of its words. A kind that is missing was not sampled."""
Ends: TypeAlias = "Mapping[str, Sequence[Mapping[str, float | None]]]"
"""The last value of each series: kind, then one mapping for each of its words."""
Change: TypeAlias = "tuple[str, int, list[str], list[float | None]]"
"""Kind, place of the word, subjects and their new values."""


class Series:
    """One word of all subjects of a kind."""

    __slots__ = ("last", "varying")

    def __init__(self) -> None:
        self.last: dict[str, float | None] = {}
        self.varying: dict[str, Values] = {}  # values of all samples so far; may end early, then the last one is valid

    def add(self, place: int, column: Column) -> tuple[list[str], list[float | None]]:
        """Add the column of sample number *place*, and return what changed."""
        if not place:
            self.last = dict(column)
            return list(self.last), list(self.last.values())
        last, names, values = self.last, list[str](), list[float | None]()
        same, grown = last.get, False
        for name, value in column.items():
            old = same(name, _NEVER)
            if old != value:
                names.append(name)
                values.append(value)
                grown = grown or old is _NEVER
        if grown or len(column) != len(last):
            gone = [name for name in last.keys() - column.keys() if last[name] is not None]
            names += gone
            values += [None] * len(gone)
        for name, value in zip(names, values, strict=True):
            self._put(place, name, value)
        return names, values

    def _put(self, place: int, name: str, value: float | None) -> None:
        track = self.varying.get(name)
        old = self.last.get(name)
        if track is None:
            track = self.varying[name] = array("f")
        if len(track) < place:
            track.extend((math.nan if old is None else old,) * (place - len(track)))
        track.append(math.nan if value is None else value)
        self.last[name] = value

    def of(self, name: str, count: int) -> float | Values | None:
        """Return the values of a subject in *count* samples, or the one value that it had in all of them."""
        track, last = self.varying.get(name), self.last.get(name)
        if track is None:
            return last
        if len(track) < count:
            track = track[:]
            track.extend((math.nan if last is None else last,) * (count - len(track)))
        return track


class Part:
    """The samples of one kind in a period."""

    __slots__ = ("series", "slots")

    def __init__(self, kind: str) -> None:
        self.slots: list[int] = []
        self.series = tuple(Series() for _ in KINDS[kind])

    def names(self) -> Iterator[str]:
        """Return all subjects."""
        return iter(dict.fromkeys(name for each in self.series for name in each.last))


class Period:
    """The samples of one period."""

    def __init__(self, level: Level, number: int, slot: int) -> None:
        """Create an empty period for *slot*."""
        self.level = level
        self.number = number
        self.begin = slot - slot % level.slots
        self.newest = -1  # slot
        self.parts: dict[str, Part] = {}

    def takes(self, slot: int) -> bool:
        """Return whether a sample of *slot* belongs here: it is within the period, and later than all others."""
        return self.newest < slot < self.begin + self.level.slots and slot >= self.begin

    def add(self, slot: int, columns: Columns) -> list[Change]:
        """Add a sample, and return what changed; the first sample of a kind is all of it."""
        changes = list[Change]()
        for kind, given in columns.items():
            part = self.parts.get(kind)
            if part is None:
                part = self.parts[kind] = Part(kind)
            place = len(part.slots)
            for number, (series, column) in enumerate(zip(part.series, given, strict=True)):
                changes.append((kind, number, *series.add(place, column)))
            part.slots.append(slot)
        self.newest = slot
        return changes

    def bits(self, kind: str) -> int:
        """Return the slots of a kind as bits, the lowest for the first slot of the period."""
        part = self.parts.get(kind)
        return sum(1 << (slot - self.begin) for slot in part.slots) if part is not None else 0

    def ends(self) -> Ends:
        """Return the last value of each series."""
        return {kind: [each.last for each in part.series] for kind, part in self.parts.items()}

    def rows(self, before: Ends, ids: Mapping[str, Mapping[str, int]]) -> Iterator[tuple[str, int, bytes]]:
        """Return the rows to write: kind, id of the subject, and the row.

        Args:
            before: the last value of each series in earlier periods of the chain.
            ids: of the subjects, by kind.
        """
        for kind, part in self.parts.items():
            count, old = len(part.slots), before.get(kind, [{}] * len(part.series))
            for name in dict.fromkeys(part.names()) | dict.fromkeys(name for each in old for name in each):
                values = [each.of(name, count) for each in part.series]
                last = [each.get(name) for each in old]
                changed = values != last  # of a varying series always
                subject = ids[kind].get(name)  # None: it is gone for so long that it was deleted
                if subject is None:
                    continue
                if changed or ((self.number + subject) % KEY_PERIODS == 0 and values.count(None) < len(values)):
                    yield kind, subject, pack_row(kind, values)


def slots_of(begin: int, bits: int) -> list[int]:
    """Return the slots that `Period.bits` has."""
    return [begin + place for place in range(bits.bit_length()) if bits >> place & 1]


def summary(period: Period, first: int, end: int) -> Columns:
    """Return one sample made of those from slot *first* to before *end*: averages of rates, else the largest values."""
    found: dict[str, list[Column]] = {}
    for kind, part in period.parts.items():
        places = [place for place, slot in enumerate(part.slots) if first <= slot < end]
        if places:
            chosen = slice(places[0], places[-1] + 1)
            found[kind] = [
                _summary(series, chosen, len(part.slots), word in AVERAGED)
                for word, series in zip(KINDS[kind], part.series, strict=True)
            ]
    return found


def _summary(series: Series, chosen: slice, count: int, averaged: bool) -> Column:
    found = dict(series.last)
    for name in list(series.varying):
        values = series.of(name, count)
        assert isinstance(values, array)
        found[name] = combined(values[chosen], averaged)
    return found


def combined(values: Sequence[float], averaged: bool) -> float | None:
    """Return the average or the largest of the values that are known."""
    known = [each for each in values if each == each]
    if not known:
        return None
    return sum(known) / len(known) if averaged else max(known)
