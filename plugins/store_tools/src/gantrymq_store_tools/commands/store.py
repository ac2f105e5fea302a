"""``gantrymq store``: tools for the files of a store. Each command has its own module."""

from __future__ import annotations

import click

from gantrymq.plugin.commands import CommandGroup
from gantrymq_store_tools.commands.backup import backup, restore
from gantrymq_store_tools.commands.check import check
from gantrymq_store_tools.commands.dump import dump
from gantrymq_store_tools.commands.extract import extract
from gantrymq_store_tools.commands.rebuild import rebuild_index, rebuild_queues
from gantrymq_store_tools.commands.repair import repair
from gantrymq_store_tools.commands.stat import stat


@click.group(cls=CommandGroup)
def store() -> None:
    """Check, repair, read and back up the files of a GantryMQ or RocketMQ store without a broker."""


for command in (check, repair, rebuild_queues, rebuild_index, extract, dump, stat, backup, restore):
    store.add_command(command)
