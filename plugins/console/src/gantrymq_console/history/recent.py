"""Samples in memory: of the periods that are not over, and of those that are not written yet."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from typing import Final

import attrs

from gantrymq_console.history.file import Batch, Ended, Unwritten
from gantrymq_console.history.packing import KIND_NAMES, unpack_sample
from gantrymq_console.history.periods import COARSE, FINE, LEVELS, Columns, Ends, Level, Period, summary
from gantrymq_console.history.reading import KINDS, Mark

MOST_ENDED: Final = 6  # periods of a level that wait to be written; then the oldest is dropped
MOST_MARKS: Final = 1000  # that wait to be written
_RATIO: Final = COARSE.step_ms // FINE.step_ms


@attrs.frozen
class Loaded:
    """What a file had when it was opened."""

    subjects: Sequence[tuple[int, str, str]]  # id, kind, name
    next_numbers: tuple[int, ...]  # of the next period of each level
    unfinished: tuple[tuple[Period, ...], ...]  # periods of each level that were not over


@attrs.define
class _Chain:
    """Consecutive periods of one level."""

    level: Level
    number: int = 0  # of the next period
    begin: int = 0  # number of the first period in which every subject gets a row
    period: Period | None = None  # the one that is not over
    ended: list[Ended] = attrs.field(factory=list)
    ends: Ends = attrs.field(factory=dict)  # of the periods before
    unwritten: list[Unwritten] = attrs.field(factory=list)  # samples of `period`


@attrs.frozen
class Due:
    """A point of five minutes that can be made, as no more samples of its time will come."""

    period: Period  # of the samples
    slot: int  # of the point

    def made(self) -> Columns:
        """Return its columns; with thousands of series that change it takes tens of milliseconds."""
        return summary(self.period, self.slot * _RATIO, (self.slot + 1) * _RATIO)


class Recent:
    """Samples and events that may be in memory only. Used in the event loop's thread."""

    def __init__(self) -> None:
        self.ids: dict[str, dict[str, int]] = {kind: {} for kind in KINDS}
        self._next_id = 1
        self._subjects: list[tuple[int, int, str]] = []  # unwritten ones
        self._chains = {level: _Chain(level) for level in LEVELS}
        self._marks: list[Mark] = []

    def due(self, at_ms: int) -> Due | None:
        """Return the point of five minutes that has to be made before a sample of a wall time is added, if any."""
        slot, fine = FINE.slot_of(at_ms), self._chains[FINE].period
        if fine is None or slot == fine.newest:
            return None
        of = fine.newest // _RATIO
        return Due(fine, of) if of != slot // _RATIO or not fine.takes(slot) else None

    def add_point(self, due: Due, columns: Columns) -> None:
        """Add a point of five minutes, which `Due.made` returned."""
        self._add(COARSE, due.slot, columns)

    def add(self, at_ms: int, columns: Columns) -> bool:
        """Add a sample of a wall time; return whether it counts, as there is none of that time just before it."""
        slot, fine = FINE.slot_of(at_ms), self._chains[FINE].period
        if fine is not None and slot == fine.newest:
            return False
        self._add(FINE, slot, columns)
        return True

    def _add(self, level: Level, slot: int, columns: Columns) -> None:
        chain = self._chains[level]
        if chain.period is not None and not chain.period.takes(slot):
            if slot == chain.period.newest:
                return
            self._end(chain)
        if chain.period is None:
            chain.period = Period(level, chain.number, slot)
            chain.number += 1
        changes = chain.period.add(slot, columns)
        for kind, _, names, _ in changes:
            self._number(kind, names)
        chain.unwritten.append(Unwritten(level.number, chain.period.number, slot, changes))

    def _number(self, kind: str, names: Collection[str]) -> None:
        """Give numbers to subjects that have none."""
        ids, number = self.ids[kind], KIND_NAMES.index(kind)
        for name in set(names) - ids.keys():
            ids[name] = self._next_id
            self._subjects.append((self._next_id, number, name))
            self._next_id += 1

    def _end(self, chain: _Chain) -> None:
        period, chain.period, chain.unwritten = chain.period, None, []
        if period is None:
            return
        chain.ended.append(Ended(period, chain.ends, chain.begin))
        chain.ends = {**chain.ends, **period.ends()}
        if len(chain.ended) > MOST_ENDED:
            del chain.ended[0]
            chain.begin = chain.ended[0].period.number
            chain.ended[0] = attrs.evolve(chain.ended[0], before={})
            chain.ended = [attrs.evolve(each, chain=chain.begin) for each in chain.ended]

    def note(self, marks: Sequence[Mark]) -> None:
        """Add events."""
        self._marks = [*self._marks, *marks][-MOST_MARKS:]

    def marks(self) -> list[Mark]:
        """Return the events that are not written yet."""
        return list(self._marks)

    def periods(self, level: Level) -> list[Period]:
        """Return the periods in memory, in the order in which they were begun."""
        chain = self._chains[level]
        return [*(each.period for each in chain.ended), *([chain.period] if chain.period is not None else [])]

    def take(self) -> Batch:
        """Return all that is not written yet, which must be given to `written` or `failed`."""
        samples = [each for chain in self._chains.values() for each in chain.unwritten]
        for chain in self._chains.values():
            chain.unwritten = []
        batch = Batch(
            self._subjects,
            samples,
            [each for chain in self._chains.values() for each in chain.ended],
            self._chains[COARSE].number,
            self._marks,
        )
        self._subjects, self._marks = [], []
        return batch

    def written(self, batch: Batch, deleted: Collection[int]) -> None:
        """Drop what was written, and the subjects that the file has no more."""
        numbers = {(each.period.level, each.period.number) for each in batch.ended}
        for chain in self._chains.values():
            chain.ended = [each for each in chain.ended if (chain.level, each.period.number) not in numbers]
        if not deleted:
            return
        for number, (kind, ids) in enumerate(self.ids.items()):
            used = {name for level in LEVELS for each in self.periods(level) for name in _names(each, kind)}
            for name in [name for name, each in ids.items() if each in deleted]:
                if name in used:  # it has come back just now
                    self._subjects.append((ids[name], number, name))
                else:
                    del ids[name]

    def failed(self, batch: Batch) -> None:
        """Take back what could not be written."""
        self._subjects = batch.subjects + self._subjects
        self._marks = [*batch.marks, *self._marks][-MOST_MARKS:]
        for chain in self._chains.values():
            if chain.period is not None:
                place = chain.level.number, chain.period.number
                kept = [each for each in batch.samples if (each.level, each.number) == place]
                chain.unwritten = kept + chain.unwritten

    def adopt(self, loaded: Loaded) -> None:
        """Go on with a file that was opened just now, after what is in memory already, if anything."""
        names = {kind: list(ids) for kind, ids in self.ids.items()}
        self.ids = {kind: {} for kind in KINDS}
        self._subjects = []
        self._next_id = 1 + max((number for number, _, _ in loaded.subjects), default=0)
        for number, kind, name in loaded.subjects:
            self.ids[kind][name] = number
        for kind, known in names.items():
            self._number(kind, known)
        for chain, number, unfinished in zip(
            self._chains.values(), loaded.next_numbers, loaded.unfinished, strict=True
        ):
            self._end(chain)
            chain.number = max([number, *(each.number + 1 for each in unfinished)])
            ended = [Ended(each, {}, each.number) for each in unfinished]
            for each in chain.ended:
                each.period.number, chain.number = chain.number, chain.number + 1
            chain.begin = chain.ended[0].period.number if chain.ended else chain.number
            chain.ends, later = {}, chain.ended
            chain.ended = ended
            for each in later:
                chain.ended.append(Ended(each.period, chain.ends, chain.begin))
                chain.ends = {**chain.ends, **each.period.ends()}
            if unfinished and not later:  # nothing was sampled meanwhile
                last = chain.ended.pop()
                chain.period, chain.begin = last.period, last.period.number


