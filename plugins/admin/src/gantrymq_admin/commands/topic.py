"""``gantrymq topic``: list, create, delete and show topics."""

from __future__ import annotations

from typing import Any, Final

import attrs
import click

from gantrymq.client import Admin
from gantrymq.errors import NoRoute
from gantrymq.plugin import names
from gantrymq.plugin.client import BrokerAddresses, TopicRoute
from gantrymq.plugin.commands import CommandGroup, print_json, say
from gantrymq.plugin.model import PERM_INHERIT, PERM_READ, PERM_WRITE, TopicConfig
from gantrymq_admin.commands.lists import Columns, by_options, list_by, local_times, print_records, same_of
from gantrymq_admin.commands.options import (
    admin_command,
    attribute_in,
    attribute_options,
    brokers_of,
    cluster_option,
    readable_brokers,
    settings_wanted,
    topic_named,
    warn_without_master,
    where_options,
)
from gantrymq_admin.copies import NO_MASTER, TWO_MASTERS
from gantrymq_admin.summaries import TopicOrder, TopicSummaries
from gantrymq_admin.topics import NEW_QUEUES, is_own_topic, of_clusters, present_topic, refuse_to_hide

_STATUS_COLUMNS: Final[Columns] = (
    *("broker", "queue", "min_offset", "max_offset", "messages", ("Last stored", local_times("updated_ms"))),
)
_PERMISSIONS = {"2": 2, "W": 2, "4": 4, "R": 4, "6": 6, "RW": 6, "WR": 6}


@click.group(cls=CommandGroup)
def topic() -> None:
    """List, create, delete and show topics."""


@topic.command("list")
@click.option("--all", "everything", is_flag=True, help="The brokers' own, retry and dead letter topics as well.")
@by_options(TopicOrder, "topics")
@where_options
@admin_command
async def list_topics(
    admin: Admin,
    everything: bool,
    order: TopicOrder | None,
    most: int,
    contains: str,
    cluster: str | None,
    broker: str | None,
    output: str,
) -> None:
    """List the topics of the name servers.

    With --by, brokers with gantrymq-diagnosis sort and filter their topics, as of some seconds ago: by name, by
    messages kept, or by messages stored (put) or delivered (got) per second.
    """
    if order is not None:
        addresses = (await readable_brokers(admin, cluster, broker)).addresses
        await list_by(admin, addresses, TopicSummaries, order, contains, most, everything, output)
        return
    if cluster or broker:
        raise click.UsageError("-c and -b need --by: name servers list the topics of all brokers")
    found = await (admin.topics() if everything else _topics_of_users(admin))
    if output == "json":
        print_json({"topics": found})
        return
    for name in found:
        click.echo(name)
    if not found:
        say("no topics yet; create one with: gantrymq topic create TOPIC")


@topic.command()
@topic_named
@where_options
@click.option("-r", "--read-queues", type=click.IntRange(1, 65535), metavar="N", help="Of a new topic: 8.")
@click.option("-w", "--write-queues", type=click.IntRange(1, 65535), metavar="N", help="Of a new topic: 8.")
@click.option(
    "-p",
    "--perm",
    type=click.Choice(sorted(_PERMISSIONS), case_sensitive=False),
    help="What clients may do: 2 or W write, 4 or R read, 6 or RW both. Of a new topic: 6.",
)
@attribute_options
@click.option("--fewer-queues", is_flag=True, help="Take read queues away although messages are in them.")
@admin_command
async def create(
    admin: Admin,
    name: str,
    cluster: str | None,
    broker: str | None,
    read_queues: int | None,
    write_queues: int | None,
    perm: str | None,
    attributes: tuple[str, ...],
    fewer_queues: bool,
    output: str,
) -> None:
    """Create a topic, or change one, at the masters of a cluster or at one broker.

    What is not given stays as it is. Reducing the read queues hides the messages in the others, so it is refused
    without --fewer-queues.
    """
    given = {
        "read_queues": read_queues,
        "write_queues": write_queues,
        "perm": None if perm is None else _PERMISSIONS[perm.upper()],
    }
    changed = dict(map(attribute_in, attributes))
    new = TopicConfig(name, NEW_QUEUES, NEW_QUEUES)
    brokers = await brokers_of(admin, cluster, broker)
    wanted = await settings_wanted(brokers, lambda address: present_topic(admin, address, name), new, given)
    if not fewer_queues:
        for address, config in wanted.items():
            await refuse_to_hide(admin, address, config)
    for address, config in wanted.items():
        await admin.create_topic(address, attrs.evolve(config, attributes=changed))
    if output == "json":
        print_json(
            {
                "topic": name,
                **{each: same_of(wanted.values(), each) for each in ("read_queues", "write_queues", "perm")},
                "brokers": list(wanted),
            }
        )
        return
    queues: dict[tuple[int, int], list[str]] = {}
    for address, config in wanted.items():
        queues.setdefault((config.read_queues, config.write_queues), []).append(address)
    for (read, write), brokers in queues.items():
        click.echo(f"created {name} at {', '.join(brokers)}: {read} read and {write} write queues each")


