"""``gantrymq pipeline archive``: messages into Parquet, what is new of them."""

from __future__ import annotations

import click

from gantrymq.commands.output import output_option, print_json, say
from gantrymq_spark.commands.inputs import input_options
from gantrymq_spark.commands.spark import job_session, spark_options
from gantrymq_spark.jobs.inputs import Input

SHOWN = 10  # queues with losses


@click.command()
@click.argument("folder")
@input_options
@spark_options
@output_option
def archive(folder: str, given: Input, master: str | None, conf: dict[str, str], output: str) -> None:
    """Write what is new of live topics (--topic, --topic-pattern) or of a store (--store) into the archive FOLDER.

    The archive is Parquet, in a folder for each topic and day. A run that is stopped leaves it as it was; the next one
    goes on. What is archived, a broker's retention may delete.
    """
    from gantrymq_spark.jobs.archive import archive as work

    with job_session("archive", master, conf) as session:
        report = work(session, given, folder)
    if output == "json":
        print_json(report.to_json())
        return
    click.echo(f"{folder}: {report.messages} messages added, {report.files} files with {report.bytes} bytes")
    for broker, topic, queue, first, end in report.lost[:SHOWN]:
        say(f"lost: queue {queue} of {topic} at {broker}: offsets {first} to {end - 1} were deleted before this run")
    if len(report.lost) > SHOWN:
        say(f"and {len(report.lost) - SHOWN} queues more; --output json names them")
    if report.missing:
        say(f"{report.missing} messages were not there to be read; `gantrymq pipeline audit` says more")
    say(f"{len(report.archived)} queues are archived up to where they ended; their brokers may delete that")
