"""``gantrymq group``: the consumer groups of a cluster, or of one broker with -b."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from shlex import quote
from typing import Any, Final

import attrs
import click

from gantrymq.client import Admin
from gantrymq.client.admin import RequestNotServed
from gantrymq.errors import (
    BrokerRefused,
    ConsumerNotOnline,
    GroupNotExist,
    InvalidParameter,
    NoPermission,
    QueryNotFound,
)
from gantrymq.plugin import names
from gantrymq.plugin.commands import CommandGroup, print_json, say
from gantrymq.plugin.model import GroupConfig
from gantrymq.plugin.remoting import ResponseCode
from gantrymq_admin.commands.group_dlq import dlq
from gantrymq_admin.commands.group_reset import clone, reset
from gantrymq_admin.commands.lists import Columns, by_options, list_by, print_records, same_of, seconds
from gantrymq_admin.commands.options import (
    admin_command,
    attribute_in,
    attribute_options,
    brokers_of,
    group_named,
    readable_brokers,
    served_by,
    settings_wanted,
    where_options,
)
from gantrymq_admin.explanations import GroupExplanation, explain_group, without_topics_of_others
from gantrymq_admin.progress import GroupQueue, delete_offsets, members_of, queues_of_group, totals_of
from gantrymq_admin.summaries import (
    MAX_ROWS,
    ConnectionSummaries,
    GroupOrder,
    GroupSummaries,
    summary_page,
    version_name,
)

_LIST_COLUMNS: Final[Columns] = (
    *("group", "clients", ("May consume", lambda group: "yes" if group["consume_enable"] else "no")),
    *(("Retries", "retry_max_times"), ("Brokers", lambda group: len(group["brokers"]))),
)
_CLIENT_COLUMNS: Final[Columns] = (
    *(
        "broker",
        ("Client", "client_id"),
        "address",
        ("Protocol", lambda client: client["protocol"] or None),
        "language",
    ),
    ("Version", lambda client: version_name(client["version"])),
)
_SUBSCRIPTION_COLUMNS: Final = ("topic", "expression", "type")
_PROGRESS_COLUMNS: Final[Columns] = (
    *("topic", "broker", "queue", "max_offset", "committed", "behind"),
    *(("Late", seconds("late_ms")), "pulled"),
)
COLUMNS: Final[Columns] = (
    *("topic", "broker", "queue", ("Owner", lambda queue: queue["owner"] or None)),
    *(("Last pull", seconds("last_pull_ms_ago", " ago")), "committed", ("Held", lambda queue: len(queue["held"]))),
    ("Hits", lambda queue: None if queue["hit_rate"] is None else f"{queue['hit_rate']:.0%}"),
    *("behind", ("Late", seconds("lag_ms")), ("Diagnosis", "sentence")),
)


@click.command("list")
@click.option("--all", "everything", is_flag=True, help="The brokers' own groups as well.")
@by_options(GroupOrder, "groups")
@where_options
@admin_command
async def list_groups(
    admin: Admin,
    everything: bool,
    order: GroupOrder | None,
    most: int,
    contains: str,
    cluster: str | None,
    broker: str | None,
    output: str,
) -> None:
    """List the groups of the brokers, with the number of online clients.

    With --by, brokers with gantrymq-diagnosis sort and filter their groups, as of some seconds ago; LATE is the age of
    the oldest message not consumed.
    """
    addresses = (await readable_brokers(admin, cluster, broker)).addresses
    if order is not None:
        await list_by(admin, addresses, GroupSummaries, order, contains, most, everything, output)
        return
    found = await _list(admin, addresses, everything)
    if output == "json":
        print_json({"groups": found})
        return
    print_records(found, _LIST_COLUMNS)
    if not found:
        say("no groups yet; consumers make them, or: gantrymq group create GROUP")


@click.command()
@group_named()
@where_options
@click.option("--consume/--no-consume", default=None, help="Whether the group may consume. A new one may.")
@click.option("--broadcast/--no-broadcast", default=None, help="Whether it may broadcast. A new one may.")
@click.option(
    "--orderly/--no-orderly",
    default=None,
    help="Whether to keep the order of messages when they are retried. Of a new group: no.",
)
@click.option("-q", "--retry-queues", type=click.IntRange(0, 65535), metavar="N", help="Of a new group: 1.")
@click.option("-r", "--retry-times", type=click.IntRange(0, None), metavar="N", help="Of a new group: 16.")
@attribute_options
@admin_command
async def create(
    admin: Admin,
    name: str,
    cluster: str | None,
    broker: str | None,
    consume: bool | None,
    broadcast: bool | None,
    orderly: bool | None,
    retry_queues: int | None,
    retry_times: int | None,
    attributes: tuple[str, ...],
    output: str,
) -> None:
    """Create a group, or change one, at the masters of a cluster or at one broker. What is not given stays as it is."""
    given = {
        "consume_enable": consume,
        "consume_broadcast_enable": broadcast,
        "consume_message_orderly": orderly,
        "retry_queues": retry_queues,
        "retry_max_times": retry_times,
    }
    changed = dict(map(attribute_in, attributes))
    brokers = await brokers_of(admin, cluster, broker)
    wanted = await settings_wanted(brokers, lambda address: _present(admin, address, name), GroupConfig(name), given)
    for address, config in wanted.items():
        await admin.create_group(address, attrs.evolve(config, attributes=changed))
    if output == "json":
        print_json({"group": name, "brokers": brokers, **{each: same_of(wanted.values(), each) for each in given}})
        return
    click.echo(f"created {name} at {', '.join(brokers)}")


async def _present(admin: Admin, address: str, group: str) -> GroupConfig | None:
    """Return the settings of a group; None: the broker does not know it."""
    try:
        return await admin.group_config(address, group)
    except GroupNotExist:
        return None
    except BrokerRefused as refusal:
        if refusal.response_code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST:
            return None
        raise


@click.command()
@group_named()
@where_options
@click.option("--clean-offsets", is_flag=True, help="Forget what the group committed as well.")
@admin_command
async def delete(
    admin: Admin, name: str, cluster: str | None, broker: str | None, clean_offsets: bool, output: str
) -> None:
    """Delete a group. Online consumers create it again if autoCreateSubscriptionGroup is on.

    System groups are not deleted: tools and clients need them, and a broker creates them only when it starts.
    """
    if name in names.SYSTEM_GROUPS or names.is_system_group(name):
        raise InvalidParameter(f"{name} is one of the brokers' own groups, which tools and clients count on; it stays")
    brokers = await _known(admin, await brokers_of(admin, cluster, broker), name)
    if not brokers:
        raise _no_group(name)
    for address in brokers:
        await admin.delete_group(address, name, clean_offsets=clean_offsets)
    if output == "json":
        print_json({"group": name, "brokers": brokers, "clean_offsets": clean_offsets})
        return
    click.echo(f"deleted {name} at {', '.join(brokers)}")


@click.command("delete-offsets")
@group_named()
@click.option("-t", "--topic", required=True, metavar="NAME", help="The topic.")
@where_options
@admin_command
async def delete_topic_offsets(
    admin: Admin, name: str, topic: str, cluster: str | None, broker: str | None, output: str
) -> None:
    """Delete the offsets of a group on one topic, such as one that its members do not read any more.

    Refused while online members subscribe to the topic. A member that subscribes to it later starts as in a new group.
    Pop consumers of gantrymq.client do not register as members: stop them first, or they will consume messages again.
    """
    deleted = {}
    for address in await brokers_of(admin, cluster, broker):
        with served_by("gantrymq-diagnosis", address, "does not delete offsets of one topic"):
            deleted[address] = list(await delete_offsets(admin, address, name, topic))
    if not any(deleted.values()):
        raise QueryNotFound(f"group {name} has no offsets on topic {topic}; see: gantrymq group progress {quote(name)}")
    if output == "json":
        print_json({"group": name, "topic": topic, "brokers": deleted})
        return
    click.echo(f"deleted the offsets of {name} on {topic} at {', '.join(at for at, ids in deleted.items() if ids)}")


@click.command()
@group_named()
@where_options
@admin_command
async def clients(admin: Admin, name: str, cluster: str | None, broker: str | None, output: str) -> None:
    """Show the online clients of a group and their subscriptions."""
    addresses = (await readable_brokers(admin, cluster, broker)).addresses
    found = members_of({address: await admin.consumer_connections(address, name) for address in addresses})
    joined = {(address, client.address) for address, client in found.clients}
    refused = [
        each
        for each in await _refused_clients(admin, addresses, name)
        if (each["broker"], each["address"]) not in joined  # the list of connections may be some seconds old
    ]
    if not found.clients and not refused:
        raise ConsumerNotOnline(f"no member of group {name} is online")
    listed = [{"broker": address, **attrs.asdict(client)} for address, client in found.clients]
    subscriptions = [
        {column: getattr(each, column) for column in _SUBSCRIPTION_COLUMNS} for each in found.subscriptions
    ]
    consuming = {column: getattr(found, column) for column in ("consume_type", "message_model", "consume_from_where")}
    if output == "json":
        print_json({"group": name, "clients": listed, "subscriptions": subscriptions, **consuming, "refused": refused})
        return
    if listed:
        print_records(listed, _CLIENT_COLUMNS)
        print_records(subscriptions, _SUBSCRIPTION_COLUMNS)
        click.echo(", ".join(consuming.values()))
    for each in refused:
        user = f" of user {each['user']}" if each["user"] else ""
        click.echo(f"{each['client_id']}{user} at {each['address']} is refused by {each['broker']}: {each['reason']}")


@click.command()
@group_named()
@click.option("-t", "--topic", metavar="NAME", help="This topic only.")
@where_options
@admin_command
async def progress(
    admin: Admin, name: str, topic: str | None, cluster: str | None, broker: str | None, output: str
) -> None:
    """Show the progress of a group, queue by queue; LATE is the age of the next message to be consumed."""
    asked = await readable_brokers(admin, cluster, broker)
    found = await _progress(admin, asked.addresses, name)
    queues = [queue for queue in found if topic is None or queue.topic == topic]
    totals = totals_of(queues)
    deleted = totals.deleted
    if output == "json":
        shown = {"behind": totals.behind if queues else None, "deleted": deleted if totals.deleted_known else None}
        print_json({"group": name, **shown, "queues": list(map(attrs.asdict, queues)), **asked.to_json()})
        return
    print_records(queues, _PROGRESS_COLUMNS)
    if deleted:
        at_least = "" if totals.deleted_known else "at least "
        was, them = ("message was", "it") if deleted == 1 else ("messages were", "them")
        click.echo(f"{at_least}{deleted} {was} deleted before {name} read {them}")
    if totals.behind is None:
        click.echo(f"the members of {name} broadcast and keep their offsets, so its lag is not known")
    elif queues:
        click.echo(f"{name} is {'at least ' if asked.left_out else ''}{totals.behind} messages behind")
    elif found:
        say(f"{name} does not read topic {topic}; it reads {', '.join({queue.topic: 0 for queue in found})}")
    else:
        say(f"{name} has committed nothing yet")


# --- asking ---------------------------------------------------------------------------------------------------------


async def _refused_clients(admin: Admin, addresses: Sequence[str], group: str) -> list[dict[str, str]]:
    """Return the connected clients whose last heartbeat for a group was refused, as brokers of GantryMQ report them.

    Brokers that do not serve the list, or not to this user, report none.
    """
    found = []
    for address in addresses:
        with contextlib.suppress(RequestNotServed, NoPermission):
            page = await summary_page(admin, address, ConnectionSummaries, contains=group, most=MAX_ROWS)
            for each in page.connections:
                if each.refused and group in each.refused_groups:
                    names_of = {"client_id": each.client_id, "address": each.address, "user": each.user}
                    found.append({"broker": address, **names_of, "reason": each.refused})
    return found


async def _list(admin: Admin, addresses: Sequence[str], everything: bool) -> list[dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for address in addresses:
        for name, config in (await admin.groups(address)).items():
            if not everything and name in names.SYSTEM_GROUPS:
                continue
            shown = found.setdefault(
                name,
                {
                    "group": name,
                    "clients": 0,
                    "consume_enable": config.consume_enable,
                    "retry_max_times": config.retry_max_times,
                    "retry_queues": config.retry_queues,
                    "brokers": [],
                },
            )
            online = await admin.consumer_connections(address, name)
            shown["clients"] = max(shown["clients"], len(online.clients) if online is not None else 0)
            shown["brokers"].append(address)
    return [found[name] for name in sorted(found)]


async def _progress(admin: Admin, addresses: Sequence[str], name: str) -> list[GroupQueue]:
    queues: list[GroupQueue] = []
    for address in addresses:
        queues += await queues_of_group(admin, address, name, await admin.consumer_connections(address, name))
    if not queues and not await _known(admin, addresses, name):  # a deleted group may have offsets left
        raise _no_group(name)
    return queues


async def _known(admin: Admin, addresses: Sequence[str], name: str) -> list[str]:
    """Return the brokers that know the group."""
    return [address for address in addresses if name in await admin.groups(address)]


def _no_group(name: str) -> GroupNotExist:
    return GroupNotExist(f"there is no group {name}; 'gantrymq group list' lists the groups")


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
            with served_by(
                "gantrymq-diagnosis", address, "explains no groups", "for RocketMQ's see: gantrymq group progress"
            ):
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


@click.group(cls=CommandGroup)
def group() -> None:
    """List, create, delete, show and explain consumer groups; show dead letters; reset and delete offsets."""


for command in (list_groups, create, delete, clients, progress, explain, dlq, reset, clone, delete_topic_offsets):
    group.add_command(command)
