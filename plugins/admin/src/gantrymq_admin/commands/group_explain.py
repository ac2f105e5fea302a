"""``gantrymq group explain``: the reader of each queue of a group, and reasons for missing messages; needs
gantrymq-diagnosis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

import click

from gantrymq.client import Admin
from gantrymq.client.admin import RequestNotServed
from gantrymq.commands.output import print_json, print_table
from gantrymq.errors import BrokerRefused, GroupNotExist, RequestRefused, install_command
from gantrymq.remoting.codes import RequestCode, ResponseCode
from gantrymq.remoting.headers.base import Header, header_of
from gantrymq_admin.commands.options import admin_command, brokers_of, group_named, where_options

EXPLAIN_GROUP: Final = cast(RequestCode, 65021)


@header_of(EXPLAIN_GROUP)
class ExplainGroupRequest(Header):
    """Explain a group, on one topic or on all."""

    consumer_group: str
    topic: str | None = None


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
    found = await _explain(admin, group, topic, await brokers_of(admin, cluster, broker))
    if output == "json":
        print_json({"group": group, "brokers": found})
        return
    print_table(
        ["Topic", "Broker", "Queue", "Owner", "Last pull", "Committed", "Held", "Hits", "Behind", "Late", "Diagnosis"],
        [_row(each["broker"], queue) for each in found for queue in each["queues"]],
    )
    for each in found:
        for said in each["diagnosis"]:
            click.echo(f"{each['broker']}: {said['sentence']}")
        members = len(each["members"])
        again = each["retry"]["waiting"] + each["retry"]["behind"]
        click.echo(
            f"{each['broker']}: {members} {'member' if members == 1 else 'members'}, {each['behind']} behind, "
            f"{again} to be tried again, {each['dead_letters']} dead letters"
        )


def _row(broker: str, queue: dict[str, Any]) -> tuple[object, ...]:
    rate = queue["hit_rate"]
    return (
        queue["topic"],
        broker,
        queue["queue"],
        queue["owner"] or "-",
        _seconds(queue["last_pull_ms_ago"], " ago"),
        "-" if queue["committed"] is None else queue["committed"],
        len(queue["held"]),
        "-" if rate is None else f"{rate:.0%}",
        queue["behind"],
        _seconds(queue["lag_ms"]),
        queue["sentence"],
    )


def _seconds(ms: int | None, behind: str = "") -> str:
    return "-" if ms is None else f"{ms / 1000:.0f} s{behind}"


async def _explain(admin: Admin, group: str, topic: str | None, addresses: Sequence[str]) -> list[dict[str, Any]]:
    """Query each broker that knows the group."""
    found, missing = list[dict[str, Any]](), ""
    header = ExplainGroupRequest(consumer_group=group, topic=topic)
    for address in addresses:
        try:
            said = await admin.request_json(address, EXPLAIN_GROUP, header, what=f"facts of group {group}")
        except RequestNotServed as problem:
            raise RequestRefused(
                3,
                f"the broker at {address} explains no groups: it is RocketMQ's, or lacks a plugin; "
                f"{install_command('gantrymq-diagnosis')} beside it, or see: gantrymq group progress",
            ) from problem
        except BrokerRefused as problem:
            if problem.response_code != ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST:
                raise
            missing = f"there is no group {group}; 'gantrymq group list' lists the groups"
            continue
        found.append({"address": address, **said})
    if not found:
        raise GroupNotExist(missing or f"no broker of the cluster is there to explain group {group}")
    return found
