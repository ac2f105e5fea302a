"""The ``gantrymq`` command. Modules of commands are imported lazily.

Exit codes: 0 success, 1 refused by the broker or because of the data (one sentence on stderr), 2 wrong usage, 3 the
store is open in a broker.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, Final

import click

from gantrymq import __version__, speedups
from gantrymq.cli.extensible_group import ExtensibleGroup
from gantrymq.cli.standard_streams import OutputNotWritten, prepared_streams
from gantrymq.commands.imported import ImportedCommand
from gantrymq.commands.output import FilledPath, check_namesrv, print_json, set_environment
from gantrymq.errors import BrokerRefused, ConfigError, GantryError

LOADED_AT = time.perf_counter()  # start times are measured from here

_VERSION = f"%(prog)s, version %(version)s; {speedups.description.replace('%', '%%')}"

COMMANDS: dict[str, ImportedCommand] = {
    "quickstart": ImportedCommand("gantrymq.cli.quickstart:quickstart", "Demonstrate a broker on free ports."),
    "start": ImportedCommand("gantrymq.cli.servers:start", "Run a name server and a broker in one process."),
    "nameserver": ImportedCommand("gantrymq.cli.servers:nameserver", "Run or administer a name server."),
    "broker": ImportedCommand("gantrymq.cli.servers:broker", "Run or administer a broker."),
    "plugins": ImportedCommand("gantrymq.cli.plugins:plugins", "List the installed plugins and what they register."),
    "config": ImportedCommand("gantrymq.cli.config:config", "Show settings, or explain one."),
    "context": ImportedCommand("gantrymq.cli.contexts:context", "Name clusters, for the option -c before a command."),
}
"""Core's commands by name."""

ADVICE: Final = {
    "ClusterUnclear": "; -c names a cluster, -b one broker",
    "GroupNotExist": "; 'gantrymq group list' lists the groups",
    "PartialReset": ", run the command again",
    "NoNameServer": "; 'gantrymq start' starts one, -n names another",
    "NameServerClosed": "; --tls and --tls-config set both",
    "NoRoute": "; 'gantrymq topic list' lists the topics, 'gantrymq topic create' creates one",
    "NotABroker": "; -b names a broker, 'gantrymq status' lists them",
    "NotANameServer": "; -n names the name server",
    "OffsetOutside": ". Pick a queue with -q, or use a time",
}
"""Advice with command names for errors of the client, by class name, so that the classes need not be imported."""


class MainGroup(ExtensibleGroup):
    """Core's commands from the table above, then those of plugins. Errors are reported as one sentence."""

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run the program."""
        try:
            with prepared_streams():
                return super().main(*args, **extra)
        except OutputNotWritten as problem:
            click.echo(f"gantrymq: {problem}", err=True)
            sys.exit(problem.exit_code)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep the arguments, so that usage errors can be reported in the requested format."""
        ctx.obj = tuple(args)
        with _report_errors(ctx):
            return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        """Run a command."""
        with _report_errors(ctx):
            return super().invoke(ctx)


@contextmanager
def _report_errors(ctx: click.Context) -> Iterator[None]:
    """Report errors as a sentence on stderr, with ``--output json`` also as a document on stdout; set the exit code."""
    try:
        yield
    except (GantryError, click.ClickException) as problem:
        message = problem.format_message() if isinstance(problem, click.ClickException) else problem.without_advice
        if "gantrymq " not in message:  # the message has no advice of its own
            message += ADVICE.get(type(problem).__name__, "")
        # An error of a setting starts with its source; if that is a flag ("--set listenPort: ..."), it is wrong usage.
        exit_code = 2 if isinstance(problem, ConfigError) and message.startswith("--") else problem.exit_code
        if "--output=json" in ctx.obj or ("--output", "json") in pairwise(ctx.obj):
            document = {"error": type(problem).__name__, "message": message, "exit_code": exit_code}
            print_json(document | ({"code": problem.response_code} if isinstance(problem, BrokerRefused) else {}))
        if isinstance(problem, click.ClickException):  # click prints it with the usage
            raise
        click.echo(f"gantrymq: {message}", err=True)
        ctx.exit(exit_code)


@click.group(
    cls=MainGroup, imported=COMMANDS, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="gantrymq", message=_VERSION)
@click.option("-c", "--context", metavar="NAME", help="A cluster that 'gantrymq context add' named.")
@click.option("-n", "--namesrv", metavar="ADDR", callback=check_namesrv, help="Name servers, as for each command.")
@click.option("--tls", is_flag=True, help="Connect with TLS, as for each command.")
@click.option(
    "--tls-config", type=FilledPath(dir_okay=False), metavar="FILE", help="TLS settings, as for each command."
)
@click.pass_context
def main(ctx: click.Context, context: str | None, namesrv: str | None, tls: bool, tls_config: str | None) -> None:
    """A message broker with Apache RocketMQ's semantics, wire protocol and files.

    Begin with: gantrymq quickstart
    """
    if context is not None:
        from gantrymq.cli.contexts import read_context

        found = read_context(context)
        namesrv, tls = namesrv or found["namesrv"], tls or found["tls"]
        tls_config = tls_config or found["tls_config"]
    given = {"NAMESRV_ADDR": namesrv, "tls.enable": "true" if tls else None, "tls.config.file": tls_config}
    for key, value in given.items():
        if value:
            set_environment(ctx, key, value)