def _names(period: Period, kind: str) -> Iterator[str]:
    return period.parts[kind].names() if kind in period.parts else iter(())


def restored(
    level: Level, samples: Sequence[tuple[int, int, bytes]], names: Sequence[tuple[int, str, str]]
) -> tuple[Period, ...]:
    """Return the periods that samples in a file make: number of the period, slot, and data.

    Raises:
        ValueError: a sample is damaged.
    """
    name_of = {number: name for number, _, name in names}
    found: dict[int, Period] = {}
    columns: dict[str, list[dict[str, float | None]]] = {}
    for number, slot, data in samples:
        if not (isinstance(number, int) and isinstance(slot, int)):
            raise ValueError("a sample is damaged: it has no number")
        if number not in found:
            found[number] = Period(level, number, slot)
            columns = {}
        if not found[number].takes(slot):
            raise ValueError(f"a sample is damaged: slot {slot} is not in period {number}")
        given = set[str]()
        for kind, place, subjects, values in unpack_sample(data):
            given.add(kind)
            of_words = columns.setdefault(kind, [{} for _ in KINDS[kind]])
            if place >= len(of_words):
                raise ValueError("a sample is damaged: it has more series than its kind")
            column = of_words[place]
            for subject, value in zip(subjects, values, strict=True):
                if subject in name_of:
                    column[name_of[subject]] = None if math.isnan(value) else value
        found[number].add(slot, {kind: columns[kind] for kind in given})
    return tuple(found.values())
