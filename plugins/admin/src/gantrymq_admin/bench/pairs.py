"""Rounds with alternating servers, and their comparison: the same cell of the same round."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any

__all__ = ["ratios", "summary", "turns"]

RATE = "messages_per_s"


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
    rates = {(*(cell[name] for name in names), cell["round"], cell["namesrv"]): cell[RATE] for cell in cells}
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
