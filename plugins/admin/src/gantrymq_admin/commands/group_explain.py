"""``gantrymq group explain``: the reader of each queue of a group, and reasons for missing messages; needs
gantrymq-diagnosis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs
import click

from gantrymq.client import Admin
from gantrymq.errors import BrokerRefused, GroupNotExist
from gantrymq.plugin.commands import print_json
from gantrymq.plugin.remoting import ResponseCode
from gantrymq_admin.commands.options import (
    admin_command,
    group_named,
    readable_brokers,
    served_by,
    where_options,
)
from gantrymq_admin.commands.records import Columns, print_records, seconds
from gantrymq_admin.explanations import GroupExplanation, explain_group, without_topics_of_others

COLUMNS: Final[Columns] = (
    *("topic", "broker", "queue", ("Owner", lambda queue: queue["owner"] or None)),
    *(("Last pull", seconds("last_pull_ms_ago", " ago")), "committed", ("Held", lambda queue: len(queue["held"]))),
    ("Hits", lambda queue: None if queue["hit_rate"] is None else f"{queue['hit_rate']:.0%}"),
    *("behind", ("Late", seconds("lag_ms")), ("Diagnosis", "sentence")),
)


@click.command()
@group_named("group")
@click.option("-t", "--topic", metavar="NAME", help="This topic only.")
@where_options
@admin_command
async def explain(
    admin: Admin, group: str, topic: str | None, cluster: str | None, broker: str | None, output: str
) -> None:
    """Show for each queue of GROUP its reader, its progress, and why no messages arrive if there are none.

    OWNER is the client of the held pull, else of the lock, else of the last pull. HITS is the fraction of the evaluated
    messages that the subscription matched, LATE the age of the oldest message not yet consumed. Conflicts between
    members, and messages waiting for a retry, are listed below.
    """
    asked = await readable_brokers(admin, cluster, broker)
    found = await _explain(admin, group, topic, asked.addresses)
    if output == "json":
        brokers = [{"address": address, **attrs.asdict(each)} for address, each in found.items()]
        print_json({"group": group, "brokers": brokers, **asked.to_json()})
        return
    print_records(
        [{**attrs.asdict(queue), "broker": each.broker} for each in found.values() for queue in each.queues], COLUMNS
    )
    for each in found.values():
        for said in each.diagnosis:
            click.echo(f"{each.broker}: {said.sentence}")
        members = len(each.members)
        click.echo(
            f"{each.broker}: {members} {'member' if members == 1 else 'members'}, {_count(each.behind)} behind, "
            f"{each.retry.waiting + each.retry.behind} to be tried again, {each.dead_letters} dead letters"
        )


def _count(behind: int | None) -> str:
    return "an unknown number" if behind is None else str(behind)


async def _explain(
    admin: Admin, group: str, topic: str | None, addresses: Sequence[str]
) -> dict[str, GroupExplanation]:
    """Query each broker; return the explanations of those that know the group, by address."""
    found, missing = dict[str, GroupExplanation](), ""
    for address in addresses:
        try:
            with served_by("gantrymq-diagnosis", address, "explains no groups", "see: gantrymq group progress"):
                found[address] = await explain_group(admin, address, group, topic)
        except BrokerRefused as problem:
            if problem.response_code != ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST:
                raise
            missing = (
                f"there is no group {group}; 'gantrymq group list' lists the groups; a client whose topics do not "
                "exist connects to no broker: its log has a warning that names the topic"
            )
    if not found:
        raise GroupNotExist(missing or f"no broker of the cluster is there to explain group {group}")
    return without_topics_of_others(found)
