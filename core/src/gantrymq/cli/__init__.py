"""The ``gantrymq`` command. A command's module is imported when the command is used, not before.

Exit codes: 0 done, 1 the broker or the data said no (one sentence on stderr), 2 wrong usage, 3 a store that a broker
has open.
"""

from __future__ import annotations

import time

import click

from gantrymq import __version__, speedups
from gantrymq.cli.open_group import OpenGroup
from gantrymq.commands.imported import ImportedCommand
from gantrymq.commands.output import OUTPUT, print_json
from gantrymq.errors import BrokerRefused, GantryError

LOADED_AT = time.perf_counter()  # start times are measured from here

_VERSION = f"%(prog)s, version %(version)s; {speedups.said.replace('%', '%%')}"

COMMANDS: dict[str, ImportedCommand] = {
    "quickstart": ImportedCommand(
        "gantrymq.cli.quickstart:quickstart", "Start on free ports and show what a broker does."
    ),
    "start": ImportedCommand("gantrymq.cli.servers:start", "Run a name server and a broker in one process."),
    "nameserver": ImportedCommand("gantrymq.cli.servers:nameserver", "Run a name server."),
    "broker": ImportedCommand("gantrymq.cli.broker:broker", "Run a broker, or look after one that runs."),
    "plugins": ImportedCommand("gantrymq.cli.plugins:plugins", "List the installed plugins and what they register."),
    "config": ImportedCommand("gantrymq.cli.config:config", "Show settings, and explain one."),
}
"""Core's commands by name."""


class MainGroup(OpenGroup):
    """Core's commands by the table above, then those of plugins; every GantryError ends in one sentence."""

    def invoke(self, ctx: click.Context) -> object:
        """Run a command; an error raised on purpose becomes a sentence, with JSON a document too, and exit code 1."""
        try:
            return super().invoke(ctx)
        except GantryError as problem:
            click.echo(f"gantrymq: {problem}", err=True)
            if ctx.meta.get(OUTPUT) == "json":
                told: dict[str, str | int] = {"error": type(problem).__name__, "message": str(problem)}
                if isinstance(problem, BrokerRefused):
                    told["code"] = problem.response_code
                print_json(told)
            ctx.exit(1)


@click.group(
    cls=MainGroup, own=COMMANDS, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="gantrymq", message=_VERSION)
def main() -> None:
    """A message broker with Apache RocketMQ's semantics, wire protocol and files.

    Begin with: gantrymq quickstart
    """
