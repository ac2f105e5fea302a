"""``gantrymq transactions list|show|resume``."""

from __future__ import annotations

from typing import Any, Final

import click

from gantrymq.client import Admin, Client
from gantrymq.commands.groups import CommandGroup
from gantrymq.commands.output import check_address, namesrv_option, output_option, print_json, print_table
from gantrymq.commands.run import run
from gantrymq.errors import ClientError, NoMessageFound
from gantrymq.model.ids import is_offset_id
from gantrymq.world.real import RealClock
from gantrymq_transaction.admin import list_transactions, resume_check, show_transaction

__all__ = ["transactions"]

PAGES: Final = 1000  # requests of one command, each of which reads up to 10,000 messages


cluster_option = click.option("-c", "--cluster", metavar="NAME", help="The cluster; not needed if there is only one.")
broker_option = click.option(
    "-b", "--broker", metavar="ADDR", callback=check_address, help="This broker only, host:port."
)


async def _brokers(admin: Admin, cluster: str | None, broker: str | None) -> tuple[str, ...]:
    if cluster and broker:
        raise click.UsageError("give -c or -b, not both")
    return (broker,) if broker else await admin.masters(cluster)


@click.group(cls=CommandGroup)
def transactions() -> None:
    """Show undecided transactions, and resume their checks."""


@transactions.command("list")
@click.option("-g", "--group", metavar="NAME", help="Only of this producer group.")
@click.option("-t", "--topic", metavar="NAME", help="Only for this topic.")
@click.option("--given-up", is_flag=True, help="List given-up transactions (TRANS_CHECK_MAX_TIME_TOPIC) instead.")
@click.option(
    "--max", "most", type=click.IntRange(1, 100_000), default=100, show_default=True, help="Maximum per broker."
)
@click.option("--start", type=click.IntRange(0), default=0, show_default=True, help="Half queue offset to start at.")
@cluster_option
@broker_option
@namesrv_option
@output_option
def list_(
    group: str | None,
    topic: str | None,
    given_up: bool,
    most: int,
    start: int,
    cluster: str | None,
    broker: str | None,
    namesrv: str,
    output: str,
) -> None:
    """List undecided transactions, oldest half message first."""

    async def work() -> list[dict[str, Any]]:
        async with Client(namesrv) as client, client.admin as admin:
            wanted = {"group": group, "topic": topic, "given_up": given_up}
            return [await _listed(admin, each, most, start, wanted) for each in await _brokers(admin, cluster, broker)]

    found = run(work())
    if output == "json":
        print_json({"brokers": found})
        return
    now_ms = RealClock().now_ms()
    print_table(
        ["Unique id", "Offset id", "Group", "Topic", "Checks", "Next check", "Age (s)", "Half offset"],
        [
            (
                each["unique_id"],
                each["offset_id"],
                each["producer_group"],
                each["topic"],
                each["checks"],
                _seconds_until(each.get("next_check_ms"), now_ms),
                round((now_ms - each["born_ms"]) / 1000),
                each["half_queue_offset"],
            )
            for broker_ in found
            for each in broker_["transactions"]
        ],
    )
    for each in found:
        click.echo(
            f"{each['broker']}: {each['undecided']} undecided"
            + (f"; continue with --start {each['next']} -b {each['broker']}" if each["next"] is not None else "")
        )


def _seconds_until(at_ms: int | None, now_ms: float) -> str:
    return "-" if at_ms is None else f"in {max(0, at_ms - now_ms) / 1000:.0f} s"


async def _listed(admin: Admin, address: str, most: int, start: int, wanted: dict[str, Any]) -> dict[str, Any]:
    """Request pages from one broker until *most* transactions are found or there are no more."""
    found: list[dict[str, Any]] = []
    page: dict[str, Any] = {}
    for _ in range(PAGES):
        page = await list_transactions(admin, address, start=start, count=min(1000, most - len(found)), **wanted)
        found += page["transactions"]
        if page["next"] is None or len(found) >= most:
            break
        start = page["next"]
    return {**page, "broker": address, "transactions": found}


@transactions.command()
@click.argument("unique_id", metavar="ID")
@cluster_option
@broker_option
@namesrv_option
@output_option
def show(unique_id: str, cluster: str | None, broker: str | None, namesrv: str, output: str) -> None:
    """Show all messages of the transaction with the unique id ID.

    These are the copies of its half message, the committed message, and the given-up message. The exit code is 1 if no
    broker has any.
    """

    async def work() -> list[dict[str, Any]]:
        async with Client(namesrv) as client, client.admin as admin:
            return [
                {**await show_transaction(admin, each, unique_id), "broker": each}
                for each in await _brokers(admin, cluster, broker)
            ]

    found = [each for each in run(work()) if each["half_messages"] or each["given_up"]]
    if not found:
        raise NoMessageFound(f"no broker has a half message with the unique id {unique_id}")
    if output == "json":
        print_json({"unique_id": unique_id, "brokers": found})
        return
    for each in found:
        for half in each["half_messages"]:
            state = "decided, or stored again later"
            if half["undecided"]:
                state = f"undecided, next check {_seconds_until(half.get('next_check_ms'), RealClock().now_ms())}"
            click.echo(
                f"{each['broker']} half message {half['offset_id']} for {half['topic']}:{half['queue']} of "
                f"{half['producer_group']}, {half['checks']} checks: {state}"
            )
        for message in each["committed"]:
            click.echo(f"{each['broker']} committed {message['offset_id']} {message['topic']}:{message['queue']}")
        for half in each["given_up"]:
            click.echo(f"{each['broker']} given up {half['offset_id']} after {half['checks']} checks")


@transactions.command()
@click.argument("name", metavar="ID")
@cluster_option
@broker_option
@namesrv_option
@output_option
def resume(name: str, cluster: str | None, broker: str | None, namesrv: str, output: str) -> None:
    """Resume the checks of a given-up transaction, starting with the first one.

    ID is the offset id of the message in TRANS_CHECK_MAX_TIME_TOPIC, or the unique id of the message: then the newest
    given-up message is used.
    """

    async def work() -> tuple[str, str]:
        async with Client(namesrv) as client, client.admin as admin:
            wanted = name
            if not is_offset_id(name):
                wanted = await _given_up(admin, name, await _brokers(admin, cluster, broker))
            return await resume_check(admin, wanted), wanted

    address, wanted = run(work())
    if output == "json":
        print_json({"broker": address, "offset_id": wanted})
        return
    click.echo(f"{address} asks the producer of {wanted} again")


async def _given_up(admin: Admin, unique_id: str, brokers: tuple[str, ...]) -> str:
    for address in brokers:
        found = (await show_transaction(admin, address, unique_id))["given_up"]
        if found:
            return str(found[-1]["offset_id"])
    raise ClientError(f"no broker gave a transaction with the unique id {unique_id} up; see gantrymq transactions list")
