"""``gantrymq pipeline audit``: find faults in messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gantrymq.errors import ConfigError, GantryError
from gantrymq.plugin.commands import FilledPath, output_option, print_json, print_table, say
from gantrymq_spark.commands.inputs import input_options_without, moment_ms
from gantrymq_spark.commands.spark import job_session, spark_options
from gantrymq_store_tools.commands.options import levels_option

if TYPE_CHECKING:
    from gantrymq_spark.jobs.audit_summary import Summary
    from gantrymq_spark.jobs.inputs import Input


_UNUSABLE = 2  # exit code; 1 means that faults were found


def _duration(ctx: click.Context, parameter: click.Parameter, text: str) -> int:
    from gantrymq_spark.live.starting_offsets import duration_ms

    try:
        return duration_ms("", text)
    except ConfigError as problem:
        raise click.BadParameter(str(problem).partition(": ")[2]) from None


@click.command()
@input_options_without("tags", "sql92")
@click.option(
    "--report",
    type=FilledPath(),
    metavar="DIR",
    help="Write report.html (with charts) and findings.parquet to this folder.",
)
@click.option(
    "--max-lag",
    type=click.IntRange(min=0),
    default=10_000,
    show_default=True,
    help="Maximum lag of a group in a queue, in messages.",
)
@click.option(
    "--late",
    default="2s",
    show_default=True,
    callback=_duration,
    help="Maximum delay of a delayed message after its due time.",
)
@click.option(
    "--open",
    "open_ms",
    default="10m",
    show_default=True,
    callback=_duration,
    help="Maximum age of a half message without commit or rollback.",
)
@click.option(
    "--as-of",
    metavar="TIME",
    help="Check pending messages as of that time, for example for a copy of a store. [default: now]",
)
@levels_option
@spark_options
@output_option
@click.pass_context
def audit(
    ctx: click.Context,
    given: Input,
    report: str | None,
    max_lag: int,
    late: int,
    open_ms: int,
    as_of: str | None,
    delay_levels: str | None,
    master: str | None,
    conf: dict[str, str],
    output: str,
) -> None:
    """Find missing, duplicate, late, out-of-order and damaged messages. Writes nothing but its report.

    Exit code 0: no fault. 1: faults were found. 2: an option is wrong, or the messages cannot be read.
    """
    from gantrymq.plugin.real_world import RealClock
    from gantrymq_spark.jobs.audit import Limits, audit, refuse
    from gantrymq_spark.jobs.audit_summary import summary_of, write_findings
    from gantrymq_spark.report.page import folder_for, write_page
    from gantrymq_spark.report.pages import audit_page

    now_ms = RealClock().now_ms()
    limits = Limits(now_ms if as_of is None else moment_ms("--as-of", as_of, now_ms), max_lag, late, open_ms)
    try:
        refuse(given)
        folder = None if report is None else folder_for(report)
        with job_session("audit", master, conf) as session:
            audited = audit(session, given, limits, delay_levels=delay_levels)
            found = summary_of(audited)
            if folder is not None:
                write_findings(audited.findings, folder / "findings.parquet")
            audited.close()
    except GantryError as problem:
        say(f"gantrymq: {problem}")
        ctx.exit(_UNUSABLE)
    if folder is not None:
        write_page(folder / "report.html", audit_page(given, limits, found))
    if output == "json":
        print_json({**found.to_json(), "report": None if folder is None else str(folder)})
    else:
        _show(found)
    if folder is not None:
        say(f"the report is {folder / 'report.html'}")
    ctx.exit(1 if found.faults else 0)


def _show(found: Summary) -> None:
    from gantrymq_spark.report.page import verdict_of

    if found.shown:
        rows = [
            (each["check"] if each["fault"] else f"({each['check']})", each["count"], each["text"])
            for each in found.shown
        ]
        print_table(("check", "count", "what"), rows)
    click.echo(verdict_of(found))
    if found.findings > len(found.shown):
        say(f"{len(found.shown):,} of {found.findings:,} findings are listed; --report DIR writes all of them")
    for sentence in found.unknown:
        say(f"not known: {sentence}")
