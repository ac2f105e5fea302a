"""``gantrymq store``: work on the files of a store that no broker has open. The commands have modules of their own."""

from __future__ import annotations

import click

from gantrymq.cli.store_check import check, stat
from gantrymq.cli.store_read import dump, extract
from gantrymq.cli.store_rebuild import rebuild_index, rebuild_queues, repair


@click.group()
def store() -> None:
    """Check, repair and read the files of a store, ours or RocketMQ's, without a broker."""


for command in (check, repair, rebuild_queues, rebuild_index, extract, dump, stat):
    store.add_command(command)
