"""``gantrymq pipeline archive``: write new messages to Parquet."""

from __future__ import annotations

import click

from gantrymq.plugin.commands import FilledPath, output_option, print_json, say
from gantrymq_spark.commands.inputs import check_input, input_options_without, usage_errors
from gantrymq_spark.commands.spark import job_session, spark_options
from gantrymq_spark.jobs.inputs import Input
from gantrymq_store_tools.findings import counted

_SHOWN = 10  # maximum number of queues with losses in the output


@click.command()
@click.argument("folder", type=FilledPath())
@input_options_without("archive", "since_ms", "until_ms", "tags", "sql92")
@spark_options
@output_option
def archive(folder: str, given: Input, master: str | None, conf: dict[str, str], output: str) -> None:
    """Write new messages of live topics (--topic, --topic-pattern) or of a store (--store) to the archive FOLDER.

    The archive is Parquet, with a folder for each topic and day. A run that is stopped leaves it unchanged, and the
    next one continues. The broker's retention may delete archived messages.
    """
    from gantrymq_spark.jobs.archive import archive as work
    from gantrymq_spark.jobs.archive import refuse, refuse_folder

    check_input(given)
    with usage_errors():
        refuse(given)
    refuse_folder(given, folder)
    with job_session("archive", master, conf) as session:
        report = work(session, given, folder)
    if output == "json":
        print_json(report.to_json())
        return
    click.echo(
        f"{folder}: {counted(report.messages, 'message')} added, {counted(report.files, 'file')} with "
        f"{counted(report.bytes, 'byte')}"
    )
    for broker, topic, queue, first, end in report.lost[:_SHOWN]:
        say(f"lost: queue {queue} of {topic} at {broker}: offsets {first} to {end - 1} were deleted before this run")
    if len(report.lost) > _SHOWN:
        say(f"and {counted(len(report.lost) - _SHOWN, 'queue')} more; --output json names them")
    if report.missing:
        were = "was" if report.missing == 1 else "were"
        say(
            f"{counted(report.missing, 'message')} {were} missing in their queues; `gantrymq pipeline audit` tells more"
        )
    are = "is archived up to where it" if len(report.archived) == 1 else "are archived up to where they"
    say(f"{counted(len(report.archived), 'queue')} {are} ended; their brokers may delete these messages")
