"""``gantrymq broker`` and ``gantrymq nameserver``: run a server, or administer one with subcommands of plugins.

The options for starting a server belong to the group itself, so that ``gantrymq broker -c broker.conf`` works.
"""

from __future__ import annotations

from typing import Any

import click

from gantrymq.cli import servers
from gantrymq.cli.extensible_group import ExtensibleGroup


def _group(name: str, start: click.Command) -> ExtensibleGroup:
    @click.pass_context
    def run(ctx: click.Context, /, **options: Any) -> None:
        if ctx.invoked_subcommand is None:
            assert start.callback is not None
            start.callback(**options)

    return ExtensibleGroup(
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
