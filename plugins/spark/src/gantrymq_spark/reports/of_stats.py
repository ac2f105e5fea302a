"""The report of statistics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from gantrymq_spark.reports.page import Section, page
from gantrymq_spark.reports.plots import bars, lines

__all__ = ["MOST_ROWS", "stats_page"]

MOST_ROWS = 200


def stats_page(what: str, tables: Mapping[str, tuple[Sequence[str], Sequence[Any]]]) -> str:
    """The HTML. *tables*: columns and rows of topics, queues, tags, producers, rates; by these names."""
    columns, topics = tables["topics"]
    at = {name: place for place, name in enumerate(columns)}
    rates: dict[str, list[tuple[datetime, float]]] = {}
    for row in tables["rates"][1]:
        if row[1] is not None:
            rates.setdefault(row[0], []).append((row[1], row[4]))
    sentences = [f"{what}: {sum(row[at['messages']] for row in topics)} messages of {len(topics)} topics."]
    plots = {
        "topics": [bars({row[0]: row[at["messages"]] for row in topics}, "messages", "messages")] if topics else [],
        "rates": [lines(rates, "messages a second by store time (UTC)", "messages / s")] if rates else [],
        "tags": _shares(tables["tags"][1], "messages by tag", 1),
        "producers": _shares(tables["producers"][1], "messages by producer", 1),
    }
    titles = {"topics": "Topics", "rates": "Rates", "queues": "Queues", "tags": "Tags", "producers": "Producers"}
    sections = [
        Section(
            title,
            plots=plots.get(name, []),
            columns=tables[name][0],
            rows=[[_cell(value) for value in row] for row in tables[name][1][:MOST_ROWS]],
            left_out=max(0, len(tables[name][1]) - MOST_ROWS),
        )
        for name, title in titles.items()
    ]
    return page("Statistics", sentences, sections)


def _shares(rows: Sequence[Any], title: str, name_at: int) -> list[str]:
    found: dict[str, float] = {}
    for row in rows:
        name = row[name_at] if row[name_at] is not None else "(none)"
        found[name] = found.get(name, 0) + row[name_at + 1]
    return [bars(found, title, "messages")] if found else []


def _cell(value: Any) -> object:
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1 else f"{value:,.1f}"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    return "" if value is None else value
