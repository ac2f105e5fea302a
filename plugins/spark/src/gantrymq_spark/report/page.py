"""The HTML page of a report: input, results, charts and tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs

from gantrymq.errors import ConfigError
from gantrymq.plugin.real_world import RealFiles
from gantrymq_spark.report.texts import decimals
from gantrymq_store_tools.target_files import refuse_store_folder


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
