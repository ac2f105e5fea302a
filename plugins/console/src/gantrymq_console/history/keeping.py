"""The history that a console keeps: samples every 10 s, in memory until they are written, and read from both.

Values of the last minutes are in memory; about every 30 s new ones are written in a worker thread. While the file
cannot be written, an hour of them stays in memory.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

import attrs

from gantrymq.errors import ClientError
from gantrymq.plugin.world import monotonic_ms
from gantrymq_console.data.cluster import Cluster
from gantrymq_console.history.curves import Ends, Slots, count_of, put_periods, slots_from
from gantrymq_console.history.events import Events
from gantrymq_console.history.file import MEMORY, Bounds, FileRefused, HistoryFile, is_damage
from gantrymq_console.history.periods import COARSE, FINE, KEY_PERIODS, LEVELS, Level
from gantrymq_console.history.reading import (
    DAY_MS,
    HOUR_MS,
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
from gantrymq_console.history.recent import Loaded, Recent, restored
from gantrymq_console.history.sampling import RATE_S, Sampler

log = logging.getLogger(__name__)

FILE_NAME: Final = "history.db"
FLUSH_S: Final = 30.0
MOST_READ_MARKS: Final = 1000
_SOON_S: Final = 5.0  # by which a flush may be early, so that it does not wait for the next sample
_UNSEEN_S: Final = 60.0  # after which a history that is not kept always stops sampling
_HOURS: Final = 24
_DAYS: Final = 30
_BYTES: Final = 100 * 1024 * 1024
_ALL: Final = 2**62  # greater than all numbers of periods
MEMORY_BYTES: Final = 16 * 1024 * 1024
Got = TypeVar("Got")


@attrs.frozen
class HistoryOptions:
    """How much is kept."""

    hours: int = _HOURS  # of samples
    days: int = _DAYS  # of points of five minutes
    most_bytes: int = _BYTES

    def bounds(self) -> Bounds:
        """Return the numbers of periods, with those in which the first values of later ones may be."""
        fine, coarse = (
            -(-length_ms // (level.step_ms * level.slots)) + KEY_PERIODS
            for level, length_ms in ((FINE, self.hours * HOUR_MS), (COARSE, self.days * DAY_MS))
        )
        return Bounds(fine, coarse, self.most_bytes)


class History:
    """Takes samples of a cluster and keeps them; a `HistorySource`."""

    def __init__(
        self, cluster: Cluster, options: HistoryOptions, folder: Path | None = None, *, always: bool = True
    ) -> None:
        """Create it; `begin` starts it.

        Args:
            cluster: what is sampled.
            options: how much is kept.
            folder: of the file; None: samples are kept in memory only.
            always: false to sample for a minute after each read.
        """
        self._cluster = cluster
        self._clock = cluster.world.clock
        self._workers = cluster.world.workers
        self._options = options
        self._path = None if folder is None else folder / FILE_NAME
        self._always = always
        self._sampler = Sampler(cluster)
        self._events = Events(cluster)
        self._recent = Recent()
        self._file: HistoryFile | None = None
        self._task: asyncio.Task[None] | None = None
        self._flushing: asyncio.Task[None] | None = None
        self._flushed_ms: int | None = None  # monotonic
        self._read_ms = 0  # monotonic
        self._failure = ""  # why it cannot be written now
        self._note = ""  # what happened to the file
        self._closed = False

    @property
    def origin(self) -> str:
        """See `HistorySource.origin`."""
        return ""

    @property
    def problem(self) -> str:
        """See `HistorySource.problem`."""
        return self._failure or self._note or self._bound_reached()

    def _bound_reached(self) -> str:
        if self._file is None or not self._file.is_short or self._path is None:
            return ""
        return (
            f"The file of the history has reached its bound of {self._options.most_bytes} bytes, so that the oldest "
            "samples are deleted earlier than the settings say: a higher --history-bytes (in a broker "
            "consoleHistoryBytes) keeps more."
        )

    def begin(self) -> None:
        """Sample until `close`; or, unless always, for a minute."""
        self._read_ms = monotonic_ms(self._clock)
        if not self._closed and (self._task is None or self._task.done()):
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Write what is not written yet, and stop. Idempotent."""
        self._closed = True
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        await self.flush()
        if self._file is not None:
            await self._workers.run(self._file.close)
            self._file = None

    async def _run(self) -> None:
        if self._file is None:
            await self._open()
        while self._always or monotonic_ms(self._clock) - self._read_ms <= _UNSEEN_S * 1000:
            try:
                await self.sample()
            except ClientError as problem:
                log.debug("no sample: %s", problem)
            except Exception:
                log.exception("a sample of the history failed")
            self._flush_later()
            now_ms = self._clock.now_ms()
            await self._clock.sleep((FINE.step_ms - now_ms % FINE.step_ms) / 1000)

    async def sample(self) -> None:
        """Take one sample. Raises ClientError: no name server answers."""
        sample = await self._sampler.take()
        if (due := self._recent.due(sample.at_ms)) is not None:
            self._recent.add_point(due, await self._workers.run(due.made))
        if self._recent.add(sample.at_ms, sample.columns):
            self._recent.note(await self._events.found(sample))

    def _flush_later(self) -> None:
        now_ms = monotonic_ms(self._clock)
        since_ms = None if self._flushed_ms is None else now_ms - self._flushed_ms
        if (self._flushing is None or self._flushing.done()) and (
            since_ms is None or since_ms >= (FLUSH_S - _SOON_S) * 1000
        ):
            self._flushed_ms = now_ms
            self._flushing = asyncio.get_running_loop().create_task(self._flush())

    async def flush(self) -> None:
        """Write what is not written yet. Does not fail: see `problem`."""
        while self._flushing is not None and not self._flushing.done():
            await asyncio.wait([self._flushing])
        self._flushing = asyncio.get_running_loop().create_task(self._flush())
        await asyncio.wait([self._flushing])

    async def _flush(self) -> None:
        if self._file is None:
            await self._open()
        if (file := self._file) is None:
            return
        batch = self._recent.take()
        try:
            deleted = await self._workers.run(file.write, batch, self._recent.ids)
        except (sqlite3.Error, OSError) as problem:
            self._recent.failed(batch)
            await self._broken(file, problem)
        except BaseException:
            self._recent.failed(batch)
            raise
        else:
            self._recent.written(batch, deleted)
            if self._failure:
                log.warning("the history is written to %s again", file.path)
                self._failure = ""

    async def _broken(self, file: HistoryFile, problem: Exception) -> None:
        """Note that the file cannot be read or written; a damaged one is replaced."""
        if isinstance(problem, sqlite3.Error) and is_damage(problem) and self._file is file:
            self._file = None
            await self._workers.run(file.close)
            await self._open()
        elif not self._failure:
            self._failure = (
                f"The history cannot be written to {file.path}: {problem}. It is kept in memory for an hour."
            )
            log.warning("%s", self._failure)

    async def _open(self) -> None:
        """Open the file, or create it: in memory if it must not be used."""
        path = self._path
        try:
            if path is not None and await self._workers.run(self._is_usable, path):
                self._file, loaded = await self._workers.run(self._opened, path)
            else:
                self._file, loaded = await self._workers.run(self._opened, None)
        except FileRefused as problem:
            self._note = (
                f"{path} is not used for the history: {problem}. The history is in memory until the next start."
            )
            log.warning("%s", self._note)
            self._file, loaded = await self._workers.run(self._opened, None)
        except (sqlite3.Error, OSError) as problem:
            if not self._failure:
                self._failure = f"The history cannot be written to {path}: {problem}. It is kept in memory for an hour."
                log.warning("%s", self._failure)
            return
        self._events.knows_groups({name for _, kind, name in loaded.subjects if kind == "group"})
        self._recent.adopt(loaded)

    def _is_usable(self, path: Path) -> bool:
        """Return whether the path is in a folder of the operating system; a simulated one is not."""
        self._cluster.world.files.make_dirs(path.parent)
        return path.parent.is_dir()

    def _opened(self, path: Path | None) -> tuple[HistoryFile, Loaded]:
        """Open a file; a damaged one is renamed. Runs in a worker."""
        if path is None:
            bytes_ = min(MEMORY_BYTES, self._options.most_bytes)
            file = HistoryFile(MEMORY, attrs.evolve(self._options.bounds(), most_bytes=bytes_))
            return file, _loaded(file)
        try:
            return self._loaded(path)
        except (sqlite3.DatabaseError, ValueError) as problem:
            if isinstance(problem, sqlite3.Error) and not is_damage(problem):
                raise
            aside = path.with_name(f"{path.name}.damaged")
            self._cluster.world.files.rename(path, aside)
            self._cluster.world.files.remove(path.with_name(f"{path.name}-journal"))
            self._note = f"The file of the history was damaged ({problem}); it is {aside} now, and a new one was begun."
            log.warning("%s", self._note)
            return self._loaded(path)

    def _loaded(self, path: Path) -> tuple[HistoryFile, Loaded]:
        file = HistoryFile(path, self._options.bounds())
        try:
            return file, _loaded(file)
        except BaseException:
            file.close()
            raise

    async def _reading(self, read: Callable[[HistoryFile], Got], default: Got) -> Got:
        """Return what *read* returns in a worker. Raises HistoryUnavailable."""
        if not self._always:
            self.begin()
        if (file := self._file) is None:
            return default
        try:
            return await self._workers.run(read, file)
        except sqlite3.Error as problem:
            if is_damage(problem):
                await self._broken(file, problem)
            raise HistoryUnavailable(f"The history cannot be read from {file.path}: {problem}.") from problem

    def window(self, length_ms: int, now_ms: int, most_points: int = MOST_POINTS) -> Window:
        """See `HistorySource.window`."""
        level = FINE if length_ms <= self._options.hours * HOUR_MS else COARSE
        return window_of(length_ms, now_ms, level.step_ms, most_points)

    async def known_since(self) -> int | None:
        """See `HistorySource.known_since`."""
        fine, coarse = [await self._begin_of(level) for level in LEVELS]
        if fine is None or coarse is None:
            return coarse if fine is None else fine
        return fine if fine - coarse < COARSE.step_ms else coarse  # the first point begins before the first sample

    async def _begin_of(self, level: Level) -> int | None:
        """Return the wall time of the first value of a level, None without one."""
        periods = self._recent.periods(level)
        begins = [each.parts[kind].slots[0] * level.step_ms for each in periods for kind in each.parts]
        stored = await self._reading(lambda file: file.oldest_ms(level), None)
        return min((*begins, *(() if stored is None else (stored,))), default=None)

    async def curves(self, kind: str, name: str, window: Window) -> HistoryData:
        """See `HistorySource.curves`."""
        self._sampler.watch(kind, name)
        found = (await self._curves(kind, [name], KINDS[kind], window))[name]
        times = tuple(range(window.begin_ms, window.end_ms, window.step_ms))
        return HistoryData(kind, name, times, tuple(found), RATE_S[kind])

    async def curve_of_each(self, kind: str, names: Collection[str], word: str, window: Window) -> Mapping[str, Curve]:
        """See `HistorySource.curve_of_each`."""
        return {name: found[0] for name, found in (await self._curves(kind, names, (word,), window)).items()}

    async def _curves(
        self, kind: str, names: Collection[str], words: Sequence[str], window: Window
    ) -> dict[str, list[Curve]]:
        found = dict[str, list[Curve]]()
        if window.step_ms >= COARSE.step_ms:
            slots = await self._slots(COARSE, kind, names, window.begin_ms, window.end_ms)
            for name, each in slots.items():
                self._put_now(each, kind, name)
                found[name] = [_curve(each, each, word, window, window.end_ms) for word in words]
            return found
        since_ms = await self._fine_since(window)
        slots = await self._slots(FINE, kind, names, window.begin_ms, window.end_ms)
        before = await self._slots(COARSE, kind, names, window.begin_ms, since_ms)
        return {
            name: [_curve(each, before.get(name), word, window, since_ms) for word in words]
            for name, each in slots.items()
        }

    async def _fine_since(self, window: Window) -> int:
        """Return up to when a window has no samples any more, but points of five minutes."""
        stored = await self._reading(lambda file: file.complete_since_ms(FINE), None)
        if stored is None:
            stored = min((each.begin * FINE.step_ms for each in self._recent.periods(FINE)), default=window.end_ms)
        return max(window.begin_ms, min(window.end_ms, stored))

    async def _slots(
        self, level: Level, kind: str, names: Collection[str], begin_ms: int, end_ms: int
    ) -> dict[str, Slots]:
        if begin_ms >= end_ms:
            return {}
        found = {name: Slots.empty(level, kind, begin_ms, end_ms) for name in names}
        periods = self._recent.periods(level)  # before the file is read: they may be written meanwhile
        ids = {name: self._recent.ids[kind][name] for name in names if name in self._recent.ids[kind]}
        before = min((each.number for each in periods), default=_ALL)
        await self._reading(lambda file: slots_from(file, kind, ids, found, before), None)
        for name, slots in found.items():
            put_periods(slots, kind, name, periods)
        return found

    def _put_now(self, found: Slots, kind: str, name: str) -> None:
        """Set the value of the five minutes that are not over."""
        periods = self._recent.periods(FINE)
        if not periods or periods[-1].newest < 0:
            return
        slot = periods[-1].newest * FINE.step_ms // COARSE.step_ms
        if found.first <= slot < found.end:
            now = Slots.empty(FINE, kind, slot * COARSE.step_ms, (slot + 1) * COARSE.step_ms)
            put_periods(now, kind, name, periods)
            whole = Window(slot * COARSE.step_ms, (slot + 1) * COARSE.step_ms, COARSE.step_ms)
            found.put([slot], [now.points(place, whole)[0] for place in range(len(now.words))])

    async def moved(
        self, kind: str, word: str, window: Window, new: Collection[str] = ()
    ) -> Mapping[str, tuple[float, float]]:
        """See `HistorySource.moved`."""
        since_ms, coarse_ms = await self._fine_since(window), await self._begin_of(COARSE)
        reaches_back = coarse_ms is not None and since_ms - max(window.begin_ms, coarse_ms) >= COARSE.step_ms
        level = COARSE if reaches_back else FINE  # points lack the last minutes, and have no first values
        ends = Ends(kind, word, window.begin_ms // level.step_ms, -(-window.end_ms // level.step_ms))
        periods = self._recent.periods(level)
        before = min((each.number for each in periods), default=_ALL)
        names = {number: name for name, number in self._recent.ids[kind].items()}
        for each in periods:
            ends.add_period(each)
        await self._reading(lambda file: ends.add_file(file, level, names, before), None)
        return differing(ends.found, new)

    async def marks(self, window: Window) -> Sequence[Mark]:
        """See `HistorySource.marks`."""
        recent = self._recent.marks()
        stored = await self._reading(
            lambda file: file.marks(window.begin_ms, window.end_ms, MOST_READ_MARKS), list[Mark]()
        )
        found = stored + [
            each for each in recent if window.begin_ms <= each.at_ms < window.end_ms and each not in stored
        ]
        return sorted(found, key=lambda each: each.at_ms)[-MOST_READ_MARKS:]


def _curve(slots: Slots, before: Slots | None, word: str, window: Window, since_ms: int) -> Curve:
    """Return a curve of *slots*, and of *before* for the points before *since_ms*."""
    place = slots.words.index(word)
    values, last_ms = slots.points(place, window), slots.last_ms(place)
    if before is not None and before is not slots:
        count = count_of(attrs.evolve(window, end_ms=since_ms))
        earlier = before.points(place, attrs.evolve(window, end_ms=since_ms))
        values[:count] = [old if new is None else new for new, old in zip(values[:count], earlier, strict=True)]
        last_ms = before.last_ms(place) if last_ms is None else last_ms
    return Curve(word, tuple(values), last_ms)


def _loaded(file: HistoryFile) -> Loaded:
    subjects = file.subjects()
    return Loaded(
        subjects,
        tuple(file.next_number(level) for level in LEVELS),
        tuple(restored(level, file.samples(level), subjects) for level in LEVELS),
    )
