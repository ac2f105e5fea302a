"""``gantrymq pipeline replay``: messages of the past sent once more."""

from __future__ import annotations

import os
from datetime import UTC, datetime

import click

from gantrymq.commands.output import DEFAULT_NAMESRV, output_option, print_json, say
from gantrymq_spark.commands.inputs import input_options
from gantrymq_spark.commands.spark import job_session, spark_options
from gantrymq_spark.jobs.inputs import Input


@click.command()
@input_options
@click.option("--to-topic", required=True, metavar="NAME", help="Where the messages go.")
@click.option("--to-namesrv", metavar="ADDRESSES", help="Name servers of that topic; those of --namesrv if not given.")
@click.option(
    "--speed", default="max", show_default=True, help="1x keeps the distances of old, 10x makes them a tenth."
)
@click.option(
    "--batch-size", default="1", show_default=True, help="Messages of one request; those share one unique key."
)
@click.option("--dry-run", is_flag=True, help="Only say what would be sent.")
@spark_options
@output_option
def replay(
    given: Input,
    to_topic: str,
    to_namesrv: str | None,
    speed: str,
    batch_size: str,
    dry_run: bool,
    master: str | None,
    conf: dict[str, str],
    output: str,
) -> None:
    """Send messages of a topic, a store or an archive to a topic once more; those of one queue stay in their order."""
    from gantrymq_spark.jobs.pacing import read_speed
    from gantrymq_spark.jobs.replay import replay as work
    from gantrymq_spark.sink.options import read_sink_options

    given.check()
    times = read_speed(speed)
    texts = {"namesrv": to_namesrv or given.namesrv or DEFAULT_NAMESRV, "topic": to_topic, "batchSize": batch_size}
    target = read_sink_options(texts, os.environ)
    with job_session("replay", master, conf) as session:
        report = work(session, given, target, speed=times, dry_run=dry_run)
    if output == "json":
        print_json(report.to_json())
        return
    done = "would be sent" if dry_run else "sent"
    click.echo(f"{report.messages} messages of {report.queues} queues, {report.bytes} bytes, {done} to {to_topic}")
    if report.first_ms is not None and report.last_ms is not None:
        first, last = (datetime.fromtimestamp(ms / 1000, UTC).isoformat() for ms in (report.first_ms, report.last_ms))
        say(f"stored from {first} to {last}; at {speed} that takes {report.takes_s:.1f} s")
