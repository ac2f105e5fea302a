"""``gantrymq store``: tools for the files of a store. Each command has its own module."""

from __future__ import annotations

import click

from gantrymq.plugin.commands import CommandGroup
from gantrymq_store_tools.commands.backup import backup, restore
from gantrymq_store_tools.commands.check import check
from gantrymq_store_tools.commands.read import dump, extract, stat
from gantrymq_store_tools.commands.repair import rebuild_index, rebuild_queues, repair


@click.group(cls=CommandGroup)
def store() -> None:
    """Check, repair, read and back up the files of a GantryMQ or RocketMQ store without a broker."""


for command in (check, repair, rebuild_queues, rebuild_index, extract, dump, stat, backup, restore):
    store.add_command(command)
