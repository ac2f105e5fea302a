"""``gantrymq broker clean``: delete expired data at running brokers."""

from __future__ import annotations

from collections.abc import Sequence

import click

from gantrymq.client import Admin
from gantrymq.client.admin import CLEANINGS
from gantrymq.plugin.commands import print_json
from gantrymq_admin.commands.options import admin_command, brokers_of, where_options


@click.command()
@click.argument("what", nargs=-1, required=True, type=click.Choice(list(CLEANINGS)), metavar="WHAT...")
@where_options
@admin_command
async def clean(admin: Admin, what: Sequence[str], cluster: str | None, broker: str | None, output: str) -> None:
    """Delete expired data: log, queues, topics, or several of them.

    \b
    log      log files older than fileReservedTime, at any hour; in the background
    queues   queues without messages in the log; they start at 0 again
    topics   queues of deleted topics
    """
    found = [
        (address, each, await admin.clean(address, each))
        for address in await brokers_of(admin, cluster, broker)
        for each in what
    ]
    if output == "json":
        print_json({"cleaned": [{"broker": address, "what": each, "said": said} for address, each, said in found]})
        return
    for address, each, said in found:
        click.echo(f"{address}: {each}: {said or 'done'}")
