"""``gantrymq console``: the web console in a process of its own."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click
from click.core import ParameterSource

from gantrymq.errors import ConfigError
from gantrymq.plugin.commands import (
    CommandGroup,
    FilledPath,
    bound_repeated_lines,
    namesrv_option,
    output_option,
    print_json,
    run,
    say,
    stop_requested,
)
from gantrymq.plugin.model import parse_address
from gantrymq.plugin.real_world import raise_descriptor_limit, real_world
from gantrymq_console.commands.users import ROLES, state_folder, state_option, token, user

if TYPE_CHECKING:
    from gantrymq_console.history.prometheus_options import PrometheusOptions

_LINK_ENDS = (
    "each link logs in once, as administrator; for names and passwords instead, run `gantrymq console user add NAME "
    "--role admin` (with the same --state) and start the console again: it prints no link then"
)


@click.group(cls=CommandGroup, invoke_without_command=True)
@click.option("--listen", default="127.0.0.1:8088", show_default=True, metavar="HOST:PORT", help="Where to listen.")
@namesrv_option
@state_option
@click.option(
    "--login",
    type=click.Choice(["users", "cluster"]),
    default="users",
    show_default=True,
    help="Who logs in: users of `gantrymq console user add`, or users of a cluster with access control, with their "
    "names and secrets. The cluster decides what they may do.",
)
@click.option("--no-login", is_flag=True, help="Let everyone on this machine in as administrator.")
@click.option(
    "--host-name",
    "host_names",
    multiple=True,
    metavar="NAME",
    help="A name under which browsers reach the console, besides the address of --listen; may be repeated.",
)
@click.option(
    "--docs",
    envvar="GANTRYMQ_CONSOLE_DOCS",
    show_envvar=True,
    metavar="URL",
    default="",
    help="Address of the documentation's site, to which findings link; by default they link to a page of the console.",
)
@click.option(
    "--tls-cert",
    type=FilledPath(dir_okay=False),
    metavar="FILE",
    help="Serve HTTPS with this certificate chain, PEM; it is read again when it changes.",
)
@click.option(
    "--tls-key",
    type=FilledPath(dir_okay=False),
    metavar="FILE",
    help="Its private key, PEM; by default in the file of --tls-cert. Its password: "
    "$GANTRYMQ_CONSOLE_TLS_KEY_PASSWORD.",
)
@click.option(
    "--trusted-proxy",
    "trusted_proxies",
    multiple=True,
    metavar="ADDR",
    help="Address or network of a proxy that serves HTTPS in front; may be repeated; its X-Forwarded-For counts.",
)
@click.option(
    "--user-header",
    metavar="HEADER",
    help="Header in which trusted proxies name the user who logged in there, such as X-Forwarded-User.",
)
@click.option(
    "--user-role",
    type=click.Choice(ROLES),
    help="Role of users named by --user-header who are not in the file of users; without it they are refused.",
)
@click.option(
    "--webhook",
    envvar="GANTRYMQ_CONSOLE_WEBHOOK",
    show_envvar=True,
    metavar="URL",
    help="Send alerts here, as JSON by POST: brokers that are gone or refuse messages, and those below.",
)
@click.option(
    "--webhook-late",
    type=click.FloatRange(1),
    default=300.0,
    show_default=True,
    metavar="SECONDS",
    help="Alert about a group whose oldest unconsumed message is this old.",
)
@click.option(
    "--webhook-dead-letters",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    metavar="COUNT",
    help="Alert about a group with this many new dead letters within an hour.",
)
@click.option(
    "--webhook-disk",
    type=click.FloatRange(1, 100),
    default=85.0,
    show_default=True,
    metavar="PERCENT",
    help="Alert about a broker whose disk is this full.",
)
@click.option(
    "--history-hours",
    type=click.IntRange(1, 744),
    default=24,
    show_default=True,
    metavar="HOURS",
    help="Keep samples of rates, lags and disks every 10 s for so long, in the folder of --state.",
)
@click.option(
    "--history-days",
    type=click.IntRange(1, 400),
    default=30,
    show_default=True,
    metavar="DAYS",
    help="Keep points of five minutes, which are made of these samples, for so long.",
)
@click.option(
    "--history-bytes",
    type=click.IntRange(1024 * 1024),
    default=100 * 1024 * 1024,
    show_default=True,
    metavar="BYTES",
    help="Size of the file of the history at most; the oldest samples are deleted first.",
)
@click.option("--no-history", is_flag=True, help="Keep no history, and write no file of it.")
@click.option(
    "--prometheus",
    envvar="GANTRYMQ_CONSOLE_PROMETHEUS",
    show_envvar=True,
    metavar="URL",
    help="Show curves of a Prometheus that scrapes the brokers, such as http://10.0.0.9:9090, instead of the "
    "console's own. Its secret: $GANTRYMQ_CONSOLE_PROMETHEUS_USER and _PASSWORD, or _TOKEN; _PASSWORD_FILE and "
    "_TOKEN_FILE name files.",
)
@click.option(
    "--prometheus-label",
    "prometheus_labels",
    multiple=True,
    metavar="NAME=VALUE",
    help="A label of the cluster's series in it, if the name of the cluster is not enough; may be repeated.",
)
@click.option(
    "--decoder",
    "decoders",
    multiple=True,
    metavar="TOPIC=NAME:ARGUMENT",
    help="Decode bodies of a topic (or of a pattern, such as 'orders-*') for the page of a message: "
    "Orders=protobuf:shop.desc#shop.Order, Orders=avro:order.avsc, or with a plugin; may be repeated.",
)
@output_option
@click.pass_context
def console(ctx: click.Context, /, *, namesrv: str, output: str, **given: Any) -> None:
    """Serve the web console until Ctrl-C.

    By default only this machine reaches it, and one logs in with a link that is printed at the start, or as a user of
    `gantrymq console user add`.
    """
    if ctx.invoked_subcommand is None:
        _check_used(ctx, given)
        os.umask(0o027)  # the audit log is for its owner and group
        raise_descriptor_limit()
        if logging.lastResort is not None:  # the handler of warnings, as this command sets up no other
            bound_repeated_lines(logging.lastResort)
        run(_serve(namesrv, given, output))


console.add_command(user)
console.add_command(token)


async def _serve(namesrv: str, given: dict[str, Any], output: str) -> None:
    from gantrymq_console.access.audit import FileAudit, lock_state
    from gantrymq_console.access.exposure import EntranceOptions, entrance
    from gantrymq_console.alerting import Webhook
    from gantrymq_console.data.attention import Thresholds
    from gantrymq_console.decoders.registry import Decoders
    from gantrymq_console.history.keeping import HistoryOptions
    from gantrymq_console.running import RunningConsole

    webhook = given.pop("webhook")
    thresholds = Thresholds(*(given.pop(f"webhook_{each}") for each in ("late", "dead_letters", "disk")))
    listen, state = given.pop("listen"), state_folder(given.pop("state"))
    hours, days, most_bytes = (given.pop(f"history_{each}") for each in ("hours", "days", "bytes"))
    history = None if given.pop("no_history") else HistoryOptions(hours, days, most_bytes)
    prometheus = _prometheus(given.pop("prometheus"), given.pop("prometheus_labels"), given["login"])
    docs = _docs(given.pop("docs"))
    decoders = Decoders()
    decoders.configure(given.pop("decoders"))
    host, port = _address(listen)
    world = real_world()
    address = ""

    def announce(code: str) -> None:
        say(f"log in once at: {address}login?code={code}")

    way_in = entrance(world, namesrv, EntranceOptions(host, state, **given), announce)
    lock = lock_state(world.files, state)
    audit = FileAudit(world, state)
    stopped = stop_requested()
    running = RunningConsole(
        *(world, namesrv, way_in.identities, audit, way_in.exposure, way_in.certificates, lock),
        state=state,
        history=history,
        prometheus=prometheus,
        docs=docs,
        decoders=decoders,
    )
    if webhook:
        running.alert(Webhook(world, webhook), thresholds)
    try:
        address = await running.start(host, port)
    except OSError as problem:
        taken = problem.errno == errno.EADDRINUSE
        reason = "another process has that port; choose another one" if taken else problem.strerror or str(problem)
        raise ConfigError(f"--listen {listen}: {reason}") from problem
    try:
        code = way_in.new_code()
        if output == "json":
            link = f"{address}login?code={code}" if code else None
            print_json({"ready": True, "console": address, "login": link})
        else:
            say(f"console: {address}")
            if code:
                announce(code)
                say(_LINK_ENDS)
        await stopped.wait()
    finally:
        await running.stop()


def _check_used(ctx: click.Context, given: dict[str, Any]) -> None:
    """Raise ConfigError: an option is given that would have no effect, of a history or of alerts."""
    for option in (each.opts[0] for each in ctx.command.params if each.name):
        if ctx.get_parameter_source(option[2:].replace("-", "_")) is not ParameterSource.COMMANDLINE:
            continue
        if option.startswith("--history-") and given["no_history"]:
            raise ConfigError(f"{option} is about a history, and --no-history keeps none; leave one of them out")
        if option.startswith("--webhook-") and not given["webhook"]:
            raise ConfigError(f"{option} is about alerts: add --webhook URL, or leave it out")


def _docs(url: str) -> str:
    """Return the address of the documentation with a slash at the end. Raises ConfigError: it is no web address."""
    if not url:
        return ""
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    is_plain = url.isascii() and url.isprintable() and " " not in url and not parts.query and not parts.fragment
    if parts.scheme not in ("http", "https") or not parts.netloc or not is_plain:
        raise ConfigError(f"--docs {url}: expected an address such as https://docs.example.com/gantrymq/")
    return url.rstrip("/") + "/"


def _address(listen: str) -> tuple[str, int]:
    try:
        return parse_address(listen)
    except ValueError as problem:
        raise ConfigError(f"--listen: {problem}; write HOST:PORT such as 127.0.0.1:8088") from None


def _prometheus(address: str | None, labels: Sequence[str], login: str) -> PrometheusOptions | None:
    """Return where curves are read. Raises ConfigError: the options cannot be used."""
    from gantrymq_console.history.prometheus_options import PrometheusOptions

    if not address:
        if labels:
            raise ConfigError("--prometheus-label is for series of Prometheus: add --prometheus URL, or leave it out")
        return None
    if login == "cluster":
        raise ConfigError(
            "--prometheus shows its curves to everyone, so it cannot be used with --login cluster, where each user "
            "sees what the cluster permits; leave one of them out"
        )
    return PrometheusOptions.of("--prometheus", address, labels)
