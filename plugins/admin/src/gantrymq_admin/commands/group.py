"""``gantrymq group``: consumer groups. Each command has a module of its own."""

from __future__ import annotations

import click

from gantrymq_admin.commands.group_admin import clients, create, delete, list_groups, progress
from gantrymq_admin.commands.group_dlq import dlq
from gantrymq_admin.commands.group_plan import plan


@click.group()
def group() -> None:
    """List, create, delete and look at consumer groups; plan how one shares out its queues; see its dead letters."""


for command in (list_groups, create, delete, clients, progress, plan, dlq):
    group.add_command(command)
