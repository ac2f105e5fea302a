"""The history of a cluster, broker, topic or group: charts, a table, and a file for other programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import zip_longest
from typing import Any, Final

import attrs
from starlette.responses import Response

from gantrymq_console.access.users import Role
from gantrymq_console.data.bodies import csv_line
from gantrymq_console.history.reading import KINDS, RANGES
from gantrymq_console.history.subject import SubjectHistory, sparks, subject_history
from gantrymq_console.web.context import RequestContext
from gantrymq_console.web.pages import BadInput, Download, Page, Section, View

_VIEWS: Final = ("charts", "table")
_ON: Final = ("off", "on")
_SPARKS_AGE_S: Final = 30.0  # half of the step of small charts


@attrs.frozen
class Column:
    """One column of the table."""

    word: str
    is_before: bool  # whether it is of the period to compare with
    values: tuple[float | None, ...]


@attrs.frozen
class HistoryRow:
    """One line of the table."""

    at_ms: int
    values: tuple[float | None, ...]  # of the columns


@attrs.frozen
class HistoryPage(SubjectHistory):
    """The history of a subject, with a page of its table."""

    view: str = attrs.field(default="charts", kw_only=True)
    columns: Sequence[Column] = attrs.field(default=(), kw_only=True, metadata={"json": False})
    start: int = attrs.field(default=0, kw_only=True, metadata={"json": False})
    rows: Sequence[HistoryRow] = attrs.field(default=(), kw_only=True, metadata={"json": False})  # the newest first


async def with_history(context: RequestContext, view: View, kind: str, name: str = "") -> View:
    """Return *view* with the history of its subject in the range that the address asks for.

    Refreshes and JSON do without: charts get their numbers from the page of the history.
    """
    if context.is_live or context.is_api:
        return view
    return attrs.evolve(view, history=await _asked(context, kind, name))


async def with_sparks(context: RequestContext, view: View, kind: str, names: Sequence[str], word: str) -> View:
    """Return *view* with the last hour of each row of its list."""
    if context.is_api:
        return view
    cluster, past = context.cluster, context.console.past
    key = ("sparks", kind, word, tuple(names))
    found = await cluster.shared(
        key, _SPARKS_AGE_S, lambda: sparks(past, cluster.world.clock, kind, names, word), late_s=_SPARKS_AGE_S
    )
    window, curves = found.value
    return attrs.evolve(view, sparks=curves, sparks_window=window)


async def history_page(context: RequestContext) -> View:
    """Show the history of the subject that the parameters name."""
    kind, name = _subject(context)
    view, after_ms = context.choice("view", _VIEWS), context.number("after", 0) if context.is_api else 0
    if after_ms:  # of the script of an open page, which asks after each refresh
        pace, monotonic = context.console.refreshes.pace, context.console.world.clock.monotonic
        with pace.working(monotonic):
            found = await _asked(context, kind, name, after_ms)
        pace.note(monotonic(), pace.period_s)
    else:
        found = await _asked(context, kind, name, after_ms)
    start = min(context.start, max(0, len(found.times) - 1))
    columns, rows = _columns(found), list[HistoryRow]()
    if view == "table" and not context.is_api:
        rows = list(_lines(found, columns))[::-1][start : start + context.rows]
    given = {field.name: getattr(found, field.name) for field in attrs.fields(SubjectHistory)}
    data = HistoryPage(**given, view=view, columns=columns, start=start, rows=rows)
    return View("history.html", data, title=name, history=found)


async def download(context: RequestContext) -> Response:
    """Return the history of a subject as CSV: a line for each time, with empty cells for what is unknown."""
    kind, name = _subject(context)
    found = await _asked(context, kind, name)
    if found.problem:
        raise BadInput("history.unreadable", problem=found.problem)
    columns = _columns(found)
    lines = [csv_line(["time", "time_ms", *(each.word + "_before" * each.is_before for each in columns)])]
    lines += [csv_line([_iso(row.at_ms), row.at_ms, *map(_cell, row.values)]) for row in _lines(found, columns)]
    named = "".join(each for each in name if each.isascii() and (each.isalnum() or each in "-_"))[:64]
    file = "-".join(each for each in (kind, named, found.range) if each)
    headers = {"Content-Disposition": f'attachment; filename="{file}.csv"'}
    return Response(b"".join(lines), media_type="application/octet-stream", headers=headers)


def _subject(context: RequestContext) -> tuple[str, str]:
    """Return kind and name of the parameters. Raises BadInput: no such kind, or a name where there is none."""
    return context.choice("kind", tuple(KINDS)), context.text("name")[:255]


async def _asked(context: RequestContext, kind: str, name: str, after_ms: int = 0) -> SubjectHistory:
    """Return the history in the range of the address. Raises BadInput: no such range."""
    range_, compare = context.choice("range", tuple(RANGES)), context.choice("compare", _ON) == "on"
    clock = context.console.world.clock
    return await subject_history(
        context.console.past, clock, kind, name, range_, compare=compare, after_ms=after_ms
    )  # fmt: skip


def _columns(found: SubjectHistory) -> list[Column]:
    """Return a column for each curve, followed by that to compare with, if any."""
    pairs = zip_longest(found.curves, found.earlier)
    both = ((each, number == 1) for pair in pairs for number, each in enumerate(pair) if each is not None)
    return [Column(each.word, is_before, each.values) for each, is_before in both]


def _lines(found: SubjectHistory, columns: Sequence[Column]) -> Iterator[HistoryRow]:
    for at_ms, *values in zip(found.times, *(each.values for each in columns), strict=True):
        yield HistoryRow(at_ms, tuple(values))


def _iso(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _cell(value: float | None) -> Any:
    return None if value is None else f"{value:.10g}"


SECTION = Section(
    pages=(Page("/history", "history.title", Role.VIEWER, history_page, 10.0),),
    downloads=(Download("/history/export", "history.download", Role.VIEWER, download),),
)
