"""Options shared by several commands: groups, topics, and brokers.

A required name can be given as an argument or with its option: ``gantrymq group progress billing`` and
``gantrymq group progress -g billing`` are the same.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import attrs
import click

from gantrymq.client import Client
from gantrymq.errors import ClientError, InvalidParameter, RequestRefused, install_command
from gantrymq.plugin import names
from gantrymq.plugin.client import BrokerAddresses
from gantrymq.plugin.commands import check_address, namesrv_option, output_option, run, warn
from gantrymq.plugin.model import GroupConfig, TopicConfig
from gantrymq.plugin.remoting import ResponseCode
from gantrymq_admin.brokers import AskedSlave, asked_slave

if TYPE_CHECKING:
    from gantrymq.client import Admin

Command = TypeVar("Command", bound=Callable[..., Any])
Settings = TypeVar("Settings", TopicConfig, GroupConfig)
Check = Callable[[str], object]


def admin_command(work: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Make *work* the function of a command with ``-n`` and ``--output``; it gets an `Admin` before its options."""

    @namesrv_option
    @output_option
    @wraps(work)
    def command(namesrv: str, **options: Any) -> None:
        async def connected() -> None:
            async with Client(namesrv) as client, client.admin as admin:
                await work(admin, **options)

        run(connected())

    return command


def check_group(name: str) -> str:
    """Return *name*. Raises click.BadParameter: not a legal name of a group."""
    return _checked(names.check_group, name)


def legal_topic(_context: click.Context, _option: click.Parameter, name: str | None) -> str | None:
    """Return the value of an option that names a topic. Raises click.BadParameter: not a legal name of a topic."""
    return None if name is None else _checked(names.check_topic, name)


def _checked(check: Check, name: str) -> str:
    try:
        check(name)
    except InvalidParameter as problem:
        raise click.BadParameter(str(problem)) from None
    return name


def named(
    parameter: str, check: Check, *flags: str, metavar: str, help: str, required: bool = True
) -> Callable[[Command], Command]:
    """Add an argument and an option for one name; the command gets it as *parameter*.

    Args:
        parameter: the name of the function's parameter.
        check: raises InvalidParameter for a name that is not legal.
        *flags: of the option, the short one first.
        metavar: placeholder in the help.
        help: of the option.
        required: whether the command needs the name; it gets None otherwise.
    """
    key = f"{__name__}.{parameter}"

    def keep(ctx: click.Context, _option: click.Parameter, name: str | None) -> None:
        ctx.meta[key] = None if name is None else _checked(check, name)

    def merge(ctx: click.Context, argument: click.Parameter, name: str | None) -> str | None:
        by_option: str | None = ctx.meta[key]
        if name is None:
            if by_option is None and required and not ctx.resilient_parsing:
                advice = f"Give it as an argument or with {' or '.join(flags)}."
                raise click.MissingParameter(advice, ctx, argument, metavar)
            return by_option
        if by_option not in (None, name):
            raise click.UsageError(f"{metavar} is given twice: {name}, and {flags[0]} {by_option}")
        return _checked(check, name)

    def add(command: Command) -> Command:
        # The option is eager, so that its value is known when the argument is read.
        option = click.option(
            *flags, f"{parameter}_option", is_eager=True, expose_value=False, callback=keep, metavar=metavar, help=help
        )
        argument = click.argument(parameter, required=False, callback=merge, metavar=f"[{metavar}]")
        return argument(option(command))

    return add


def group_named(parameter: str = "name", *, required: bool = True) -> Callable[[Command], Command]:
    """Add GROUP and ``-g``."""
    return named(
        parameter, names.check_group, "-g", "--group", metavar="GROUP", help="The consumer group.", required=required
    )


def broker_named(*, required: bool = True) -> Callable[[Command], Command]:
    """Add BROKER_NAME and ``-b``."""
    return named(
        *("name", str, "-b", "--broker-name"),
        metavar="BROKER_NAME",
        help="The name that the brokers of a set have.",
        required=required,
    )


topic_named = named("name", names.check_topic, "-t", "--topic", metavar="TOPIC", help="The topic.")
topic_option = click.option(
    "-t", "--topic", "name", required=True, callback=legal_topic, metavar="NAME", help="The topic."
)
cluster_option = click.option(
    "-c", "--cluster", metavar="NAME", help="The cluster; not needed where there is only one."
)


def where_options(command: Command) -> Command:
    """Add ``-c`` and ``-b``: the masters of a cluster, or one broker."""
    broker_option = click.option(
        "-b", "--broker", metavar="ADDR", callback=check_address, help="This broker only, host:port."
    )
    return cluster_option(broker_option(command))


async def brokers_of(admin: Admin, cluster: str | None, broker: str | None) -> Sequence[str]:
    """Return the one broker, or the masters of the cluster, and warn of broker names without one.

    Raises:
        click.UsageError: both are given.
    """
    if given := _only(cluster, broker):
        return given
    masters = await admin.masters(cluster)
    await warn_without_master(admin, cluster)
    return masters


