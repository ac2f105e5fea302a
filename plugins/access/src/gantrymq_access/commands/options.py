"""Parts shared by the commands: the brokers they act on, a row for each, names and values of options."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

import attrs
import click

from gantrymq.client import Admin
from gantrymq.errors import BrokerRefused, ClientError, GantryError
from gantrymq.plugin.commands import check_address, print_json, warn
from gantrymq.plugin.remoting import ResponseCode
from gantrymq_access.records import EntryAction, EntryResource, PolicyType, check_name, member_named, parse_network
from gantrymq_admin.commands.lists import Columns, print_records
from gantrymq_admin.commands.options import brokers_of, named

Got = TypeVar("Got")
Ask = Callable[[str], Awaitable[Got]]

CREATED: Final = "created"
UPDATED: Final = "updated"
DELETED: Final = "deleted"
UNCHANGED: Final = "unchanged"
ABSENT: Final = "absent"
_COLUMNS: Final[Columns] = (
    *("broker", "address"),
    ("Result", lambda row: row.result if row.problem is None else f"failed: {row.problem}"),
)


@attrs.frozen
class Place:
    """A broker that a command acts on."""

    broker: str  # its name, empty if no name server knows the address
    address: str
    cluster: str  # empty if unknown
    slaves: tuple[str, ...] = ()  # their addresses, if this is the master of a cluster

    @property
    def title(self) -> str:
        """Name and address, for sentences."""
        return f"{self.broker} ({self.address})" if self.broker else self.address


@attrs.frozen
class Row:
    """The result of a change at one broker."""

    broker: str
    address: str
    result: str  # empty if it failed
    problem: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the members for documents."""
        result = "failed" if self.problem is not None else self.result
        return {"broker": self.broker, "address": self.address, "result": result, "problem": self.problem}


async def places_of(admin: Admin, cluster: str | None, broker: str | None) -> tuple[Place, ...]:
    """Return the masters of a cluster, or the one broker that is given, also without a name server.

    Raises like `brokers_of`.
    """
    addresses = await brokers_of(admin, cluster, broker)
    try:
        registered = (await admin.clusters()).brokers
    except GantryError:
        if not broker:
            raise
        registered = ()
    known = {at: each for each in registered for at in each.addresses.values()}
    found = []
    for address in addresses:
        each = known.get(address)
        slaves = () if each is None or broker else tuple(at for id_, at in sorted(each.addresses.items()) if id_ != 0)
        found.append(Place(each.name if each else "", address, each.cluster if each else "", slaves))
    return tuple(found)


async def places_to_copy_to(admin: Admin, cluster: str | None, broker: str | None, origin: str) -> list[Place]:
    """Return the brokers of `places_of` without *origin*. Raises ClientError if there is none."""
    places = [each for each in await places_of(admin, cluster, broker) if each.address != origin]
    if not places:
        raise ClientError(f"there is no other broker than {origin} to copy to")
    return places


async def at_each(
    places: Sequence[Place], change: Callable[[str], Awaitable[str]], *, slaves: bool = True
) -> list[Row]:
    """Make a change at each broker, and return a row for each; a failure does not stop the others.

    Slaves of ours receive users and policies from their master. RocketMQ's do not: after its master, each slave is
    asked, too, and changed if it does not have the change yet. Such a row is left out if there was nothing to do.

    Args:
        places: the brokers.
        change: makes the change at an address unless it is there already, and returns a word for the result.
        slaves: whether slaves are changed, too.
    """
    rows = []
    for place in places:
        row = await _changed(place.broker, place.address, change)
        rows.append(row)
        if row.problem is None and slaves:
            of_slaves = [await _changed(place.broker, at, change) for at in place.slaves]
            rows += [each for each in of_slaves if each.problem is not None or each.result not in (UNCHANGED, ABSENT)]
    return rows


async def _changed(broker: str, address: str, change: Callable[[str], Awaitable[str]]) -> Row:
    try:
        return Row(broker, address, await change(address))
    except GantryError as problem:
        return Row(broker, address, "", explained(problem, address))


def explained(problem: GantryError, address: str) -> str:
    """Return the sentence of an error, with advice if a broker has no access control."""
    if isinstance(problem, BrokerRefused) and problem.response_code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
        return (
            f"{address} manages no users: it has no access control (authorizer=acl with gantrymq-access beside it), or "
            "is older than RocketMQ 5.3"
        )
    return str(problem)


def show_rows(rows: Sequence[Row], subject: Mapping[str, Any], output: str) -> None:
    """Print the rows of a change; *subject* are further members of the document.

    Raises:
        ClientError: the change failed at a broker.
    """
    if output == "json":
        print_json({**subject, "brokers": [each.to_json() for each in rows]})
    else:
        print_records(rows, _COLUMNS)
    failed = [each for each in rows if each.problem is not None]
    if not failed:
        return
    if len(rows) == 1:
        raise ClientError(failed[0].problem or "")
    raise ClientError(
        f"{len(failed)} of {len(rows)} brokers failed: {', '.join(each.address for each in failed)}; see above. Run "
        "the command again for these: it leaves the others as they are"
    )


@attrs.frozen
class Answers:
    """What brokers have, by place, and the places that did not answer."""

    found: dict[Place, Any]
    failed: dict[Place, str]


