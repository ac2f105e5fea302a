"""``gantrymq broker`` and ``gantrymq nameserver``: run a server; with a subcommand, which plugins add, administer one.

The options of a server's start belong to the group itself, so that ``gantrymq broker -c broker.conf`` is all it takes.
"""

from __future__ import annotations

from typing import Any

import click

from gantrymq.cli import servers
from gantrymq.cli.open_group import OpenGroup

__all__ = ["broker", "nameserver"]


def _group(name: str, start: click.Command) -> OpenGroup:
    @click.pass_context
    def run(ctx: click.Context, /, **options: Any) -> None:
        if ctx.invoked_subcommand is None:
            assert start.callback is not None
            start.callback(**options)

    return OpenGroup(
        name,
        own={},
        words=f"{name} ",
        params=list(start.params),
        callback=run,
        invoke_without_command=True,
        help=start.help,
    )


broker = _group("broker", servers.broker)
nameserver = _group("nameserver", servers.nameserver)