@attrs.frozen
class Readable:
    """Brokers that a command reads from."""

    addresses: Sequence[str]
    slaves: Sequence[AskedSlave] = ()  # those of *addresses* that answer in place of a master
    left_out: Sequence[str] = ()  # names of brokers of which nothing answers

    def to_json(self) -> dict[str, Any]:
        """Return members for documents of commands."""
        slaves = [{"broker": each.broker, "address": each.address, "as_of_ms": each.as_of_ms} for each in self.slaves]
        return {"without_master": [*(each.broker for each in self.slaves), *self.left_out], "from_slaves": slaves}


async def settings_wanted(
    addresses: Iterable[str],
    present: Callable[[str], Awaitable[Settings | None]],
    new: Settings,
    given: Mapping[str, int | None],
) -> dict[str, Settings]:
    """Return the settings of a topic or group at each broker after a change.

    Args:
        addresses: of the brokers.
        present: returns the settings at a broker, None without them; what it raises is raised.
        new: where there are none.
        given: what is changed, by field; None: it stays as it is.
    """
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    return {address: attrs.evolve(await present(address) or new, **changes) for address in addresses}


async def readable_brokers(admin: Admin, cluster: str | None, broker: str | None, *, acting: bool = False) -> Readable:
    """Return the one broker, or one for each broker name of the cluster: its master, or a slave if none is registered.

    Warns of slaves that are asked, and of broker names that are left out because none of their slaves answers.

    Args:
        admin: for the requests.
        cluster: name of the cluster; None for the only one.
        broker: the address that was given with -b.
        acting: ask only slaves that act for their master; others do not deliver delayed messages, and cannot list them.

    Raises:
        click.UsageError: both are given.
        ClusterUnclear: no such cluster, several and none named, or no broker in it answers.
    """
    if given := _only(cluster, broker):
        return Readable(given)
    addresses, slaves, left_out = list[str](), list[AskedSlave](), list[str]()
    for each in await admin.brokers(cluster):
        if each.master is not None:
            addresses.append(each.master)
        elif (slave := await _first_slave(admin, each, acting)) is not None:
            addresses.append(slave.address)
            slaves.append(slave)
        else:
            left_out.append(each.name)
    if not addresses:
        await admin.masters(cluster)  # raises: there is none
    for slave in slaves:
        warn(f"{slave.broker}: no master of it is registered; {slave.sentence}")
    for name in left_out:
        _warn_left_out(name)
    return Readable(addresses, slaves, left_out)


def _only(cluster: str | None, broker: str | None) -> list[str]:
    """Return the broker that is given with -b. Raises click.UsageError: a cluster is given, too."""
    if cluster and broker:
        raise click.UsageError("give -c or -b, not both")
    return [broker] if broker else []


async def _first_slave(admin: Admin, broker: BrokerAddresses, acting: bool) -> AskedSlave | None:
    """Return the slave with the lowest id that answers, with *acting* only if it acts; None without one."""
    for _, address in sorted(broker.addresses.items()):
        try:
            found = await asked_slave(admin, broker.name, address)
        except ClientError:
            continue
        if found.acting or not acting:
            return found
    return None


async def warn_without_master(admin: Admin, cluster: str | None) -> None:
    """Warn of the broker names of a cluster, or of all, of which only slaves are registered."""
    info = await admin.clusters()
    names = info.clusters.get(cluster, ()) if cluster else [each.name for each in info.brokers]
    for each in info.brokers:
        if each.master is None and each.name in names:
            _warn_left_out(each.name)


def _warn_left_out(name: str) -> None:
    warn(f"{name} is left out: no master of it is registered; 'gantrymq cluster status' shows its copies")


@contextmanager
def served_by(distribution: str, address: str, missing: str, advice: str = "") -> Iterator[None]:
    """Name the distribution to install if a broker does not serve a request of GantryMQ's own.

    Args:
        distribution: of the plugin that serves the request.
        address: ip:port of the broker.
        missing: what the broker does not do, such as ``explains no groups``.
        advice: what to use instead.

    Raises:
        RequestRefused: code 3, instead of RequestNotServed.
    """
    from gantrymq.client.admin import RequestNotServed

    try:
        yield
    except RequestNotServed as problem:
        sentence = (
            f"the broker at {address} {missing}: it is RocketMQ's, or lacks a plugin; "
            f"{install_command(distribution)} beside it{advice and f', or {advice}'}"
        )
        raise RequestRefused(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, sentence) from problem


attribute_options = click.option(
    "-a", "--attribute", "attributes", multiple=True, metavar="+NAME=VALUE|-NAME", help="Set or take away."
)
"""Changes of the attributes of a topic or group; `attribute_in` reads each."""


def attribute_in(text: str) -> tuple[str, str]:
    """Return sign and name, and value, of an option from `attribute_options`; the value of -NAME is empty."""
    name, mark, value = text.partition("=")
    if text.startswith("+") and mark and value and "," not in value:
        return name, value
    if text.startswith("-") and not mark and len(text) > 1:
        return name, ""
    raise click.BadParameter(f"{text!r} is neither +NAME=VALUE nor -NAME", param_hint="-a")
