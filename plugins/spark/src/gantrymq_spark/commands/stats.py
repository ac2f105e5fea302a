"""``gantrymq pipeline stats``: rates, sizes and skew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import click

from gantrymq.commands.output import output_option, print_json, print_table, say
from gantrymq_spark.commands.inputs import input_options
from gantrymq_spark.commands.report_folder import made_folder, report_option, said
from gantrymq_spark.commands.spark import job_session, spark_options
from gantrymq_spark.jobs.inputs import Input

SHOWN = ("topics", "tags", "producers")


@click.command()
@input_options
@report_option
@click.option("--by", type=click.Choice(["minute", "hour", "day"]), default="hour", show_default=True, help="Of rates.")
@spark_options
@output_option
def stats(given: Input, report: Path | None, by: str, master: str | None, conf: dict[str, str], output: str) -> None:
    """Rates, sizes and skew by topic, queue, tag and producer, of live topics, a store or an archive."""
    from gantrymq_spark.jobs.inputs import messages
    from gantrymq_spark.jobs.stats import STATS_COLUMNS
    from gantrymq_spark.jobs.stats import stats as work
    from gantrymq_spark.reports.of_stats import stats_page

    folder = made_folder(report) if report is not None else None
    step_s = {"minute": 60, "hour": 3600, "day": 86_400}[by]
    with job_session("stats", master, conf) as session:
        found = work(messages(session, given, STATS_COLUMNS), step_s=step_s)
        tables = {
            name: (frame.columns, [tuple(row) for row in frame.collect()])
            for name, frame in attrs.asdict(found, recurse=False).items()
            if folder is not None or output == "json" or name in SHOWN
        }
    if folder is not None:
        (folder / "report.html").write_text(stats_page(said(given), tables), encoding="utf-8")
    if output == "json":
        print_json(
            {
                name: [dict(zip(names, map(_plain, row), strict=True)) for row in rows]
                for name, (names, rows) in tables.items()
            }
        )
        return
    for name in SHOWN:
        names, rows = tables[name]
        print_table(names, [[_cell(value) for value in row] for row in rows])
    if folder is not None:
        say(f"the report is {folder / 'report.html'}")


def _plain(value: Any) -> Any:
    return value.isoformat() if hasattr(value, "isoformat") else value


def _cell(value: Any) -> object:
    return f"{value:,.2f}" if isinstance(value, float) else "" if value is None else value
