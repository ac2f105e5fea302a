"""The last hour of rates, lags and disk use, sampled while visitors use the console or alerts are configured.

Each series has one value each 10 s, as 32-bit floats in memory. When all series together need more than 16 MiB, the one
unchanged for longest is dropped.
"""

from __future__ import annotations

import logging
import math
from array import array
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import reduce
from typing import Final, TypeAlias

import attrs

from gantrymq.errors import ClientError
from gantrymq.plugin.world import monotonic_ms
from gantrymq_admin.asking import Asking
from gantrymq_console.data.brokers import overview
from gantrymq_console.data.cluster import Cluster
from gantrymq_console.data.groups import COLUMNS as GROUP_COLUMNS
from gantrymq_console.data.groups import group_tables
from gantrymq_console.data.table import BrokerTable, total
from gantrymq_console.data.topics import COLUMNS as TOPIC_COLUMNS
from gantrymq_console.data.topics import TopicRow, topic_tables
from gantrymq_console.values import Long

EVERY_S: Final = 10
KEPT: Final = 360  # samples: an hour
_GAP_MS: Final = 3 * EVERY_S * 1000  # between two samples: sampling paused, and values in between are unknown
_MOST_BYTES: Final = 16 * 1024 * 1024
SERIES_BYTES: Final = 4 * KEPT + 400  # with the objects around the numbers, measured with tracemalloc

Key = tuple[str, str, str]
"""Kind of the subject, its name, and the word of the series, such as ("topic", "Orders", "in")."""
KINDS: Final = {
    "cluster": ("in", "out"),
    "broker": ("in", "out", "disk"),
    "topic": ("in", "out"),
    "group": ("behind", "late_s", "dead_letters"),
}
"""Kinds of subjects with the words of their series."""
_UNSEEN_S: Final = 60.0  # sampling pauses after this time without a visitor
_NOW_MS: Final = 30_000  # age up to which a value is shown as the present one
_MOST_WATCHED: Final = 20  # names that brokers without summaries are asked for in each sample


