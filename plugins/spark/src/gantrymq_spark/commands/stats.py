"""``gantrymq pipeline stats``: rates, sizes and skew."""

from __future__ import annotations

import attrs
import click

from gantrymq.plugin.commands import FilledPath, output_option, print_json, print_table, say
from gantrymq_spark.commands.inputs import check_input, input_options
from gantrymq_spark.commands.spark import job_session, spark_options
from gantrymq_spark.jobs.inputs import Input
from gantrymq_spark.jobs.stats import STEPS
from gantrymq_spark.report.page import decimals


@click.command()
@input_options
@click.option("--by", "step", type=click.Choice(STEPS), default="hour", show_default=True, help="Interval of rates.")
@click.option(
    "--top", type=click.IntRange(min=1, max=10_000), default=20, show_default=True, help="Maximum rows of each table."
)
@click.option("--property", "property_name", metavar="NAME", help="Group by the values of a property, such as PGROUP.")
@click.option("--system-topics", is_flag=True, help="Include the broker's own topics.")
@click.option("--report", type=FilledPath(), metavar="DIR", help="Write stats.html, with charts, to this folder.")
@spark_options
@output_option
def stats(
    given: Input,
    step: str,
    top: int,
    property_name: str | None,
    system_topics: bool,
    report: str | None,
    master: str | None,
    conf: dict[str, str],
    output: str,
) -> None:
    """Show rates, sizes and skew by topic, queue, tag and producer. Bodies are not read."""
    from gantrymq_spark.jobs.inputs import messages
    from gantrymq_spark.jobs.stats import STATS_COLUMNS, stats, stats_summary, without_system_topics
    from gantrymq_spark.report.page import folder_for, write_page
    from gantrymq_spark.report.pages import stats_page, tables_of

    check_input(given)
    folder = None if report is None else folder_for(report)
    columns = (*STATS_COLUMNS, "properties") if property_name is not None else STATS_COLUMNS
    with job_session("stats", master, conf) as session:
        from pyspark import StorageLevel

        if system_topics and given.store is not None:
            given = attrs.evolve(given, options={"systemTopics": "true", **given.options})
        frame = messages(session, given, columns)
        kept = (frame if system_topics else without_system_topics(frame)).persist(StorageLevel.DISK_ONLY)
        found = stats_summary(stats(kept, step, property_name), step, top)
        kept.unpersist()
    if folder is not None:
        write_page(folder / "stats.html", stats_page(given, found, property_name))
    if output == "json":
        print_json(found.to_json())
    else:
        for title, table in tables_of(found, property_name):
            if table.rows:
                click.echo(title)
                print_table(table.columns, [[_text(value) for value in row] for row in table.rows])
    if folder is not None:
        say(f"the report is {folder / 'stats.html'}")


def _text(value: object) -> object:
    if value is None:
        return ""
    return decimals(value) if isinstance(value, float) else value
