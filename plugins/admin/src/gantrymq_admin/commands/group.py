"""``gantrymq group``: consumer groups. Each command has its own module."""

from __future__ import annotations

import click

from gantrymq.plugin.commands import CommandGroup
from gantrymq_admin.commands.group_admin import clients, create, delete, delete_topic_offsets, list_groups, progress
from gantrymq_admin.commands.group_dlq import dlq
from gantrymq_admin.commands.group_explain import explain
from gantrymq_admin.commands.group_reset import clone, reset


@click.group(cls=CommandGroup)
def group() -> None:
    """List, create, delete, show and explain consumer groups; show dead letters; reset and delete offsets."""


for command in (list_groups, create, delete, clients, progress, explain, dlq, reset, clone, delete_topic_offsets):
    group.add_command(command)