@topic.command()
@topic_named
@cluster_option
@admin_command
async def delete(admin: Admin, name: str, cluster: str | None, output: str) -> None:
    """Delete a topic at the masters of a cluster and at the name servers. Its messages are removed at once."""
    if name not in await admin.topics():
        raise NoRoute(f"there is no topic {name}; 'gantrymq topic list' shows those there are")
    await warn_without_master(admin, cluster)
    brokers, servers = await admin.delete_topic(name, cluster), admin.name_servers
    if output == "json":
        print_json({"topic": name, "brokers": brokers, "name_servers": servers})
        return
    click.echo(f"deleted {name} at {', '.join(brokers)} and at the name servers {', '.join(servers)}")


def _addresses(broker: BrokerAddresses | None) -> str:
    addresses = {} if broker is None else broker.addresses
    return "  ".join(f"{broker_id}: {address}" for broker_id, address in addresses.items()) or "none"


@topic.command()
@topic_named
@admin_command
async def route(admin: Admin, name: str, output: str) -> None:
    """Show the brokers of a topic."""
    found = await admin.route(name)
    if output == "json":
        print_json(_route_json(name, found))
        return
    brokers = {each.name: each for each in found.brokers}
    columns: Columns = (
        ("Cluster", lambda grant: brokers[grant.broker_name].cluster if grant.broker_name in brokers else ""),
        ("Broker", "broker_name"),
        ("Addresses by id", lambda grant: _addresses(brokers.get(grant.broker_name))),
        *("read_queues", "write_queues", ("Perm", lambda grant: perm_text(grant.perm))),
    )
    print_records(found.queues, columns)
    for each in found.brokers:
        if each.master is None:
            say(f"{each.name}: {NO_MASTER}; 'gantrymq cluster status' shows its copies")
    for each in (await admin.clusters()).brokers:
        if each.rivals and found.broker(each.name) is not None:
            say(f"{each.name}: {TWO_MASTERS} ({each.master} and {', '.join(each.rivals)}); stop one of them")
    if found.order:
        click.echo(f"ordered: {found.order}")


@topic.command()
@topic_named
@admin_command
async def status(admin: Admin, name: str, output: str) -> None:
    """Show the queues of a topic with their offsets."""
    queues: list[dict[str, Any]] = [
        {
            "broker": queue.broker_name,
            "queue": queue.queue_id,
            "min_offset": stats.min_offset,
            "max_offset": stats.max_offset,
            "messages": stats.count,
            "updated_ms": stats.updated_ms,
        }
        for queue, stats in (await admin.topic_status(name)).items()
    ]
    if output == "json":
        print_json({"topic": name, "queues": queues})
        return
    print_records(queues, _STATUS_COLUMNS)


# --- asking ---------------------------------------------------------------------------------------------------------


async def _topics_of_users(admin: Admin) -> list[str]:
    topics, places = await admin.topics(), of_clusters(await admin.clusters())
    of_groups = (names.RETRY_PREFIX, names.DLQ_PREFIX)
    return [name for name in topics if not is_own_topic(name, places) and not name.startswith(of_groups)]


# --- reading options and showing ------------------------------------------------------------------------------------


def _route_json(name: str, found: TopicRoute) -> dict[str, Any]:
    return {
        "topic": name,
        "order": found.order or None,
        "queues": [
            {
                "broker": queue.broker_name,
                "read_queues": queue.read_queues,
                "write_queues": queue.write_queues,
                "perm": queue.perm,
            }
            for queue in found.queues
        ],
        "brokers": [
            {
                "broker": broker.name,
                "cluster": broker.cluster,
                "addresses": {str(broker_id): address for broker_id, address in broker.addresses.items()},
            }
            for broker in found.brokers
        ],
    }


def perm_text(perm: int) -> str:
    """Format a permission as three letters of ``RWX``, ``-`` for a missing one."""
    return (
        ("R" if perm & PERM_READ else "-") + ("W" if perm & PERM_WRITE else "-") + ("X" if perm & PERM_INHERIT else "-")
    )