async def ask_each(places: Sequence[Place], ask: Ask[Any]) -> Answers:
    """Ask each broker, and warn of those that do not answer.

    Raises:
        GantryError: none answers.
    """
    found, failed, last = dict[Place, Any](), dict[Place, str](), None
    for place in places:
        try:
            found[place] = await ask(place.address)
        except GantryError as problem:
            last, failed[place] = problem, explained(problem, place.address)
    if last is not None and not found:
        raise ClientError(next(iter(failed.values()))) from last
    for place, sentence in failed.items():
        warn(f"{place.title}: {sentence}")
    return Answers(found, failed)


def brokers_text(places: Iterable[Place], every: Sequence[Place]) -> str:
    """Return the names of brokers for a table, or ``all``."""
    some = list(places)
    if len(some) == len(every) > 1:
        return f"all {len(every)}"
    return ", ".join(each.broker or each.address for each in some)


def check_equal(
    differences: Sequence[Mapping[str, Any]], failed: Mapping[Place, str], what: str, advice: str, output: str
) -> None:
    """Print a row for each difference between brokers.

    Args:
        differences: rows for people; in JSON they are part of the document.
        failed: brokers that did not answer, with their sentences.
        what: is compared.
        advice: makes the brokers equal.
        output: "text" or "json".

    Raises:
        ClientError: there is a difference, or a broker that did not answer.
    """
    if differences:
        if output == "text":
            print_records(differences, ("broker", "address", "what", "difference"))
        raise ClientError(f"differences between the brokers: {len(differences)}; {advice}")
    if failed:
        raise ClientError(f"brokers that did not answer: {', '.join(each.title for each in failed)}")
    if output == "text":
        click.echo(f"the brokers have the same {what}")


# --- names and values -------------------------------------------------------------------------------------------------


def user_named(parameter: str = "name") -> Callable[[Any], Any]:
    """Add USER and ``-u``."""
    return named(parameter, check_name, "-u", "--user", metavar="USER", help="The user.")


def resource_of(_context: click.Context, _option: click.Parameter, text: str | None) -> EntryResource | None:
    """Return the value of an option for one resource."""
    return None if text is None else _resource(text)


def resources_of(_context: click.Context, _option: click.Parameter, texts: Sequence[str]) -> list[EntryResource]:
    """Return the values of an option for resources, also several separated by commas."""
    return [_resource(each) for text in texts for each in text.split(",")]


def _resource(text: str) -> EntryResource:
    try:
        return EntryResource.parse(text.strip())
    except GantryError:
        raise click.BadParameter(
            f"{text!r} is not a resource; expected Topic:NAME, Group:NAME, Cluster:NAME, a prefix such as "
            "Topic:orders*, all of a type such as Group:*, or *"
        ) from None


def actions_of(_context: click.Context, _option: click.Parameter, texts: Sequence[str]) -> tuple[EntryAction, ...]:
    """Return the values of an option for actions, also several separated by commas."""
    found: list[EntryAction] = []
    for text in (each.strip() for value in texts for each in value.split(",")):
        action = member_named(EntryAction, text)
        if action is None or action is EntryAction.ANY:
            known = ", ".join(each.value for each in EntryAction if each is not EntryAction.ANY)
            raise click.BadParameter(f"{text!r} is not an action; expected {known}")
        found.append(action)
    return tuple(dict.fromkeys(found))


def sources_of(_context: click.Context, _option: click.Parameter, texts: Sequence[str]) -> tuple[str, ...]:
    """Return the values of an option for addresses and networks, also several separated by commas."""
    found = [each.strip() for text in texts for each in text.split(",")]
    for each in found:
        try:
            parse_network(each)
        except GantryError:
            raise click.BadParameter(
                f"{each!r} is neither an address nor a network such as 10.0.0.0/8 or 2001:db8::/32"
            ) from None
    return tuple(dict.fromkeys(found))


def copy_options(what: str) -> Callable[[Any], Any]:
    """Add names of users, and ``--from``; *what*: what is copied, such as users."""
    origin = click.option(
        "--from",
        "origin",
        required=True,
        metavar="ADDR",
        callback=check_address,
        help=f"The broker whose {what} are copied, host:port.",
    )
    names = click.argument("names", nargs=-1, metavar="[USER]...")
    return lambda command: names(origin(command))


def resources_option(*, required: bool) -> Callable[[Any], Any]:
    """Add ``-r``, which may be repeated."""
    return click.option(
        "-r",
        "--resource",
        "resources",
        multiple=True,
        required=required,
        callback=resources_of,
        metavar="RESOURCE",
        help="Topic:NAME, Group:NAME, Cluster:NAME, a prefix such as Topic:orders*, Group:* or *. May be repeated.",
    )


def actions_option(*, required: bool) -> Callable[[Any], Any]:
    """Add ``-a``."""
    return click.option(
        "-a",
        "--actions",
        multiple=True,
        required=required,
        callback=actions_of,
        metavar="ACTIONS",
        help="Pub, Sub, Create, Update, Delete, Get, List or All, separated by commas.",
    )


policy_option = click.option(
    "--policy",
    "policy",
    type=click.Choice([each.value for each in PolicyType], case_sensitive=False),
    default=PolicyType.CUSTOM.value,
    show_default=True,
    callback=lambda _context, _option, name: PolicyType(name),
    help="Entries of the default policy count only if none of the custom policy applies.",
)
sources_option = click.option(
    "-i",
    "--source",
    "sources",
    multiple=True,
    callback=sources_of,
    metavar="ADDR",
    help="Address or network of clients, such as 10.0.0.0/8; all addresses without it. May be repeated.",
)
