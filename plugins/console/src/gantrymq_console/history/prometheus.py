"""A history that is read from Prometheus, which scrapes the brokers of the cluster.

Events are those of the console's own samples, as metrics have none.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Awaitable, Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, TypeVar
from urllib.parse import urlencode

from gantrymq.errors import ClientError
from gantrymq.plugin.model import format_address
from gantrymq.plugin.world import World, monotonic_ms
from gantrymq_console.data.cluster import Cluster
from gantrymq_console.history.prometheus_options import PrometheusOptions, SecretUnreadable
from gantrymq_console.history.promql import (
    BROKERS,
    WORD,
    Ranges,
    in_clusters,
    presence,
    scrapes,
    series,
    subject_of,
)
from gantrymq_console.history.reading import (
    AVERAGED,
    DAY_MS,
    HOUR_MS,
    KINDS,
    MOST_POINTS,
    Curve,
    HistoryData,
    HistoryOff,
    HistorySource,
    HistoryUnavailable,
    Mark,
    Window,
    differing,
    window_of,
)
from gantrymq_console.http_client import REDIRECTED, RequestFailed, Response, post

TIMEOUT_S: Final = 2.0
MOST_BYTES: Final = 16 * 1024 * 1024  # of a response
_SCRAPE_S: Final = 15  # usual time between two scrapes
_LEAST_STEP_S: Final = 10
_LONGEST_SCRAPE_S: Final = 300
_KEPT_MS: Final = 300_000  # how long the time between scrapes, and the beginning of the history, are not asked again
_MISSED_MS: Final = 600_000  # how long a sum without a broker counts as unknown
_ENDS: Final = 6  # points of which the first and last value of a period are taken
_MOST_DAYS: Final = 31
_AT_ONCE: Final = 4  # requests, each of which has a descriptor
_FAILED_MS: Final = 15_000  # how long Prometheus is not asked again after a failure
_SENTENCE: Final = 200  # characters of an error of Prometheus
Matrix = list[tuple[Mapping[str, str], list[tuple[float, float]]]]  # labels, and times with values

Got = TypeVar("Got")


class PrometheusHistory:
    """The history of a cluster; a `HistorySource`."""

    def __init__(self, cluster: Cluster, options: PrometheusOptions, own: HistorySource) -> None:
        """Create it; *own* has the events."""
        self._cluster = cluster
        self._world: World = cluster.world
        self._options = options
        self._own = own
        self._where = (
            format_address(options.to.hostname or "", options.to.port) if options.to.port else options.to.netloc
        )
        self._clusters: frozenset[str] = frozenset()
        self._scrape_s = _SCRAPE_S
        self._scrape_asked_ms: int | None = None  # monotonic
        self._since: tuple[int, int | None] | None = None  # monotonic time of the question, and the answer
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._failed: tuple[int, str] | None = None  # monotonic time of the last failure, and its sentence

    @property
    def problem(self) -> str:
        """See `HistorySource.problem`."""
        return self._own.problem

    @property
    def origin(self) -> str:
        """See `HistorySource.origin`."""
        return self._where

    def window(self, length_ms: int, now_ms: int, most_points: int = MOST_POINTS) -> Window:
        """See `HistorySource.window`."""
        return window_of(length_ms, now_ms, max(_LEAST_STEP_S, self._scrape_s) * 1000, most_points)

    async def known_since(self) -> int | None:
        """See `HistorySource.known_since`: to the hour, and at most 31 days ago."""
        asked_ms = monotonic_ms(self._world.clock)
        if self._since is None or asked_ms - self._since[0] >= _KEPT_MS:
            now_ms = self._world.clock.now_ms()
            begin_ms = now_ms // HOUR_MS * HOUR_MS - _MOST_DAYS * DAY_MS
            try:
                found = await self._range(presence(await self._matchers()), begin_ms, now_ms, HOUR_MS)
            except HistoryUnavailable as problem:
                return await self._instead(self._own.known_since(), problem)
            times = [at for _, values in found for at, _ in values]
            self._since = asked_ms, int(min(times) * 1000) if times else None
        return self._since[1]

    async def curves(self, kind: str, name: str, window: Window) -> HistoryData:
        """See `HistorySource.curves`."""
        found = await self._curves(kind, [name], KINDS[kind], window)
        times = tuple(range(window.begin_ms, window.end_ms, window.step_ms))
        curves = [found.get((name, word)) or Curve(word, (None,) * len(times)) for word in KINDS[kind]]
        return HistoryData(kind, name, times, tuple(curves), self._ranges(window.step_ms // 1000).rate_s)

    async def curve_of_each(self, kind: str, names: Collection[str], word: str, window: Window) -> Mapping[str, Curve]:
        """See `HistorySource.curve_of_each`."""
        found = await self._curves(kind, names, (word,), window) if names else {}
        return {name: each for (name, _), each in found.items()}

    async def moved(
        self, kind: str, word: str, window: Window, new: Collection[str] = ()
    ) -> Mapping[str, tuple[float, float]]:
        """See `HistorySource.moved`. Without Prometheus it is what the console's own samples tell."""
        now_ms = self._world.clock.now_ms()
        step_ms = max(1000, (min(window.end_ms, now_ms) - window.begin_ms) // (_ENDS - 1))
        ends_ms = Window(window.begin_ms, window.begin_ms + _ENDS * step_ms, step_ms)
        try:
            found = await self._curves(kind, None, (word,), ends_ms, at_begin=True)
        except HistoryUnavailable as problem:
            return await self._instead(self._own.moved(kind, word, window, new), problem)
        ends = {name: each.known for (name, _), each in found.items() if each.known}
        return differing({name: (values[0], values[-1]) for name, values in ends.items()}, new)

    async def _instead(self, own: Awaitable[Got], problem: HistoryUnavailable) -> Got:
        """Return what the console's own samples tell. Raises *problem* if there are none."""
        try:
            return await own
        except HistoryOff:
            raise problem from None

    async def marks(self, window: Window) -> Sequence[Mark]:
        """See `HistorySource.marks`."""
        try:
            return await self._own.marks(window)
        except HistoryOff:
            return []

    def _ranges(self, step_s: int) -> Ranges:
        return Ranges(max(step_s, self._scrape_s * 3 // 2 + 1), max(step_s, 4 * self._scrape_s))

    async def _curves(
        self,
        kind: str,
        names: Collection[str] | None,
        words: Sequence[str],
        window: Window,
        *,
        at_begin: bool = False,
    ) -> dict[tuple[str, str], Curve]:
        """Return the curves of which something is known, by subject and word.

        Points are made of the samples of their steps; with *at_begin* of those shortly before the begin of their steps.
        """
        await self._learn_scrapes()
        step_ms, count = window.step_ms, (window.end_ms - window.begin_ms) // window.step_ms
        ranges = self._ranges(0 if at_begin else step_ms // 1000)
        begin_ms = window.begin_ms + (0 if at_begin else step_ms)
        query = series(kind, names, words, await self._matchers(), ranges)
        found = await self._points(query, begin_ms, count, step_ms)
        points: dict[tuple[str, str], list[float | None]] = {}
        brokers: list[float | None] = [None] * count
        if names is not None:
            points = {(name, word): [None] * count for name in names for word in words}
        for labels, values in found:
            word = labels.get(WORD, "")
            place = brokers if word == BROKERS else points.setdefault((subject_of(kind, labels), word), [None] * count)
            for at, value in values:
                number = round((at * 1000 - begin_ms) / step_ms)
                if 0 <= number < count and math.isfinite(value):
                    place[number] = round(value, 3)
        gaps = _lacking(brokers, step_ms)
        now_ms, curves = self._world.clock.now_ms(), dict[tuple[str, str], Curve]()
        for key, each in points.items():
            if names is not None and kind != "broker" and key[1] in AVERAGED:
                _fill(each, brokers)
            shown = tuple(None if number in gaps else value for number, value in enumerate(each))
            known = [number for number, value in enumerate(shown) if value is not None]
            if known:
                curves[key] = Curve(key[1], shown, min(now_ms, begin_ms + known[-1] * step_ms))
        return curves

    async def _matchers(self) -> str:
        """Return the matchers of all queries. Raises HistoryUnavailable: the name of the cluster is not known."""
        try:
            names = frozenset(each.cluster for each in await self._cluster.brokers())
        except ClientError:
            names = frozenset()
        self._clusters = names or self._clusters
        if not self._clusters:
            raise HistoryUnavailable(
                "Prometheus cannot be asked: the name of the cluster, which is a label there, is not known, as no "
                "broker is registered."
            )
        return in_clusters(self._clusters, self._options.labels)

    async def _learn_scrapes(self) -> None:
        """Set the time between two scrapes to that of the last minutes."""
        now_ms = monotonic_ms(self._world.clock)
        if self._scrape_asked_ms is not None and now_ms - self._scrape_asked_ms < _KEPT_MS:
            return
        now = self._world.clock.now_ms() / 1000
        found = await self._ask("query", {"query": scrapes(await self._matchers()), "time": f"{now:.3f}"})
        times = [sorted(at for at, _ in values) for _, values in found]
        between = sorted(late - early for each in times for early, late in pairwise(each))
        if between:
            self._scrape_s = max(1, min(_LONGEST_SCRAPE_S, round(between[len(between) // 2])))
            self._scrape_asked_ms = now_ms

    async def _points(self, query: str, begin_ms: int, count: int, step_ms: int) -> Matrix:
        """Return the values at *count* times. That of a step that is not over is of a period of the same length."""
        now_ms = self._world.clock.now_ms()
        over = max(0, min(count, (now_ms - begin_ms) // step_ms + 1))
        asked = []
        if over:
            asked.append(self._range(query, begin_ms, begin_ms + (over - 1) * step_ms, step_ms))
        if over < count:
            asked.append(self._ask("query", {"query": query, "time": f"{now_ms / 1000:.3f}"}))
        found = await asyncio.gather(*asked)
        if over < count:
            at = (begin_ms + over * step_ms) / 1000
            found[-1] = [(labels, [(at, value) for _, value in values]) for labels, values in found[-1]]
        return [each for part in found for each in part]

    async def _range(self, query: str, begin_ms: int, end_ms: int, step_ms: int) -> Matrix:
        bounds = {"start": f"{begin_ms / 1000:.3f}", "end": f"{end_ms / 1000:.3f}", "step": f"{step_ms / 1000:.3f}"}
        return await self._ask("query_range", {"query": query, **bounds})

    async def _ask(self, what: str, fields: Mapping[str, str]) -> Matrix:
        """Return the result of a query. Raises HistoryUnavailable."""
        async with self._turns:
            now_ms = monotonic_ms(self._world.clock)
            if self._failed is not None and now_ms - self._failed[0] < _FAILED_MS:
                raise HistoryUnavailable(self._failed[1])
            try:
                response = await self._answer(what, fields)
            except RequestFailed as problem:
                sentence = f"Prometheus at {self._where} cannot be read: {problem}."
                self._failed = monotonic_ms(self._world.clock), sentence
                raise HistoryUnavailable(sentence) from problem
            except SecretUnreadable as problem:
                raise HistoryUnavailable(f"{problem}.") from problem
        try:
            return await self._world.workers.run(_parsed, response)
        except _NoMatrix as problem:
            raise HistoryUnavailable(f"Prometheus at {self._where} {problem}.") from problem

    async def _answer(self, what: str, fields: Mapping[str, str]) -> Response:
        """Send a query. Raises RequestFailed, SecretUnreadable."""
        options = self._options
        headers = [("Content-Type", "application/x-www-form-urlencoded"), ("Accept", "application/json")]
        headers += options.authorization(self._world)
        target = f"{options.to.path.rstrip('/')}/api/v1/{what}"
        body = urlencode({**fields, "timeout": f"{TIMEOUT_S:g}s"}).encode()
        return await post(self._world, options.to, target, headers, body, TIMEOUT_S, MOST_BYTES)


class _NoMatrix(Exception):
    """A response has no numbers; the text continues the sentence "Prometheus at ..."."""


def _parsed(response: Response) -> Matrix:
    """Return the numbers of a response. Raises _NoMatrix."""
    status = response.status
    if status in (401, 403):
        raise _NoMatrix(
            f"answers with status {status}: set $GANTRYMQ_CONSOLE_PROMETHEUS_USER and _PASSWORD, or _TOKEN, to what it "
            "or the proxy before it accepts"
        )
    if 300 <= status < 400:
        raise _NoMatrix(f"answers with status {status}{REDIRECTED}")
    try:
        answer: Any = json.loads(response.body)
        if answer["status"] != "success":
            reason = " ".join(str(answer.get("error", "")).split())[:_SENTENCE]
            shown = reason.encode(errors="replace").decode()  # JSON may have half of a surrogate pair
            raise _NoMatrix(f"refuses the query with status {status}: {shown}")
        result = answer["data"]["result"]
        parts = ((each["metric"], each["values"] if "values" in each else [each["value"]]) for each in result)
        found = [(labels, [(float(at), float(value)) for at, value in values]) for labels, values in parts]
        if not all(_are_labels(labels) and all(math.isfinite(at) for at, _ in values) for labels, values in found):
            raise ValueError("labels that are no texts, or a time that is no number")
        return found
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        kind = response.kind or "no type"
        raise _NoMatrix(
            f"does not answer as Prometheus does, but with status {status} and {kind}: give the address before /api/v1"
        ) from None


def _are_labels(labels: Any) -> bool:
    """Return whether these are labels. Raises ValueError: a text has no form in UTF-8."""
    if not isinstance(labels, dict) or not all(isinstance(each, str) for each in labels.values()):
        return False
    "".join(labels.values()).encode()
    return True


def _lacking(brokers: Sequence[float | None], step_ms: int) -> set[int]:
    """Return the points at which a master has no samples that had some shortly before: a sum would look like a fall."""
    back = max(1, _MISSED_MS // step_ms)
    found = set()
    for number, count in enumerate(brokers):
        before = max((each or 0.0 for each in brokers[max(0, number - back) : number]), default=0.0)
        if (count or 0.0) < before:
            found.add(number)
    return found


def _fill(rates: list[float | None], brokers: Sequence[float | None]) -> None:
    """Set rates without a series to 0, where brokers have samples: counters begin with the first message.

    The point before a known one stays unknown, because a counter that has just begun has no rate yet.
    """
    for number, count in enumerate(brokers):
        begins = number + 1 < len(rates) and bool(rates[number + 1])
        if rates[number] is None and count and not begins:
            rates[number] = 0.0
