"""``gantrymq access``: what a user may do, and why."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote
from typing import Any, Final

import click

from gantrymq.client import Admin
from gantrymq.errors import ClientError, GantryError
from gantrymq.plugin.commands import CommandGroup, print_json, warn
from gantrymq_access.administration import acl_of, keeps_old_secrets, user_of
from gantrymq_access.commands.access_check import check
from gantrymq_access.commands.access_report import report
from gantrymq_access.commands.options import Place, ask_each, places_of, user_named
from gantrymq_access.explaining import Explanation, Question, asked_resource, asked_source, explain_user
from gantrymq_access.records import Acl, EntryAction, EntryResource, PolicyType, member_named
from gantrymq_admin.commands.lists import Columns, print_records
from gantrymq_admin.commands.options import admin_command, where_options

_COLUMNS: Final[Columns] = (
    *("broker", "address"),
    ("Verdict", lambda row: "allowed" if row["allowed"] else "refused"),
    ("Reason", "sentence"),
)


@click.group(cls=CommandGroup)
def access() -> None:
    """Explain what users may do at a cluster with access control, and what is open without an account."""


access.add_command(check)
access.add_command(report)


def _actions(_context: click.Context, _argument: click.Parameter, text: str) -> tuple[EntryAction, ...]:
    found = [member_named(EntryAction, each.strip()) for each in text.split(",")]
    asked = tuple(each for each in found if each not in (None, EntryAction.ANY, EntryAction.ALL))
    if len(asked) != len(found):
        raise click.BadParameter(f"{text!r} is not an action; expected Pub, Sub, Create, Update, Delete or Get")
    return asked


def _resource(_context: click.Context, _argument: click.Parameter, text: str) -> EntryResource:
    try:
        return asked_resource(text)
    except GantryError as problem:
        raise click.BadParameter(str(problem)) from problem


def _source(_context: click.Context, _option: click.Parameter, text: str | None) -> str:
    try:
        return "" if text is None else asked_source(text)
    except GantryError as problem:
        raise click.BadParameter(str(problem)) from problem


@access.command()
@user_named()
@click.argument("actions", callback=_actions, metavar="ACTION")
@click.argument("resource", callback=_resource, metavar="RESOURCE")
@click.option("--from", "source", metavar="ADDR", callback=_source, help="Address of the client.")
@where_options
@admin_command
async def explain(
    admin: Admin,
    name: str,
    actions: tuple[EntryAction, ...],
    resource: EntryResource,
    source: str,
    cluster: str | None,
    broker: str | None,
    output: str,
) -> None:
    """Show whether USER may perform ACTION on RESOURCE, such as alice Pub Topic:Orders, and the entry that decides.

    Several actions separated by commas stand for any of them, as in requests that accept either. Exits with 1 if a
    broker refuses. Without --from, entries for certain addresses do not apply.
    """
    question = Question(actions, resource, source)
    places = await places_of(admin, cluster, broker)

    async def ask(address: str) -> Explanation:
        return explain_user(
            await user_of(admin, address, name), await acl_of(admin, address, name) or Acl(name), question
        )

    found: dict[Place, Explanation] = (await ask_each(places, ask)).found
    rows = [_document(place, each, question) for place, each in found.items()]
    if output == "json":
        print_json(
            {"user": name, "actions": [each.value for each in actions], "resource": str(resource), "brokers": rows}
        )
    else:
        print_records(rows, _COLUMNS)
    for place, each in found.items():
        if each.others and not await keeps_old_secrets(admin, place.address):
            warn(
                f"{place.title} is RocketMQ's: up to 5.3.3 it may choose another of the {len(each.others) + 1} entries "
                f"that apply ({'; '.join(map(str, each.others))}); keep one of them"
            )
    refused = [each for each in found.values() if not each.allowed]
    if refused:
        raise ClientError(
            f"{name} is refused at {len(refused)} of {len(found)} brokers{_help(name, refused, question)}"
        )


def _help(name: str, refused: Sequence[Explanation], question: Question) -> str:
    """Return the command that allows it, or nothing if there is none for all brokers."""
    for each in refused:
        if each.user is None:
            return f"; create it with: gantrymq user create {quote(name)}"
        if not each.user.is_enabled:
            return f"; enable it with: gantrymq user update {quote(name)} --enable"
        if (entry := each.verdict.entry) is not None:
            policy = " --policy default" if each.verdict.policy is PolicyType.DEFAULT else ""
            delete = f"gantrymq acl delete {quote(name)} -r {quote(str(entry.resource))}{policy}"
            return f"; delete the entry that denies with: {delete}"
    resource, action = quote(str(question.resource)), question.actions[0].value
    return f"; allow it with: gantrymq acl grant {quote(name)} -r {resource} -a {action}"


def _document(place: Place, explanation: Explanation, question: Question) -> dict[str, Any]:
    entry, policy = explanation.verdict.entry, explanation.verdict.policy
    return {
        "broker": place.broker,
        "address": place.address,
        "allowed": explanation.allowed,
        "entry": None if entry is None else entry.to_json(),
        "policy": None if policy is None else policy.value,
        "others": [each.to_json() for each in explanation.others],
        "sentence": explanation.sentence(question),
    }
