"""``gantrymq acl grant``: the entries that a client needs for a task."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote
from typing import Any, Final

import click

from gantrymq.client import Admin
from gantrymq.errors import ClientError, GantryError, InvalidParameter
from gantrymq.plugin.commands import print_json, say, warn
from gantrymq_access.administration import acl_of, put_policies, user_of
from gantrymq_access.commands.options import (
    UNCHANGED,
    UPDATED,
    Place,
    actions_option,
    at_each,
    explained,
    places_of,
    resources_option,
    show_rows,
    sources_option,
    user_named,
)
from gantrymq_access.granting import Need, Task, granted, needs_of
from gantrymq_access.records import Acl, Entry, EntryAction, EntryResource, Policy, PolicyType
from gantrymq_admin.commands.lists import Columns, print_records
from gantrymq_admin.commands.options import admin_command, where_options

_COLUMNS: Final[Columns] = ("resource", "actions", "sources", "reason")


@click.command()
@user_named()
@click.option("--produce", multiple=True, metavar="TOPIC", help="Send to TOPIC, or to topics of a prefix: orders*.")
@click.option("--consume", multiple=True, metavar="TOPIC", help="Receive from TOPIC, in the groups of --group.")
@click.option("--group", "groups", multiple=True, metavar="GROUP", help="The consumer group, or a prefix: billing*.")
@click.option("--reply", is_flag=True, help="The consumer answers requests of other clients.")
@click.option("--monitor", is_flag=True, help="Read settings and figures of the cluster, its topics and groups.")
@click.option("--operate", is_flag=True, help="Also change settings, topics, groups and normal users.")
@resources_option(required=False)
@actions_option(required=False)
@click.option("--trace/--no-trace", default=True, show_default=True, help="Whether clients may send message traces.")
@sources_option
@click.option("--dry-run", is_flag=True, help="Show the entries only.")
@where_options
@admin_command
async def grant(
    admin: Admin,
    name: str,
    produce: Sequence[str],
    consume: Sequence[str],
    groups: Sequence[str],
    reply: bool,
    monitor: bool,
    operate: bool,
    resources: Sequence[EntryResource],
    actions: Sequence[EntryAction],
    trace: bool,
    sources: tuple[str, ...],
    dry_run: bool,
    cluster: str | None,
    broker: str | None,
    output: str,
) -> None:
    """Show, then write, every entry that a user needs for a task, or one right with -r and -a.

    Actions are added to the entries that the user has. An entry that denies, or that is bound to other addresses, is
    not replaced: the command stops with it. Nothing is written if one broker cannot take all of the entries.
    """
    task = Task(produce, consume, groups, reply, trace, monitor, operate, resources, actions)
    places = await places_of(admin, cluster, broker)
    of_cluster = {each.cluster for each in places} - {""}
    needs = needs_of(task, next(iter(of_cluster)) if len(of_cluster) == 1 else "*")
    plans = {place: await _plan(admin, place, name, needs, sources) for place in places}
    if output == "text":
        print_records([_document(each, sources) for each in needs], _COLUMNS)
        if monitor or operate:
            say("RocketMQ's brokers also show the secrets of users to a user with Get on the cluster; ours do not.")
    rows = [] if dry_run else await at_each(places, lambda address: _write(admin, address, name, needs, sources))
    documents = [{**_document(each, sources), "actions": [action.value for action in each.actions]} for each in needs]
    if dry_run:
        if output == "json":
            print_json({"user": name, "entries": documents, "dry_run": True, "brokers": []})
            return
        for place, missing in plans.items():
            click.echo(f"{place.title}: {len(missing)} entries to write")
        return
    show_rows(rows, {"user": name, "entries": documents, "dry_run": False}, output)


async def _plan(
    admin: Admin, place: Place, name: str, needs: Sequence[Need], sources: tuple[str, ...]
) -> tuple[Entry, ...]:
    """Return the entries to write at one broker.

    Raises:
        ClientError: it does not have the user, has an entry in the way, or does not answer.
    """
    try:
        user = await user_of(admin, place.address, name)
        if user is None:
            raise InvalidParameter(f"it has no user {name}; create it: gantrymq user create {quote(name)}")
        if user.is_super:
            warn(f"{name} is a Super user at {place.title}: it may do everything without entries")
        return await _missing(admin, place.address, name, needs, sources)
    except GantryError as problem:
        raise ClientError(f"{place.title}: {explained(problem, place.address)}; nothing was changed") from problem


async def _write(admin: Admin, address: str, name: str, needs: Sequence[Need], sources: tuple[str, ...]) -> str:
    entries = await _missing(admin, address, name, needs, sources)
    if not entries:
        return UNCHANGED
    await put_policies(admin, address, name, [Policy(PolicyType.CUSTOM, entries)])
    return UPDATED


async def _missing(
    admin: Admin, address: str, name: str, needs: Sequence[Need], sources: tuple[str, ...]
) -> tuple[Entry, ...]:
    existing = (await acl_of(admin, address, name) or Acl(name)).entries(PolicyType.CUSTOM)
    found = []
    for need in needs:
        try:
            found.append(granted(existing, need, sources))
        except InvalidParameter as problem:
            remedy = f"gantrymq acl delete {quote(name)} -r {quote(str(need.resource))}"
            raise InvalidParameter(f"{problem}; delete it first: {remedy}") from None
    return tuple(each for each in found if each is not None)


def _document(need: Need, sources: Sequence[str]) -> dict[str, Any]:
    return {
        "resource": str(need.resource),
        "actions": ",".join(each.value for each in need.actions),
        "sources": ",".join(sources) or None,
        "reason": need.reason,
    }
