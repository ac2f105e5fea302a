"""A load of concurrent calls, and its measurement. Time is read from the world's clock: no I/O here.

The rate counts calls completed during the measurement; latencies are of whole calls, from the call to its return.
CPU time is measured for this process with all threads, so it is the client's cost, not the broker's.
"""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Awaitable, Callable, Hashable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any

import attrs

from gantrymq.plugin.world import Clock

_RATE = "messages_per_s"


@attrs.frozen
class Limit:
    """Duration of a load: a number of messages, or a number of seconds after a warm-up."""

    messages: int | None = None
    seconds: float = 10.0
    warmup_s: float = 0.0


@attrs.frozen
class Figures:
    """Result of a measurement."""

    messages: int
    seconds: float
    cpu_s: float  # of the client
    times_s: Sequence[float]  # latencies of calls, sorted

    @property
    def rate(self) -> float:
        """Messages per second."""
        return self.messages / self.seconds if self.seconds > 0 else 0.0

    def document(self, body_bytes: int) -> dict[str, Any]:
        """Return the figures as JSON members; bodies have *body_bytes* bytes."""
        return {
            "messages": self.messages,
            "seconds": round(self.seconds, 6),
            "messages_per_s": round(self.rate, 1),
            "mib_per_s": round(self.rate * body_bytes / 2**20, 3),
            "client_cpu_us_per_message": round(self.cpu_s / self.messages * 1e6, 2) if self.messages else None,
            "calls": len(self.times_s),
            "p50_ms": _ms(percentile(self.times_s, 0.5)),
            "p99_ms": _ms(percentile(self.times_s, 0.99)),
            "max_ms": _ms(percentile(self.times_s, 1.0)),
        }


def percentile(ordered: Sequence[float], share: float) -> float | None:
    """Return the *share* quantile (nearest rank); None without values."""
    if not ordered:
        return None
    return ordered[max(0, min(len(ordered), -int(-share * len(ordered) // 1)) - 1)]


async def load(
    call: Callable[[], Awaitable[object]],
    limit: Limit,
    *,
    in_flight: int,
    clock: Clock,
    cpu_s: Callable[[], float],
    each: int = 1,
) -> Figures:
    """Make calls, *in_flight* at any time.

    Args:
        call: one call, which counts as *each* messages.
        cpu_s: return the CPU time so far, in seconds.

    Raises:
        the first exception raised by a call; calls in flight are cancelled.
    """
    times = array("d")
    left = None if limit.messages is None else -(-limit.messages // each)
    warm = 0.0 if left is not None else limit.warmup_s
    began = clock.monotonic() + warm
    end = None if left is not None else began + limit.seconds
    cpu_began = cpu_s()

    async def warmed() -> None:
        nonlocal cpu_began
        await clock.sleep(warm)
        cpu_began = cpu_s()

    async def work() -> None:
        nonlocal left
        while True:
            start = clock.monotonic()
            if left is not None:
                if not left:
                    return
                left -= 1
            elif end is not None and start >= end:
                return
            await call()
            now = clock.monotonic()
            if now >= began and (end is None or now <= end):
                times.append(now - start)

    workers = [asyncio.ensure_future(work()) for _ in range(in_flight)]
    if warm:
        workers.append(asyncio.ensure_future(warmed()))
    try:
        await asyncio.gather(*workers)
    finally:
        for each_worker in workers:
            each_worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
    took = clock.monotonic() - began if end is None else limit.seconds
    return Figures(len(times) * each, took, cpu_s() - cpu_began, sorted(times))


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 3)


def turns(servers: Sequence[str], rounds: int) -> Iterator[tuple[int, Sequence[str]]]:
    """Yield the number of each round, from 1, and the servers in an order that changes from round to round."""
    for number in range(rounds):
        shift = number % len(servers)
        yield number + 1, [*servers[shift:], *servers[:shift]]


def summary(cells: Sequence[Mapping[str, Any]], names: Sequence[str]) -> list[dict[str, Any]]:
    """Return one row per cell and server: the medians over the rounds of every figure.

    Args:
        cells: measurements, each with ``namesrv``, ``round`` and the members *names*, which define a cell.
    """
    groups: dict[Hashable, list[Mapping[str, Any]]] = {}
    for cell in cells:
        groups.setdefault((*(cell[name] for name in names), cell["namesrv"]), []).append(cell)
    rows = []
    for found in groups.values():
        row: dict[str, Any] = {"namesrv": found[0]["namesrv"], **{name: found[0][name] for name in names}}
        for figure in found[0]:
            if figure not in row and figure != "round":
                values = [each[figure] for each in found if isinstance(each[figure], int | float)]
                row[figure] = median(values) if values else None
        rows.append(row)
    return rows


def ratios(cells: Sequence[Mapping[str, Any]], names: Sequence[str], first: str, second: str) -> list[dict[str, Any]]:
    """Return for each cell the minimum, median and maximum over the rounds of the rate at *first* divided by that at
    *second*."""
    rates = {(*(cell[name] for name in names), cell["round"], cell["namesrv"]): cell[_RATE] for cell in cells}
    found: dict[tuple[Hashable, ...], list[float]] = {}
    for (*cell, number, server), rate in rates.items():
        other = rates.get((*cell, number, second))
        if server == first and other:
            found.setdefault(tuple(cell), []).append(rate / other)
    return [
        {
            **dict(zip(names, cell, strict=True)),
            "least": round(min(values), 3),
            "median": round(median(values), 3),
            "greatest": round(max(values), 3),
        }
        for cell, values in found.items()
    ]
