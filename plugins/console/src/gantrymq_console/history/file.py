"""The file of a history: an SQLite database, used by one thread at a time.

Tables:

- ``subjects``: names of topics and so on, by number. ``seen`` is the last coarse period in which one was sampled.
- ``periods``: of each level (`periods.LEVELS`) the periods that are over, by number. ``begin`` is the first slot, in
  steps since 1970; each kind has its samples as bits. ``chain`` is the first period of the process that wrote it: there
  every subject got a row, so that nobody needs to look further back.
- ``series``: rows of subjects (`packing.pack_row`). A subject without a row in a period kept its last value.
- ``samples``: those of periods that are not over (`packing.pack_sample`), all values or only those that changed.
- ``marks``: events.

What was written is never changed. Whatever takes too much is deleted, the period that was written first before others.
"""

from __future__ import annotations

import json
import math
import sqlite3
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any, Final

import attrs

from gantrymq_console.history.packing import KIND_NAMES, pack_sample
from gantrymq_console.history.periods import COARSE, KEY_PERIODS, LEVELS, Change, Ends, Level, Period
from gantrymq_console.history.reading import Mark

APPLICATION: Final = 0x474D5148  # "GMQH"
VERSION: Final = 1
MOST_MARKS: Final = 20_000
MEMORY: Final = ":memory:"
_PAGE: Final = 4096
_FULL_SHARE: Final = 0.95  # of the bound, from which on periods are deleted
_FILL: Final = 1.4  # bytes of pages for a byte of rows, of which not all pages are full
_ROW_BYTES: Final = 20  # of a row without its data
_MOST_SUBJECTS: Final = 1 << 31  # in samples their numbers are of 32 bits
_DAMAGE: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_TABLES: Final = f"""
PRAGMA application_id = {APPLICATION};
PRAGMA user_version = {VERSION};
CREATE TABLE subjects (id INTEGER PRIMARY KEY, kind INTEGER, name TEXT, seen INTEGER, UNIQUE (kind, name));
CREATE TABLE periods (level INTEGER, number INTEGER, chain INTEGER, begin INTEGER, bytes INTEGER,
    {", ".join(f"bits_{kind} INTEGER" for kind in KIND_NAMES)}, PRIMARY KEY (level, number)) WITHOUT ROWID;
CREATE INDEX periods_begin ON periods (level, begin);
CREATE TABLE series (level INTEGER, number INTEGER, kind INTEGER, subject INTEGER, data BLOB,
    PRIMARY KEY (level, number, kind, subject)) WITHOUT ROWID;
CREATE TABLE samples (level INTEGER, number INTEGER, slot INTEGER, data BLOB,
    PRIMARY KEY (level, number, slot)) WITHOUT ROWID;
CREATE TABLE marks (id INTEGER PRIMARY KEY, at_ms INTEGER, word TEXT, kind TEXT, name TEXT, fields TEXT);
CREATE INDEX marks_at ON marks (at_ms);
"""


class FileRefused(Exception):
    """The file is another program's, or a later version's; it is not touched."""


@attrs.frozen
class Bounds:
    """How much is kept."""

    fine_periods: int
    coarse_periods: int
    most_bytes: int

    def of(self, level: Level) -> int:
        """Return the number of periods of a level."""
        return self.coarse_periods if level is COARSE else self.fine_periods


@attrs.frozen
class Ended:
    """A period that is over, to be written."""

    period: Period
    before: Ends
    chain: int


@attrs.frozen
class Unwritten:
    """One sample of a period that is not over."""

    level: int
    number: int  # of the period
    slot: int
    changes: Sequence[Change]

    def packed(self, ids: Mapping[str, Mapping[str, int]]) -> bytes:
        """Return it as it is written; *ids* of the subjects, by kind and name."""
        return pack_sample(
            [
                (
                    kind,
                    place,
                    array("I", [ids[kind][name] for name in names]),
                    array("f", [math.nan if each is None else each for each in values]),
                )
                for kind, place, names, values in self.changes
            ]
        )


@attrs.define
class Batch:
    """What is to be written in one transaction."""

    subjects: list[tuple[int, int, str]] = attrs.field(factory=list)  # id, number of the kind, name
    samples: list[Unwritten] = attrs.field(factory=list)
    ended: list[Ended] = attrs.field(factory=list)
    seen: int = 0  # number of the coarse period that is not over yet
    marks: list[Mark] = attrs.field(factory=list)