class Series:
    """Rings of samples; all have the same times."""

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most = max(1, most_bytes // SERIES_BYTES)
        self._times = array("q", [0]) * KEPT
        self._rings: OrderedDict[Key, array[float]] = OrderedDict()  # the one that moved last is at the end
        self.taken = 0  # samples so far

    def __len__(self) -> int:
        return len(self._rings)

    @property
    def size_bytes(self) -> int:
        """Estimated memory."""
        return len(self._rings) * SERIES_BYTES

    def begin(self, now_ms: int) -> None:
        """Begin the sample of *now_ms*, in which everything is unknown yet.

        After a pause there is an empty sample before it, so that no curve crosses the pause.
        """
        newest_ms = self._times[(self.taken - 1) % KEPT]
        if self.taken and now_ms - newest_ms > _GAP_MS:
            self._begin(newest_ms + EVERY_S * 1000)
        self._begin(now_ms)

    def _begin(self, now_ms: int) -> None:
        place = self.taken % KEPT
        self._times[place] = now_ms
        self.taken += 1
        for ring in self._rings.values():
            ring[place] = math.nan

    def put(self, kind: str, name: str, word: str, value: float | None, *, create: bool = True) -> None:
        """Set a value of this sample.

        Args:
            kind, name, word: the series.
            value: None if it is not known.
            create: false to ignore a series that has no ring yet, because it does not move.
        """
        key = (kind, name, word)
        ring = self._rings.get(key)
        if value is None or (ring is None and not create):
            return
        if ring is None:
            ring = self._rings[key] = array("f", [math.nan]) * KEPT
            if len(self._rings) > self._most:
                self._rings.popitem(last=False)
        elif create:
            self._rings.move_to_end(key)
        ring[(self.taken - 1) % KEPT] = value

    def times(self) -> list[int]:
        """Return the times of all samples of the last hour, wall ms, the oldest first."""
        return [self._times[place] for place in self._places()]

    def values(self, kind: str, name: str, word: str) -> list[float | None] | None:
        """Return the values at these times, None for unknown ones; None without such a series."""
        ring = self._rings.get((kind, name, word))
        if ring is None:
            return None
        return [None if math.isnan(ring[place]) else round(ring[place], 3) for place in self._places()]

    def names(self, kind: str, word: str) -> list[str]:
        """Return the subjects of this kind that have such a series."""
        return [key[1] for key in self._rings if (key[0], key[2]) == (kind, word)]

    def _places(self) -> Iterator[int]:
        first = max(0, self.taken - KEPT)
        begin_ms = self._times[(self.taken - 1) % KEPT] - KEPT * EVERY_S * 1000
        return (number % KEPT for number in range(first, self.taken) if self._times[number % KEPT] > begin_ms)


log = logging.getLogger(__name__)


Rates: TypeAlias = "tuple[float | None, float | None]"  # of a topic, in and out; None if it is not known


@attrs.frozen
class Curve:
    """One series."""

    word: str
    values: tuple[float | None, ...]  # None: unknown
    last_ms: int | None = None  # wall time of the last value that is known

    @property
    def known(self) -> list[float]:
        """The values that are known."""
        return [each for each in self.values if each is not None]


@attrs.frozen
class HistoryData:
    """The history of one subject."""

    kind: str
    name: str
    times: tuple[int, ...]  # wall ms, the oldest first
    curves: tuple[Curve, ...]

    @property
    def is_empty(self) -> bool:
        """Whether there are fewer than two samples."""
        return all(len(each.known) < 2 for each in self.curves)

    def is_now(self, curve: Curve, now_ms: int) -> bool:
        """Return whether the last value of *curve* is the present one."""
        return curve.last_ms is not None and now_ms - curve.last_ms <= _NOW_MS


def _curve(word: str, values: Sequence[float | None], times: Sequence[int]) -> Curve:
    known = (at for at, value in zip(reversed(times), reversed(values), strict=False) if value is not None)
    return Curve(word, tuple(values), next(known, None))


class History:
    """Takes and keeps samples."""

    def __init__(self, cluster: Cluster, most_bytes: int = _MOST_BYTES) -> None:
        self._cluster = cluster
        self.series = Series(most_bytes)
        self._looked_ms: int | None = None  # monotonic
        self._watched: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._as_of: dict[tuple[str, str], int] = {}  # of the rows that the last sample was made of
        self._growing: tuple[int, dict[str, Long]] = 0, {}  # as of a sample
        self.always = False  # whether to sample also without visitors
        self.on_sample: Callable[[], None] = lambda: None

    def look(self, kind: str = "cluster", name: str = "") -> HistoryData:
        """Return the history of a subject, and go on sampling for a minute."""
        self._looked_ms = monotonic_ms(self._cluster.world.clock)
        self._watched[kind, name] = None
        self._watched.move_to_end((kind, name))
        if len(self._watched) > _MOST_WATCHED:
            self._watched.popitem(last=False)
        self._cluster.keep_on("history", self._run)
        times = tuple(self.series.times())
        curves = [_curve(word, self.series.values(kind, name, word) or (), times) for word in KINDS[kind]]
        return HistoryData(kind, name, times, tuple(curves))

    def begin(self) -> None:
        """Sample from now on until the cluster is closed."""
        self.always = True
        self._cluster.keep_on("history", self._run)

    async def _run(self) -> None:
        clock = self._cluster.world.clock
        while self.always or monotonic_ms(clock) - (self._looked_ms or 0) <= _UNSEEN_S * 1000:
            begun = clock.monotonic()
            try:
                await self.sample()
                self.on_sample()
            except ClientError as problem:
                log.debug("no sample: %s", problem)
            except Exception:
                log.exception("a sample of the history failed")
            await clock.sleep(max(1.0, EVERY_S - (clock.monotonic() - begun)))

    async def sample(self) -> None:
        """Take one sample. Raises ClientError: no name server answers."""
        found = (await overview(self._cluster)).value
        asking = Asking(self._cluster.world.clock, EVERY_S / 2)
        self.series.begin(self._cluster.world.clock.now_ms())
        for broker in found.brokers:
            if broker.answers:
                self.series.put("broker", broker.title, "in", broker.in_per_s)
                self.series.put("broker", broker.title, "out", broker.out_per_s)
                used = broker.disk_used
                self.series.put("broker", broker.title, "disk", None if used is None else used * 100)
        if not found.partial:  # else the curves have a gap: a sum without a broker would look like a fall
            self.series.put("cluster", "", "in", found.total("in_per_s"))
            self.series.put("cluster", "", "out", found.total("out_per_s"))
        await self._sample_topics(asking)
        await self._sample_groups(asking)

    async def _sample_topics(self, asking: Asking) -> None:
        tables = (await topic_tables(self._cluster)).brokers
        asked = {name: self._rates(table) for name, table in tables.items() if not table.walks}
        rates: dict[str, Rates] = {}
        unserved = set(tables) - set(asked)
        answers = await asking.all(asked)
        if len(answers) < len(asked):
            return
        for name, part in answers.items():
            if part is None:
                unserved.add(name)
            for topic, each in (part or {}).items():
                known = rates.get(topic, (0.0, 0.0))
                rates[topic] = total(known[0], each[0]), total(known[1], each[1])
        if unserved:
            rates = await self._watched_rates(asking, unserved, rates)
        else:
            for topic in self.series.names("topic", "in"):
                rates.setdefault(topic, (0.0, 0.0))
        for topic, (got_in, got_out) in rates.items():
            moved = bool(got_in or got_out)
            self.series.put("topic", topic, "in", got_in, create=moved)
            self.series.put("topic", topic, "out", got_out, create=moved)

    async def _rates(self, table: BrokerTable[TopicRow]) -> dict[str, tuple[float, float]] | None:
        """Return the rates in and out of the topics that move at one broker; None if it serves no summaries."""
        got_in, got_out = await table.column(TOPIC_COLUMNS["in"]), await table.column(TOPIC_COLUMNS["out"])
        if table.walks:
            return None
        pairs = ((name, rate, got_out.value.get(name, 0.0)) for name, rate in got_in.value.items())
        return {name: (rate, out) for name, rate, out in pairs if rate or out}

    async def _watched_rates(
        self, asking: Asking, brokers: Collection[str], rates: Mapping[str, Rates]
    ) -> dict[str, Rates]:
        """Return the rates of watched topics, with those at *brokers*, which serve no summaries and are asked now.

        Other topics, and all if a broker does not answer, have no rate: a sum without a broker would look like a fall.
        """
        wanted = [name for kind, name in self._watched if kind == "topic"]
        tables = await topic_tables(self._cluster)
        told = await asking.all({name: tables.brokers[name].refresh(wanted, ()) for name in brokers})
        if len(told) < len(brokers):
            return {}
        found = {topic: rates[topic] for topic in wanted if topic in rates}
        for topic in wanted:
            parts = [tables.brokers[name].rows.get(topic) for name in brokers]
            values = [each.value for each in parts if each is not None and each.value is not None]
            if values:
                got_in, got_out = found.get(topic, (0.0, 0.0))
                found[topic] = (
                    reduce(total, (each.in_per_s for each in values), got_in),
                    reduce(total, (each.out_per_s for each in values), got_out),
                )
        return found

    async def _sample_groups(self, asking: Asking) -> None:
        tables = await group_tables(self._cluster)
        wanted = [name for kind, name in self._watched if kind == "group"]
        walking = {
            name: table.refresh(wanted, list(table.rows)) for name, table in tables.brokers.items() if table.walks
        }
        await asking.all(walking)
        whole = [GROUP_COLUMNS["lag"], GROUP_COLUMNS["late"]]  # a curve shows no sum that lacks a broker's part
        whole += [attrs.evolve(GROUP_COLUMNS[each], combine=total) for each in ("dlq", "rate")]
        columns = [(await tables.column(asking, each)).value for each in whole]
        if not tables.complete:
            return
        behind, late_ms, dead_letters, rates = columns
        for name, lag in behind.items():
            times = [each for table in tables.brokers.values() if (each := table.as_of_ms(name)) is not None]
            if len(times) < len(tables.brokers) or not self._is_new("group", name, min(times)):
                continue
            late, moved = late_ms.get(name), bool(lag) or bool(rates.get(name))
            self.series.put("group", name, "behind", lag, create=moved)
            self.series.put("group", name, "late_s", None if late is None else late / 1000, create=moved)
            self.series.put("group", name, "dead_letters", dead_letters.get(name), create=moved)

    def _is_new(self, kind: str, name: str, as_of_ms: int) -> bool:
        """Return whether rows of this time are not in a sample yet."""
        known = self._as_of.get((kind, name))
        self._as_of[kind, name] = as_of_ms
        return known != as_of_ms

    def growth(self, name: str) -> Long | None:
        """Return how many dead letters a group got since `looked_since`."""
        values = [each for each in self.series.values("group", name, "dead_letters") or () if each is not None]
        return Long(values[-1] - values[0]) if len(values) > 1 else None

    def looked_since(self, name: str) -> int | None:
        """Return the time of the first number of dead letters of a group that is known, at most an hour ago."""
        values = self.series.values("group", name, "dead_letters") or ()
        return next((at for at, value in zip(self.series.times(), values, strict=False) if value is not None), None)

    def growing(self) -> dict[str, Long]:
        """Return the groups that got dead letters since `looked_since`, the most first."""
        if self._growing[0] != self.series.taken:
            found = ((name, self.growth(name)) for name in self.series.names("group", "dead_letters"))
            more = [(name, each) for name, each in found if each is not None and each > 0]
            self._growing = self.series.taken, dict(sorted(more, key=lambda pair: -pair[1]))
        return self._growing[1]
