"""``gantrymq acl``: the policies of users at a cluster with access control, of ours and of RocketMQ from 5.3."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from shlex import quote
from typing import Any, Final

import click

from gantrymq.client import Admin
from gantrymq.errors import ClientError, InvalidParameter
from gantrymq.plugin.commands import CommandGroup, print_json, warn
from gantrymq_access.administration import acl_of, acls_of, delete_policies, put_policies, user_of
from gantrymq_access.commands.acl_convert import convert
from gantrymq_access.commands.acl_grant import grant
from gantrymq_access.commands.options import (
    ABSENT,
    CREATED,
    DELETED,
    UNCHANGED,
    UPDATED,
    Place,
    actions_option,
    ask_each,
    at_each,
    brokers_text,
    check_equal,
    copy_options,
    places_of,
    places_to_copy_to,
    policy_option,
    resource_of,
    resources_option,
    show_rows,
    sources_option,
    user_named,
)
from gantrymq_access.commands.secrets import Command
from gantrymq_access.commands.user import check_option
from gantrymq_access.records import Acl, Entry, EntryAction, EntryResource, Policy, PolicyType
from gantrymq_admin.commands.lists import Columns, print_records
from gantrymq_admin.commands.options import admin_command, where_options

_COLUMNS: Final[Columns] = ("user", "policy", "resource", "actions", "sources", "decision", "brokers")

_decision_option = click.option(
    "-d",
    "--decision",
    type=click.Choice(["Allow", "Deny"], case_sensitive=False),
    default="Allow",
    show_default=True,
    help="Deny refuses what a less specific entry allows.",
)


def _entry_options(command: Command) -> Command:
    """Add the options that describe entries, in the order of the help."""
    options = resources_option(required=True), actions_option(required=True), _decision_option, sources_option
    for each in (policy_option, *reversed(options)):
        command = each(command)
    return command


@click.group(cls=CommandGroup)
def acl() -> None:
    """Grant rights to users of a cluster with access control, and show and delete them.

    Commands act on the masters of the cluster, or on one broker with -b. An entry is identified by its policy and
    resource. The strongest entry that applies decides: a literal name before a prefix, the longer of two prefixes
    first, then Topic:*, then *.
    """


acl.add_command(convert)
acl.add_command(grant)


@acl.command()
@user_named()
@_entry_options
@where_options
@admin_command
async def create(admin: Admin, name: str, cluster: str | None, broker: str | None, output: str, **given: Any) -> None:
    """Add entries to the policies of a user. An entry that exists with other values is not replaced: see acl update."""
    await _put(admin, name, cluster, broker, output, replace=False, **given)


@acl.command()
@user_named()
@_entry_options
@where_options
@admin_command
async def update(admin: Admin, name: str, cluster: str | None, broker: str | None, output: str, **given: Any) -> None:
    """Replace the actions, decision and addresses of entries that a user has."""
    await _put(admin, name, cluster, broker, output, replace=True, **given)


async def _put(
    admin: Admin,
    name: str,
    cluster: str | None,
    broker: str | None,
    output: str,
    *,
    replace: bool,
    resources: Sequence[EntryResource],
    actions: tuple[EntryAction, ...],
    decision: str,
    sources: tuple[str, ...],
    policy: PolicyType,
) -> None:
    entries = tuple(Entry(each, actions, decision == "Allow", sources) for each in resources)
    places = await places_of(admin, cluster, broker)

    async def at(address: str) -> str:
        acl = await acl_of(admin, address, name) or Acl(name)
        known = {each.resource: each for each in acl.entries(policy)}
        for each in entries:
            old = known.get(each.resource)
            if replace and old is None:
                raise InvalidParameter(
                    f"{name} has no entry for {each.resource}; add it: gantrymq acl create {quote(name)} ..."
                )
            if not replace and old is not None and old != each:
                raise InvalidParameter(f"there is an entry: {old}; replace it: gantrymq acl update {quote(name)} ...")
        if all(known.get(each.resource) == each for each in entries):
            return UNCHANGED
        await put_policies(admin, address, name, [Policy(policy, entries)])
        return UPDATED if replace else CREATED

    rows = await at_each(places, at)
    documents = [_entry_document(name, policy, each) for each in entries]
    show_rows(rows, {"user": name, "entries": documents}, output)


@acl.command()
@user_named()
@click.option("-r", "--resource", callback=resource_of, metavar="RESOURCE", help="Delete the entry with this resource.")
@click.option("--all", "everything", is_flag=True, help="Delete all entries of both policies.")
@policy_option
@where_options
@admin_command
async def delete(
    admin: Admin,
    name: str,
    resource: EntryResource | None,
    everything: bool,
    policy: PolicyType,
    cluster: str | None,
    broker: str | None,
    output: str,
) -> None:
    """Delete an entry of a user, or all."""
    if (resource is None) != everything:
        raise click.UsageError("give either --resource or --all")
    places = await places_of(admin, cluster, broker)

    async def at(address: str) -> str:
        acl = await acl_of(admin, address, name)
        entries = () if acl is None else acl.entries(policy)
        if acl is None or (resource is not None and all(each.resource != resource for each in entries)):
            return ABSENT
        await delete_policies(admin, address, name, resource, policy)
        return DELETED

    rows = await at_each(places, at)
    if all(each.result == ABSENT for each in rows):
        what = "no entries" if resource is None else f"no {policy.value.lower()} entry for {resource}"
        raise ClientError(f"{name} has {what}; its entries are shown by: gantrymq acl get {quote(name)}")
    show_rows(rows, {"user": name, "resource": None if resource is None else str(resource)}, output)


@acl.command("list")
@click.option("--contains", "user_text", metavar="TEXT", default="", help="Only users with TEXT in their name.")
@click.option("-r", "--resource", "resource_text", metavar="TEXT", default="", help="Only resources with TEXT in them.")
@check_option
@where_options
@admin_command
async def list_acls(
    admin: Admin,
    user_text: str,
    resource_text: str,
    check: bool,
    cluster: str | None,
    broker: str | None,
    output: str,
) -> None:
    """List the entries of all users, and the brokers that have them."""
    places = await places_of(admin, cluster, broker)
    answers = await ask_each(places, lambda address: acls_of(admin, address, user_text, resource_text))
    _show(answers.found, answers.failed, check, output)


@acl.command()
@user_named()
@check_option
@where_options
@admin_command
async def get(admin: Admin, name: str, check: bool, cluster: str | None, broker: str | None, output: str) -> None:
    """Show the entries of one user, and the brokers that have them."""
    places = await places_of(admin, cluster, broker)
    answers = await ask_each(places, lambda address: acl_of(admin, address, name))
    found = {place: () if each is None else (each,) for place, each in answers.found.items()}
    if not any(found.values()):
        user = await user_of(admin, next(iter(found)).address, name)
        if user is None:
            raise ClientError(f"there is no user {name}; 'gantrymq user list' shows the users")
        why = ": a Super user needs none" if user.is_super else "; 'gantrymq acl grant' gives it those of a task"
        raise ClientError(f"user {name} has no entries{why}")
    _show(found, answers.failed, check, output)


@acl.command()
@copy_options("entries")
@where_options
@admin_command
async def copy(
    admin: Admin, names: Sequence[str], origin: str, cluster: str | None, broker: str | None, output: str
) -> None:
    """Copy the entries of users from one broker to the masters of the cluster, or to one broker; all without names.

    The users must exist there (gantrymq user copy). Entries that only the other brokers have stay.
    """
    found = {each.user: each for each in await acls_of(admin, origin)}
    missing = [each for each in names if each not in found]
    if missing:
        raise ClientError(f"{missing[0]} has no entries at {origin}; 'gantrymq acl list -b {origin}' shows all")
    chosen = [found[each] for each in names or found]
    places = await places_to_copy_to(admin, cluster, broker, origin)

    async def at(address: str) -> str:
        changed = 0
        for wanted in chosen:
            if await user_of(admin, address, wanted.user) is None:
                raise InvalidParameter(
                    f"it has no user {wanted.user}; copy it first: "
                    f"gantrymq user copy {quote(wanted.user)} --from {origin}"
                )
            known = await acl_of(admin, address, wanted.user) or Acl(wanted.user)
            if known.merged(wanted.policies) != known:
                await put_policies(admin, address, wanted.user, wanted.policies)
                changed += 1
        return f"{changed} {UPDATED}" if changed else UNCHANGED

    rows = await at_each(places, at)
    show_rows(rows, {"from": origin, "users": [each.user for each in chosen]}, output)


# --- lists ------------------------------------------------------------------------------------------------------------


def _show(found: Mapping[Place, Sequence[Acl]], failed: Mapping[Place, str], check: bool, output: str) -> None:
    differences = _differences(found)
    if output == "json":
        answered = [
            {
                "broker": place.broker,
                "address": place.address,
                "entries": [_entry_document(*each) for acl in acls for each in _entries(acl)],
                "problem": None,
            }
            for place, acls in found.items()
        ]
        silent = [
            {"broker": place.broker, "address": place.address, "entries": None, "problem": problem}
            for place, problem in failed.items()
        ]
        print_json({"brokers": answered + silent, "differences": differences})
    if check:
        check_equal(differences, failed, "entries", "gantrymq acl copy USER --from ADDR copies entries", output)
    if check or output == "json":
        return
    rows: dict[tuple[str, PolicyType, Entry], list[Place]] = {}
    for place, acls in found.items():
        for each in (each for acl in acls for each in _entries(acl)):
            rows.setdefault(each, []).append(place)
    print_records(
        [
            {
                **_entry_document(*each),
                "actions": ",".join(action.value for action in each[2].actions),
                "sources": ",".join(each[2].sources) or None,
                "brokers": brokers_text(places, list(found)),
            }
            for each, places in sorted(rows.items(), key=lambda row: (row[0][0], row[0][1].value))
        ],
        _COLUMNS,
    )
    if differences:
        warn("the brokers differ: see --check")


def _entries(acl: Acl) -> list[tuple[str, PolicyType, Entry]]:
    return [(acl.user, policy.type, entry) for policy in acl.policies for entry in policy.entries]


def _entry_document(user: str, policy: PolicyType, entry: Entry) -> dict[str, Any]:
    return {
        "user": user,
        "policy": policy.value,
        "resource": str(entry.resource),
        "actions": [each.value for each in entry.actions],
        "sources": list(entry.sources),
        "decision": "Allow" if entry.is_allowed else "Deny",
    }


def _differences(found: Mapping[Place, Sequence[Acl]]) -> list[dict[str, str]]:
    """Return what brokers have differently from the first one that has an entry."""
    by_place = {
        place: {(user, kind, entry.resource): entry for acl in acls for user, kind, entry in _entries(acl)}
        for place, acls in found.items()
    }
    reference: dict[tuple[str, PolicyType, EntryResource], tuple[Place, Entry]] = {}
    for place, entries in by_place.items():
        for key, entry in entries.items():
            reference.setdefault(key, (place, entry))
    differences = []
    for key, (first, wanted) in reference.items():
        for place, entries in by_place.items():
            known = entries.get(key)
            if known is None or (known != wanted and not _equal(known, wanted)):
                sentence = f"missing; {first.title} has it" if known is None else f"{known}; at {first.title}: {wanted}"
                user, kind, resource = key
                where = {"broker": place.broker, "address": place.address}
                what = f"User:{user} {resource}" + ("" if kind is PolicyType.CUSTOM else f" ({kind.value})")
                differences.append({**where, "what": what, "difference": sentence})
    return differences


def _equal(one: Entry, other: Entry) -> bool:
    """Return whether two entries mean the same: actions and addresses have no order."""
    return (set(one.actions), one.is_allowed, set(one.sources)) == (
        set(other.actions),
        other.is_allowed,
        set(other.sources),
    )
