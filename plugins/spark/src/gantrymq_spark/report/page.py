"""The HTML page of a report: input, results, charts and tables; text helpers that commands and findings use too."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from gantrymq.errors import ConfigError
from gantrymq.plugin.real_world import RealFiles
from gantrymq_store_tools.findings import counted
from gantrymq_store_tools.target_files import refuse_store_folder

if TYPE_CHECKING:
    from gantrymq_spark.jobs.audit_summary import Summary
    from gantrymq_spark.jobs.inputs import Input


def decimals(value: float) -> str:
    """Format a number with two decimals, or with two significant digits if these would be zeros, as for a low rate."""
    if value == 0 or abs(value) >= 0.01 or not math.isfinite(value):
        return f"{value:,.2f}"
    places = 1 - math.floor(math.log10(abs(value)))
    return f"{value:.{places}f}".rstrip("0")


def with_article(step: str) -> str:
    """Return *step*, such as hour or day, with its article."""
    return f"{'an' if step == 'hour' else 'a'} {step}"


def moment(time_us: int) -> str:
    """Format a time in UTC, to the second."""
    return datetime.fromtimestamp(time_us // 1_000_000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def span(first_us: int, last_us: int) -> str:
    """Format the time from *first_us* to *last_us* in UTC, to the second."""
    first, last = moment(first_us), moment(last_us)
    return f"at {first}" if first == last else f"{first} to {last}"


def source_of(given: Input) -> str:
    """Describe the messages that *given* selects."""
    if given.store is not None:
        place = f"the store {given.store}"
    elif given.archive is not None:
        place = f"the archive {given.archive}"
    else:
        place = f"live topics of {given.namesrv or '$NAMESRV_ADDR'}"
    parts = [place]
    if given.topics:
        parts.append(f"topics {', '.join(given.topics)}")
    if given.pattern is not None:
        parts.append(f"topics that match {given.pattern}")
    if given.tags is not None:
        parts.append(f"tags {given.tags}")
    if given.sql92 is not None:
        parts.append(f"where {given.sql92}")
    if given.since_ms is not None:
        parts.append(f"stored from {moment(given.since_ms * 1000)} on")
    if given.until_ms is not None:
        parts.append(f"stored before {moment(given.until_ms * 1000)}")
    return "; ".join(parts)


def verdict_of(found: Summary) -> str:
    """Return the result in one sentence."""
    looked = f"{counted(found.messages, 'message')} in {counted(found.queues, 'queue')}"
    if not found.faults:
        return f"nothing is wrong with {looked}" + (
            f"; {counted(len(found.unknown), 'thing')} cannot be known from this input" if found.unknown else ""
        )
    checks = sorted({check for check, fault, _, _ in found.counts if fault})
    return f"{counted(found.faults, 'fault')} in {looked}: {', '.join(checks)}"


@attrs.frozen
class Table:
    """Rows of texts and numbers."""

    columns: tuple[str, ...]
    rows: Sequence[Sequence[Any]]
    all_rows: int | None = None  # total number of rows; shown if *rows* are only a part
    rest: str = ""  # where to find the other rows


@attrs.frozen
class Section:
    """A heading, and optionally sentences, a chart and a table."""

    title: str
    sentences: Sequence[str] = ()
    chart: str = ""  # an SVG of `charts`
    table: Table | None = None


@attrs.frozen
class Page:
    """A whole page."""

    title: str
    verdict: str
    good: bool
    facts: Sequence[tuple[str, str]]
    sections: Sequence[Section]


def folder_for(text: str) -> Path:
    """Return the folder for a report; create it if necessary.

    Raises:
        ConfigError: it cannot be created or written.
        StoreError: it is inside a store.
    """
    folder = Path(text)
    refuse_store_folder(RealFiles(), folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / ".gantrymq-report"
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as problem:
        reason = problem.strerror or problem
        raise ConfigError(f"--report: {folder} cannot be written: {reason}; choose another folder") from None
    return folder


def write_page(path: Path, page: Page) -> None:
    """Render *page* to the file *path*."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    templates = Environment(
        loader=PackageLoader("gantrymq_spark.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters["chart"] = Markup  # from `charts`, which escapes its input
    templates.filters["shown"] = _shown
    path.write_text(templates.get_template("page.html").render(page=page), encoding="utf-8")


def _shown(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return decimals(value) if isinstance(value, float) else str(value)
