"""``gantrymq broker``: runs a broker; with a subcommand it looks after one that runs.

The options of a broker's start stand on the group itself, so that ``gantrymq broker -c broker.conf`` is all it takes.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from gantrymq.cli.servers import broker as run_broker

_COMMANDS = {"clean": "gantrymq.cli.broker_clean:clean", "config": "gantrymq.cli.broker_config:config"}


class BrokerGroup(click.Group):
    """Imports a subcommand when it is used: the start of a broker does not wait for the client."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of the subcommands."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """One subcommand, imported."""
        if cmd_name not in _COMMANDS:
            return None
        module, _, attribute = _COMMANDS[cmd_name].partition(":")
        found = getattr(import_module(module), attribute)
        assert isinstance(found, click.Command)
        return found


@click.pass_context
def _run(ctx: click.Context, /, **options: Any) -> None:
    if ctx.invoked_subcommand is None:
        assert run_broker.callback is not None
        run_broker.callback(**options)


broker = BrokerGroup(
    "broker", params=list(run_broker.params), callback=_run, invoke_without_command=True, help=run_broker.help
)
