"""``gantrymq broker clean``: delete expired data at running brokers."""

from __future__ import annotations

from collections.abc import Sequence

import click

from gantrymq.client import Client
from gantrymq.client.admin import CLEANINGS
from gantrymq.commands.output import namesrv_option, output_option, print_json
from gantrymq.commands.run import run
from gantrymq_admin.commands.options import brokers_of, where_options


@click.command()
@click.argument("what", nargs=-1, required=True, type=click.Choice(list(CLEANINGS)), metavar="WHAT...")
@where_options
@namesrv_option
@output_option
def clean(what: Sequence[str], cluster: str | None, broker: str | None, namesrv: str, output: str) -> None:
    """Delete expired data: log, queues, topics, or several of them.

    \b
    log      log files older than fileReservedTime, at any hour; in the background
    queues   queues without messages in the log; they start at 0 again
    topics   queues of deleted topics
    """
    found = run(_clean(namesrv, what, cluster, broker))
    if output == "json":
        print_json({"cleaned": [{"broker": address, "what": each, "said": said} for address, each, said in found]})
        return
    for address, each, said in found:
        click.echo(f"{address}: {each}: {said or 'done'}")


async def _clean(
    namesrv: str, what: Sequence[str], cluster: str | None, broker: str | None
) -> list[tuple[str, str, str]]:
    async with Client(namesrv) as client, client.admin as admin:
        return [
            (address, each, await admin.clean(address, each))
            for address in await brokers_of(admin, cluster, broker)
            for each in what
        ]
