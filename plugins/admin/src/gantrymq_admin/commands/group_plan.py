"""``gantrymq group plan``: assignment of queues to members of a group, and its changes when members join or leave.

Queues and members come from a cluster (the topic's route, and the members known to its brokers) or from the command
line; each can be given without the other. The assignment is that of the chosen strategy, which may differ from the one
of the running consumers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from gantrymq.client import Client
from gantrymq.client.group.allocation import allocation_strategy
from gantrymq.commands.output import namesrv_option, output_option, print_json, print_table, say, warn
from gantrymq.commands.run import run
from gantrymq.errors import ConsumerNotOnline, InvalidParameter, NoRoute
from gantrymq.model.queue import MessageQueue
from gantrymq_admin.commands.options import group_named
from gantrymq_admin.group_moves import Plan, in_words, make_plan

Command = TypeVar("Command", bound=Callable[..., Any])

MAX_QUEUES_PER_BROKER = 65_535
ANY_GROUP = "group"  # stands for the group if no name is given


def names_option(flag: str, help: str) -> Callable[[Command], Command]:
    """An option that may be repeated and takes comma-separated names; the command gets a list."""

    def read(_context: click.Context, _option: click.Parameter, values: tuple[str, ...]) -> list[str]:
        return [name.strip() for value in values for name in value.split(",") if name.strip()]

    return click.option(flag, multiple=True, callback=read, metavar="ID[,ID]", help=help)


def _read_counts(_context: click.Context, _option: click.Parameter, values: tuple[str, ...]) -> list[tuple[str, int]]:
    """Parse broker names with numbers of queues, from texts such as ``broker-a:8,broker-b:4``."""
    found: dict[str, int] = {}
    for entry in (entry.strip() for value in values for entry in value.split(",") if entry.strip()):
        broker, _, count = entry.rpartition(":")
        number = int(count) if count.isascii() and count.isdigit() and len(count) < 6 else 0
        if not broker or not 1 <= number <= MAX_QUEUES_PER_BROKER or broker in found:
            raise click.BadParameter(
                f"{entry!r} should be BROKER:COUNT, with 1 to {MAX_QUEUES_PER_BROKER} queues and each broker once"
            )
        found[broker] = number
    return list(found.items())


def _read_settings(_context: click.Context, _option: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for value in values:
        key, mark, text = value.partition("=")
        if not mark or not key or key in found:
            raise click.BadParameter(f"{value!r} should be KEY=VALUE, with each key once")
        found[key] = text
    return found


@click.command()
@group_named("group", required=False)
@click.option("-t", "--topic", required=True, metavar="NAME", help="The topic.")
@click.option("--strategy", "name", default="AVG", show_default=True, metavar="NAME", help="The allocation strategy.")
@click.option(
    "--strategy-setting",
    "settings",
    multiple=True,
    callback=_read_settings,
    metavar="KEY=VALUE",
    help="A setting of the strategy, such as virtual_nodes=20.",
)
@click.option(
    "--queues",
    "counts",
    multiple=True,
    callback=_read_counts,
    metavar="BROKER:COUNT[,...]",
    help="Plan with these queues instead of those of the topic.",
)
@names_option("--members", help="Plan with these members instead of those that are online.")
@names_option("--add-member", help="Show what happens when these join.")
@names_option("--remove-member", help="Show what happens when these leave.")
@namesrv_option
@output_option
def plan(
    topic: str,
    group: str | None,
    name: str,
    settings: dict[str, str],
    counts: list[tuple[str, int]],
    members: list[str],
    add_member: list[str],
    remove_member: list[str],
    namesrv: str,
    output: str,
) -> None:
    """Show the assignment of queues, and the queues that move when members join or leave.

    With --queues and --members, which need no GROUP, no cluster is contacted. In a cluster the group must be online,
    unless --add-member names the members to come.
    """
    if group is None and not members:
        raise click.UsageError("name the group, or its members with --members")
    strategy = allocation_strategy(name, settings, warn)
    queues = [MessageQueue(topic, broker, i) for broker, count in counts for i in range(count)]
    if not queues or not members:
        queues, members = run(_look(namesrv, topic, group, queues, members))
    before = sorted(set(members))
    after = _changed(before, add_member, remove_member)
    if not before and not after:
        raise ConsumerNotOnline(
            f"no member of group {group} is online for topic {topic}; add future members with --add-member, or plan "
            f"with --members"
        )
    made = make_plan(strategy, group or ANY_GROUP, queues, before, after)
    if output == "json":
        print_json({"topic": topic, "group": group, "strategy": strategy.name, "settings": settings, **document(made)})
    else:
        _show(made)
    _warn_of_gaps(made)


def document(made: Plan) -> dict[str, Any]:
    """Return the assignment as JSON.

        {"queues": 8,
         "members": [{"member": "c1", "change": null, "before": [{"broker": "a", "queue": 0}, ...], "after": [...]}],
         "moves": [{"broker": "a", "queue": 0, "from": ["c1"], "to": ["c2"]}],
         "unread": [{"broker": ..., "queue": ...}], "shared": [...]}

    *change* is "added", "removed" or null. *from* and *to* have one member each, unless a queue has no reader or
    several.
    """
    return {
        "queues": len(made.queues),
        "members": [
            {
                "member": member,
                "change": _change(made, member),
                "before": _listed(made.before.get(member, ())),
                "after": _listed(made.after.get(member, ())),
            }
            for member in made.members
        ],
        "moves": [
            {"broker": move.queue.broker_name, "queue": move.queue.queue_id, "from": move.before, "to": move.after}
            for move in made.moves()
        ],
        "unread": _listed(made.unread()),
        "shared": _listed(made.shared()),
    }


# --- asking ---------------------------------------------------------------------------------------------------------


async def _look(
    namesrv: str, topic: str, group: str | None, queues: list[MessageQueue], members: list[str]
) -> tuple[list[MessageQueue], list[str]]:
    """Query what was not given: readable queues, and members from any broker of the topic."""
    async with Client(namesrv) as client, client.admin as admin:
        route = await admin.route(topic)
        if not queues:
            queues = list(route.readable_queues(topic))
            if not queues:
                raise NoRoute(f"topic {topic} has no queue to read; see: gantrymq topic route -t {topic}")
        if group is not None and not members:
            addresses = [broker.readable() for broker in route.brokers]
            members = [
                member for address in addresses if address is not None for member in await admin.members(address, group)
            ]
    return queues, members


def _changed(members: Sequence[str], added: Sequence[str], removed: Sequence[str]) -> list[str]:
    """Raise InvalidParameter if a joining member exists already, or a leaving one does not exist."""
    known = ", ".join(members) or "none"
    for member in added:
        if member in members:
            raise InvalidParameter(f"{member} cannot join, it is a member already; members: {known}")
    for member in removed:
        if member not in members:
            raise InvalidParameter(f"{member} cannot leave, it is not a member; members: {known}")
    return sorted({*members, *added}.difference(removed))


# --- showing --------------------------------------------------------------------------------------------------------


def _show(made: Plan) -> None:
    if made.before.keys() == made.after.keys():
        rows = [(member, len(made.after[member]), in_words(made.after[member])) for member in made.members]
        print_table(["Member", "Queues", "Reads"], rows)
        return
    print_table(
        ["Member", "", "Before", "After"],
        [
            (
                member,
                _change(made, member) or "",
                *(in_words(side.get(member, ())) for side in (made.before, made.after)),
            )
            for member in made.members
        ],
    )
    moves = made.moves()
    if moves:
        print_table(
            ["Broker", "Queue", "From", "To"],
            [(m.queue.broker_name, m.queue.queue_id, _readers(m.before), _readers(m.after)) for m in moves],
        )
    say(f"{len(moves)} of {len(made.queues)} queues move")


def _warn_of_gaps(made: Plan) -> None:
    if unread := made.unread():
        warn(f"no member reads {in_words(unread)}")
    if shared := made.shared():
        warn(f"more than one member reads {in_words(shared)}")


def _change(made: Plan, member: str) -> str | None:
    if member not in made.before:
        return "added"
    return None if member in made.after else "removed"


def _readers(members: Sequence[str]) -> str:
    return ", ".join(members) or "no member"


def _listed(queues: Sequence[MessageQueue]) -> list[dict[str, Any]]:
    return [{"broker": queue.broker_name, "queue": queue.queue_id} for queue in queues]
