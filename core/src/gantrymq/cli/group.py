"""``gantrymq group``: consumer groups. Each command has a module of its own."""

from __future__ import annotations

import click

from gantrymq.cli.group_plan import plan


@click.group()
def group() -> None:
    """Plan how a consumer group shares out its queues."""


group.add_command(plan)
