"""``gantrymq start``, ``nameserver`` and ``broker``: run servers until SIGTERM or SIGINT.

``nameserver`` and ``broker`` are groups with subcommands of plugins, which administer a server. The options for
starting a server belong to the group itself, so that ``gantrymq broker -c broker.conf`` works.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gantrymq.cli.extensible_group import ExtensibleGroup
from gantrymq.cli.server_process import collect_only_young, log_options, set_up_logs
from gantrymq.commands.output import FilledPath, output_option, print_json, warn
from gantrymq.commands.run import run
from gantrymq.errors import PluginError, install_command
from gantrymq.speedups import SWITCH, switch_warning

if TYPE_CHECKING:
    from gantrymq.cli.serving import Servers
    from gantrymq.cli.several.servers import SeveralBrokers

F = TypeVar("F", bound=Callable[..., Any])

PORT = click.IntRange(0, 65535)
MOST_BROKERS = 100  # a limit for mistyped numbers
CONSOLE = "consoleListen"  # setting of gantrymq-console


def _with_subcommands(start: click.Command) -> ExtensibleGroup:
    """Return a group that runs *start* without a subcommand."""

    @click.pass_context
    def run_without(ctx: click.Context, /, **options: Any) -> None:
        if ctx.invoked_subcommand is None:
            assert start.callback is not None
            start.callback(**options)

    return ExtensibleGroup(
        start.name,
        imported={},
        words=f"{start.name} ",
        params=list(start.params),
        callback=run_without,
        invoke_without_command=True,
        help=start.help,
    )


def settings_options(file: str) -> Callable[[F], F]:
    """Add ``-c`` and ``--set``; *file* is the usual name of the settings file."""

    def add(command: F) -> F:
        command = click.option(
            "--set",
            "pairs",
            multiple=True,
            metavar="KEY=VALUE",
            callback=_check_pairs,
            help="One setting, under RocketMQ's name; may be repeated, overrides file and environment.",
        )(command)
        return click.option(
            "-c",
            "--config",
            "file",
            type=FilledPath(dir_okay=False, path_type=Path),
            metavar="FILE",
            help=f"Settings in RocketMQ's properties format ({file}).",
        )(command)

    return add


def _check_pairs(ctx: click.Context, parameter: click.Parameter, pairs: tuple[str, ...]) -> tuple[str, ...]:
    for pair in pairs:
        if not pair.partition("=")[0].strip() or "=" not in pair:
            raise click.BadParameter(f"{pair!r} is not KEY=VALUE")
    return pairs


@click.command()
@settings_options("broker.conf")
@click.option(
    "--store",
    type=FilledPath(),
    metavar="DIR",
    help="Folder of the store; ~/store when not set anywhere.",
)
@click.option(
    "--namesrv-port", type=PORT, default=9876, show_default=True, help="Port of the name server, 0: a free one."
)
@click.option(
    "--namesrv-listeners",
    default="",
    metavar="LISTENERS",
    help="Further addresses of the name server: its setting listeners.",
)
@click.option("--broker-port", type=PORT, help="Port of the broker, 0: a free one; 10911 when not set anywhere.")
@click.option(
    "--brokers",
    "count",
    type=click.IntRange(1, MOST_BROKERS),
    metavar="N",
    help="Run N brokers, each in a process of its own; one in this process when not given.",
)
@click.option(
    "--broker-config",
    "own_files",
    type=FilledPath(dir_okay=False, path_type=Path),
    multiple=True,
    metavar="FILE",
    help="Settings of one of several brokers, over those common to all; once for each broker.",
)
@click.option(
    "--console",
    is_flag=False,
    flag_value="127.0.0.1:8088",
    metavar="[HOST:PORT]",
    help="Serve the web console as well, on 127.0.0.1:8088 if no address is given: the setting consoleListen.",
)
@log_options()
@output_option
def start(
    file: Path | None,
    pairs: tuple[str, ...],
    store: str | None,
    namesrv_port: int,
    namesrv_listeners: str,
    broker_port: int | None,
    count: int | None,
    own_files: tuple[Path, ...],
    console: str | None,
    log_level: str,
    log_file: str | None,
    output: str,
) -> None:
    """Run a name server and a broker in one process, or several brokers.

    All listen on 127.0.0.1 only, unless bindAddress or brokerIP1 is set. The file is the broker's; --set takes keys of
    the name server as well. Settings of TLS are for both. With --brokers N, broker i of 0 to N-1 is called broker-i and
    has a folder of that name in the store and ports 10 i above the given ones.
    """
    collect_only_young()
    from gantrymq.cli.server_settings import (
        BROKER_CLOSED,
        ServerArguments,
        broker_settings,
        name_server_keys,
        name_server_settings,
        store_root,
    )
    from gantrymq.cli.serving import Servers
    from gantrymq.world.real import real_world

    set_up_logs(log_level, log_file)
    world = real_world()
    given = {"storePathRootDir": ("--store", store), "listenPort": ("--broker-port", broker_port)}
    closed = "gantrymq start" if file is None else BROKER_CLOSED  # a trial on one machine needs no warning
    of_names = name_server_keys()
    names_pairs = tuple(pair for pair in pairs if pair.partition("=")[0].strip() in of_names)
    broker_pairs = tuple(pair for pair in pairs if pair not in names_pairs)
    arguments = ServerArguments("gantrymq start", file, broker_pairs, given, closed=closed)
    of_broker = broker_settings(world, arguments)
    if console is not None:
        if CONSOLE not in of_broker.settings.schema:
            raise PluginError(f"no plugin offers a console; install it with: {install_command('gantrymq-console')}")
        of_broker.settings.set(CONSOLE, console, "--console")
        given[CONSOLE] = ("--console", console)
    planned = []
    if count is not None or own_files:
        from gantrymq.cli.several.planned import check_brokers, left_out, plan_brokers

        if own_files and count not in (None, len(own_files)):
            raise click.UsageError(
                f"--brokers {count} needs --broker-config {count} times, once for each broker, or never"
            )
        planned = plan_brokers(world, arguments, count or len(own_files), own_files)
        check_brokers(planned)
    root = store_root(of_broker.settings)
    users_of = planned[0] if planned else of_broker
    of_name_server = name_server_settings(
        world,
        ServerArguments(
            "gantrymq start",
            pairs=names_pairs,
            options={
                "listenPort": ("--namesrv-port", namesrv_port),
                "listeners": ("--namesrv-listeners", namesrv_listeners),
                "bindAddress": ("the broker's bindAddress", of_broker.settings.text("bindAddress")),
            },
            defaults={
                "kvConfigPath": str(root / "namesrv" / "kvConfig.json"),
                "accessPath": str(store_root(users_of.settings) / "config"),
            },
        ),
        beside=of_broker.settings,
    )
    if not planned:
        _serve(Servers(world, of_name_server, of_broker), output)
        return
    from gantrymq.cli.several.servers import SeveralBrokers

    for note in left_out(world.files, root, planned):
        warn(note)
    _serve(SeveralBrokers(world, of_name_server, planned, log_level, log_file), output)


@_with_subcommands
@click.command()
@settings_options("namesrv.conf")
@click.option("--port", type=PORT, help="Port to listen on, 0: a free one; 9876 when not set anywhere.")
@log_options()
@output_option
def nameserver(
    file: Path | None, pairs: tuple[str, ...], port: int | None, log_level: str, log_file: str | None, output: str
) -> None:
    """Run a name server: brokers register with it, clients ask it where topics are.

    It listens on 127.0.0.1 only, unless bindAddress is set.
    """
    collect_only_young()
    from gantrymq.cli.server_settings import ServerArguments, name_server_settings
    from gantrymq.cli.serving import Servers
    from gantrymq.world.real import real_world

    set_up_logs(log_level, log_file)
    world = real_world()
    given = {"listenPort": ("--port", port)}
    _serve(
        Servers(world, name_server_settings(world, ServerArguments("gantrymq nameserver", file, pairs, given))), output
    )


@_with_subcommands
@click.command()
@settings_options("broker.conf")
@click.option(
    "--store",
    type=FilledPath(),
    metavar="DIR",
    help="Folder of the store; ~/store when not set anywhere.",
)
@click.option("--port", type=PORT, help="Port to listen on, 0: a free one; 10911 when not set anywhere.")
@click.option("-n", "--namesrv", metavar="ADDR", help="Name servers to register with; else namesrvAddr, $NAMESRV_ADDR.")
@log_options()
@output_option
def broker(
    file: Path | None,
    pairs: tuple[str, ...],
    store: str | None,
    port: int | None,
    namesrv: str | None,
    log_level: str,
    log_file: str | None,
    output: str,
) -> None:
    """Run a broker and register it with name servers that run elsewhere.

    It listens on 127.0.0.1 only, unless bindAddress or brokerIP1 is set.
    """
    collect_only_young()
    from gantrymq.cli.server_settings import ServerArguments, broker_settings
    from gantrymq.cli.serving import Servers
    from gantrymq.world.real import real_world

    set_up_logs(log_level, log_file)
    world = real_world()
    given = {
        "storePathRootDir": ("--store", store),
        "listenPort": ("--port", port),
        "namesrvAddr": ("--namesrv", namesrv),
    }
    defaults = {"namesrvAddr": world.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")}
    _serve(
        Servers(world, broker=broker_settings(world, ServerArguments("gantrymq broker", file, pairs, given, defaults))),
        output,
    )


def _serve(servers: Servers | SeveralBrokers, output: str) -> None:
    """Print notes about the settings, and run *servers* until a signal."""
    from gantrymq.cli.serving import serve
    from gantrymq.world.real import raise_descriptor_limit

    for note in servers.notes:
        warn(note)
    if ignored := switch_warning(servers.world.environ.get(SWITCH, "")):
        warn(ignored)
    raise_descriptor_limit()
    run(serve(servers, lambda ready: _announce(ready, output)))


def _announce(servers: Servers | SeveralBrokers, output: str) -> None:
    for note in servers.exposure:
        warn(note)
    line = servers.ready_line()
    if output == "json":
        print_json(line)
        return
    words = []
    if "namesrv" in line:
        words.append(f"name server {line['namesrv']}")
    if "broker" in line:
        words += [f"broker {line['broker']}", f"store {line['store']}", line["flush"]]
    if access := line.get("access"):
        words.append(f"access control {access['authorizer']} ({access['strategy']})")
    for each in line.get("brokers", ()):
        words += [f"{each['name']} {each['broker']}, store {each['store']}"]
        words += [f"{each['name']} {address} ({name})" for name, address in each.get("listeners", {}).items()]
    for key, server in (("namesrv_listeners", "name server"), ("listeners", "broker")):
        words += [f"{server} {address} ({name})" for name, address in line.get(key, {}).items()]
    words += [f"{name} {url}" for name, url in line.get("pages", {}).items()]
    click.echo(f"GantryMQ is ready after {line['start_ms']} ms: {', '.join(words)}")
