"""``gantrymq pipeline audit``: what is missing, double, late, out of order or damaged."""

from __future__ import annotations

from pathlib import Path

import click

from gantrymq.commands.output import output_option, print_json, print_table, say
from gantrymq_spark.commands.inputs import input_options
from gantrymq_spark.commands.report_folder import made_folder, report_option, said
from gantrymq_spark.commands.spark import job_session, spark_options
from gantrymq_spark.jobs.inputs import Input

SHOWN = 50


@click.command()
@input_options
@report_option
@click.option("--most-lag", type=click.IntRange(min=0), default=10_000, show_default=True, help="Messages in a queue.")
@click.option("--late-ms", type=click.IntRange(min=0), default=2_000, show_default=True, help="Of delayed messages.")
@click.option("--open-ms", type=click.IntRange(min=0), default=600_000, show_default=True, help="Of half messages.")
@spark_options
@output_option
@click.pass_context
def audit(
    ctx: click.Context,
    given: Input,
    report: Path | None,
    most_lag: int,
    late_ms: int,
    open_ms: int,
    master: str | None,
    conf: dict[str, str],
    output: str,
) -> None:
    """Audit a store (--store), an archive (--archive) or live topics (--topic).

    Exit code 0: nothing is wrong; 1: faults were found, or the input could not be read; 2: wrong usage. The report is
    report.html and findings.parquet.
    """
    from gantrymq_spark.jobs.audit import Limits
    from gantrymq_spark.jobs.audit import audit as work
    from gantrymq_spark.reports.of_audit import MOST_ROWS, audit_page

    folder = made_folder(report) if report is not None else None
    with job_session("audit", master, conf) as session:
        found = work(session, given, Limits(most_lag, late_ms, open_ms))
        findings = found.findings.cache()
        groups = findings.groupBy("check", "fault").count().collect()
        counts = [(row[0], row[1], row[2]) for row in groups]
        rows = findings.orderBy("check", "broker_name", "topic", "queue_id", "queue_offset").limit(MOST_ROWS).collect()
        if folder is not None:
            findings.coalesce(1).write.mode("overwrite").parquet(str(folder / "findings.parquet"))
            figures = [tuple(row) for row in found.figures.collect()]
            text = audit_page(said(given), found.read_ms, found.unknown, rows, counts, figures)
            (folder / "report.html").write_text(text, encoding="utf-8")
    faults = sum(count for _, fault, count in counts if fault)
    if output == "json":
        print_json(
            {
                "faults": faults,
                "checks": {check: count for check, _, count in sorted(counts)},
                "unknown": list(found.unknown),
                "findings": [row.asDict() for row in rows],
            }
        )
    else:
        if rows:
            print_table(("check", "text"), [(row.check, row.text) for row in rows[:SHOWN]])
        total = sum(count for *_, count in counts)
        if total > SHOWN:
            say(f"and {total - SHOWN} more; --report writes all of them")
        for sentence in found.unknown:
            say(sentence)
        say(f"{faults} faults" if faults else "nothing is wrong")
        if folder is not None:
            say(f"the report is {folder / 'report.html'}")
    ctx.exit(1 if faults else 0)
