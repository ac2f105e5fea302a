"""``gantrymq broker``: runs a broker; with a subcommand, which plugins add, it looks after one that runs.

The options of a broker's start stand on the group itself, so that ``gantrymq broker -c broker.conf`` is all it takes.
"""

from __future__ import annotations

from typing import Any

import click

from gantrymq.cli.open_group import OpenGroup
from gantrymq.cli.servers import broker as run_broker


@click.pass_context
def _run(ctx: click.Context, /, **options: Any) -> None:
    if ctx.invoked_subcommand is None:
        assert run_broker.callback is not None
        run_broker.callback(**options)


broker = OpenGroup(
    "broker",
    own={},
    words="broker ",
    params=list(run_broker.params),
    callback=_run,
    invoke_without_command=True,
    help=run_broker.help,
)
