"""``gantrymq pipeline``: the jobs. Each has its own module, imported on first use."""

from __future__ import annotations

import click

from gantrymq.plugin.commands import CommandGroup, ImportedCommand

JOBS = {
    name: ImportedCommand(f"gantrymq_spark.commands.{name}:{name}", purpose)
    for name, purpose in (
        ("archive", "Write messages of topics or of a store to Parquet, incrementally."),
        ("audit", "Find missing, duplicate, late, out-of-order and damaged messages."),
        ("query", "Find messages by key, id, time, SQL92 or Spark SQL, live and archived."),
        ("rebuild", "Rebuild consume queues and index files from the commit log of a large store."),
        ("replay", "Send messages of a topic, a store or an archive to a topic again."),
        ("stats", "Rates, sizes and skew by topic, queue, tag and producer."),
    )
}


class _Jobs(CommandGroup):
    """Lists its commands by name and purpose; the help imports none of them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(JOBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return JOBS[cmd_name].load() if cmd_name in JOBS else None

    def purposes(self, ctx: click.Context) -> list[tuple[str, str]]:
        return [(name, job.purpose) for name, job in JOBS.items()]


@click.group(cls=_Jobs)
def pipeline() -> None:
    """Archive, query, check and replay messages with Spark, from live topics and from folders of stores."""