@attrs.frozen
class Stored:
    """The series of one subject in a period."""

    number: int
    chain: int
    begin: int
    bits: int
    data: bytes | None  # None: it kept its last value


class HistoryFile:
    """An open file. Methods raise sqlite3.Error; they may be called from any thread."""

    def __init__(self, path: Path | str, bounds: Bounds) -> None:
        """Open or create it.

        Raises:
            FileRefused: it is not a history of this version.
            sqlite3.Error: it cannot be opened, or is damaged.
        """
        self.path = path
        self._bounds = bounds
        self.is_short = False  # whether periods were deleted that would be kept in a larger file
        self._lock = Lock()
        self._db = sqlite3.connect(path, timeout=1.0, isolation_level=None, check_same_thread=False)
        try:
            self._prepare()
        except BaseException:
            self._db.close()
            raise

    def _prepare(self) -> None:
        db = self._db
        (application,), (version,) = (
            db.execute(f"PRAGMA {each}").fetchone() for each in ("application_id", "user_version")
        )
        (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if tables and application != APPLICATION:
            raise FileRefused("it is the database of another program")
        if tables and version != VERSION:
            raise FileRefused(f"it has format {version}, and this version of GantryMQ has {VERSION}")
        db.execute("PRAGMA journal_mode = TRUNCATE")
        db.execute("PRAGMA synchronous = FULL")
        db.execute("PRAGMA cache_size = -2000")
        if not tables:
            db.executescript(f"PRAGMA page_size = {_PAGE}; BEGIN; {_TABLES} COMMIT;")

    def close(self) -> None:
        """Close it. Idempotent."""
        with self._lock:
            self._db.close()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            finally:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")

    def subjects(self) -> list[tuple[int, str, str]]:
        """Return id, kind and name of all subjects."""
        with self._lock:
            found = self._db.execute("SELECT id, kind, name FROM subjects").fetchall()
        for number, kind, name in found:
            if not (isinstance(name, str) and kind in range(len(KIND_NAMES)) and number in range(1, _MOST_SUBJECTS)):
                raise ValueError("a subject is damaged")
        return [(number, KIND_NAMES[kind], name) for number, kind, name in found]

    def next_number(self, level: Level) -> int:
        """Return the number of the next period of a level."""
        with self._lock:
            (last,) = self._db.execute("SELECT max(number) FROM periods WHERE level = ?", (level.number,)).fetchone()
        if not isinstance(last, int | None):
            raise ValueError("the number of a period is damaged")
        return 0 if last is None else last + 1

    def samples(self, level: Level) -> list[tuple[int, int, bytes]]:
        """Return number of the period, slot and data of samples of periods that are not over."""
        with self._lock:
            return self._db.execute(
                "SELECT number, slot, data FROM samples WHERE level = ? ORDER BY number, slot", (level.number,)
            ).fetchall()

    def write(self, batch: Batch, ids: Mapping[str, Mapping[str, int]]) -> frozenset[int]:
        """Write all of a batch, or nothing, and return the subjects that were deleted; *ids* by kind and name."""
        packed = [(each, list(each.period.rows(each.before, ids))) for each in batch.ended]
        samples = [(each.level, each.number, each.slot, each.packed(ids)) for each in batch.samples]
        deleted = frozenset[int]()
        with self._transaction() as db:
            subjects = [(*each, batch.seen) for each in batch.subjects]
            db.executemany("INSERT OR IGNORE INTO subjects VALUES (?, ?, ?, ?)", subjects)
            db.executemany("INSERT OR REPLACE INTO samples VALUES (?, ?, ?, ?)", samples)
            db.executemany(
                "INSERT INTO marks (at_ms, word, kind, name, fields) VALUES (?, ?, ?, ?, ?)",
                [(each.at_ms, each.word, each.kind, each.name, json.dumps(dict(each.fields))) for each in batch.marks],
            )
            if packed:
                self._prune(db, sum(_size(rows) for _, rows in packed) + sum(len(each[-1]) for each in samples))
            for ended, rows in packed:
                self._write_period(db, ended, rows)
            if any(each.period.level is COARSE for each, _ in packed):
                deleted = self._prune_names(db, batch, ids)
        return deleted

    def _write_period(self, db: sqlite3.Connection, ended: Ended, rows: Sequence[tuple[str, int, bytes]]) -> None:
        period, level = ended.period, ended.period.level.number
        size = _size(rows)
        bits = [period.bits(kind) for kind in KIND_NAMES]
        marks = ", ".join("?" * (5 + len(bits)))
        values = (level, period.number, ended.chain, period.begin, size, *bits)
        db.execute(f"INSERT INTO periods VALUES ({marks})", values)
        numbers = {kind: number for number, kind in enumerate(KIND_NAMES)}
        db.executemany(
            "INSERT INTO series VALUES (?, ?, ?, ?, ?)",
            sorted((level, period.number, numbers[kind], subject, data) for kind, subject, data in rows),
        )
        db.execute("DELETE FROM samples WHERE level = ? AND number <= ?", (level, period.number))

    def _prune(self, db: sqlite3.Connection, coming: int) -> None:
        """Delete periods so that the file has room for *coming* bytes, and keeps one period less than it may."""
        kept: dict[int, tuple[int, int, int]] = {
            level: (count, least, size)
            for level, count, least, size in db.execute(
                "SELECT level, count(*), min(number), sum(bytes) FROM periods GROUP BY level"
            )
        }
        for level, most in ((0, self._bounds.fine_periods), (1, self._bounds.coarse_periods)):
            while level in kept and kept[level][0] >= most:
                self._delete_oldest(db, level, kept)
        room = _FULL_SHARE * self._bounds.most_bytes - _FILL * coming
        self.is_short = (bool(kept) and self._used(db) > room) or (self.is_short and not self._is_whole(kept))
        while kept and self._used(db) > room:
            level = max(kept, key=lambda each: kept[each][2])
            self._delete_oldest(db, level, kept)
            if not kept[level][0]:
                del kept[level]

    def _is_whole(self, kept: Mapping[int, tuple[int, int, int]]) -> bool:
        """Return whether all levels have as many periods as they may."""
        return all(each[0] + 1 >= self._bounds.of(level) for level in LEVELS if (each := kept.get(level.number)))

    def _delete_oldest(self, db: sqlite3.Connection, level: int, kept: dict[int, tuple[int, int, int]]) -> None:
        count, number, size = kept[level]
        (found,) = db.execute("SELECT bytes FROM periods WHERE level = ? AND number = ?", (level, number)).fetchone()
        db.execute("DELETE FROM series WHERE level = ? AND number = ?", (level, number))
        db.execute("DELETE FROM periods WHERE level = ? AND number = ?", (level, number))
        (following,) = db.execute("SELECT min(number) FROM periods WHERE level = ?", (level,)).fetchone()
        kept[level] = count - 1, following, size - found

    def _prune_names(
        self, db: sqlite3.Connection, batch: Batch, ids: Mapping[str, Mapping[str, int]]
    ) -> frozenset[int]:
        """Delete the subjects whose last row is deleted, and marks that are older than all samples or too many."""
        parts = [part for each in batch.ended for part in each.period.parts.items()]
        present = [(batch.seen, ids[kind][name]) for kind, part in parts for name in part.names()]
        db.executemany("UPDATE subjects SET seen = ? WHERE id = ?", present)
        least, begin = db.execute(
            "SELECT min(number), min(begin) FROM periods WHERE level = ?", (COARSE.number,)
        ).fetchone()
        gone = db.execute("DELETE FROM subjects WHERE seen < ? RETURNING id", (least - KEY_PERIODS,)).fetchall()
        db.execute("DELETE FROM marks WHERE at_ms < ?", (begin * COARSE.step_ms,))
        db.execute("DELETE FROM marks WHERE id <= (SELECT max(id) FROM marks) - ?", (MOST_MARKS,))
        return frozenset(number for (number,) in gone)

    def _used(self, db: sqlite3.Connection) -> int:
        (pages,), (free,) = (db.execute(f"PRAGMA {each}").fetchone() for each in ("page_count", "freelist_count"))
        return int((pages - free) * _PAGE)

    def complete_since_ms(self, level: Level) -> int | None:
        """Return the wall time of the first period of which the value of every subject is known, None without one.

        In the ones before, a row may have been deleted that has the value of a subject that did not change.
        """
        with self._lock:
            found = self._db.execute(
                "SELECT begin FROM periods WHERE level = :level AND typeof(begin) = 'integer' "
                "AND (chain = number OR number >= (SELECT min(number) FROM periods WHERE level = :level) + :key) "
                "ORDER BY number LIMIT 1",
                {"level": level.number, "key": KEY_PERIODS},
            ).fetchone()
        return None if found is None else found[0] * level.step_ms

    def oldest_ms(self, level: Level) -> int | None:
        """Return the wall time at which the period begins that was written first, None without one."""
        with self._lock:
            found = self._db.execute(
                "SELECT begin FROM periods WHERE level = ? AND typeof(begin) = 'integer' ORDER BY number LIMIT 1",
                (level.number,),
            ).fetchone()
        return None if found is None else found[0] * level.step_ms

    def read(self, level: Level, kind: str, subject: int, first: int, end: int) -> list[Stored]:
        """Return the periods with slots from *first* to before *end*, and those in which the first value may be."""
        numbers = self._numbers(level, first, end)
        if numbers is None:
            return []
        with self._lock:
            found = self._db.execute(
                f"SELECT p.number, p.chain, p.begin, p.bits_{kind}, s.data FROM periods p LEFT JOIN series s "
                "ON s.level = p.level AND s.number = p.number AND s.kind = ? AND s.subject = ? "
                "WHERE p.level = ? AND p.number BETWEEN ? AND ? ORDER BY p.number",
                (KIND_NAMES.index(kind), subject, level.number, *numbers),
            ).fetchall()
        return [Stored(*each) for each in found if _is_sound(level, each)]

    def read_all(self, level: Level, kind: str, first: int, end: int) -> list[tuple[Stored, dict[int, bytes]]]:
        """Return the same periods with the rows of all subjects of a kind."""
        numbers = self._numbers(level, first, end)
        if numbers is None:
            return []
        with self._lock:
            periods = self._db.execute(
                f"SELECT number, chain, begin, bits_{kind}, NULL FROM periods "
                "WHERE level = ? AND number BETWEEN ? AND ? ORDER BY number",
                (level.number, *numbers),
            ).fetchall()
            return [
                (
                    Stored(*each),
                    dict(
                        self._db.execute(
                            "SELECT subject, data FROM series WHERE level = ? AND number = ? AND kind = ?",
                            (level.number, each[0], KIND_NAMES.index(kind)),
                        )
                    ),
                )
                for each in periods
                if _is_sound(level, each)
            ]

    def _numbers(self, level: Level, first: int, end: int) -> tuple[int, int] | None:
        with self._lock:
            least, most = self._db.execute(
                "SELECT min(number), max(number) FROM periods WHERE level = ? AND begin > ? AND begin < ?",
                (level.number, first - level.slots, end),
            ).fetchone()
        return None if least is None else (least - KEY_PERIODS, most)

    def marks(self, begin_ms: int, end_ms: int, most: int) -> list[Mark]:
        """Return the newest marks of a period, in the order of time."""
        with self._lock:
            found: Iterable[tuple[Any, ...]] = self._db.execute(
                "SELECT at_ms, word, kind, name, fields FROM marks WHERE at_ms >= ? AND at_ms < ? "
                "ORDER BY at_ms DESC, id DESC LIMIT ?",
                (begin_ms, end_ms, most),
            ).fetchall()
        marks = (_mark(*each) for each in reversed(list(found)))
        return [each for each in marks if each is not None]


def _is_sound(level: Level, row: Sequence[Any]) -> bool:
    """Return whether number, chain, begin and bits of a period can be those of one; a damaged one is left out."""
    return all(isinstance(each, int) for each in row[:4]) and 0 <= row[3] < 1 << level.slots


def _mark(at_ms: Any, word: Any, kind: Any, name: Any, fields: Any) -> Mark | None:
    """Return a mark; None if it is damaged."""
    try:
        told = json.loads(fields)
    except (ValueError, TypeError):
        return None
    sound = isinstance(at_ms, int) and isinstance(told, dict)
    return (
        Mark(at_ms, word, kind, name, told) if sound and all(isinstance(e, str) for e in (word, kind, name)) else None
    )


def _size(rows: Sequence[tuple[str, int, bytes]]) -> int:
    return sum(_ROW_BYTES + len(data) for _, _, data in rows)


def is_damage(problem: sqlite3.Error) -> bool:
    """Return whether an error says that the file is damaged."""
    return getattr(problem, "sqlite_errorcode", 0) & 0xFF in _DAMAGE
