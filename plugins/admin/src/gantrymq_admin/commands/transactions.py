"""``gantrymq transactions list|show|resume``: transactions of brokers with gantrymq-transaction."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Final

import attrs
import click

from gantrymq.client import Admin
from gantrymq.errors import ClientError, NoMessageFound
from gantrymq.plugin.commands import CommandGroup, print_json
from gantrymq.plugin.model import is_offset_id
from gantrymq.plugin.real_world import RealClock
from gantrymq_admin.commands.lists import Columns, print_records
from gantrymq_admin.commands.options import admin_command, brokers_of, readable_brokers, served_by, where_options
from gantrymq_admin.transactions import (
    MAX_PAGE,
    HalfMessage,
    TransactionMessages,
    TransactionPage,
    list_transactions,
    resume_check,
    show_transaction,
)

_PAGES: Final = 1000  # requests of one command, each of which reads up to 10,000 messages


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
@where_options
@admin_command
async def list_(
    admin: Admin,
    group: str | None,
    topic: str | None,
    given_up: bool,
    most: int,
    start: int,
    cluster: str | None,
    broker: str | None,
    output: str,
) -> None:
    """List undecided transactions, oldest half message first."""
    found = {
        address: await _listed(admin, address, most, start, group, topic, given_up)
        for address in (await readable_brokers(admin, cluster, broker, acting=True)).addresses
    }
    if output == "json":
        print_json({"brokers": [{"broker": address, **_page_json(page)} for address, page in found.items()]})
        return
    now_ms = RealClock().now_ms()
    columns: Columns = (
        *("unique_id", "offset_id", ("Group", "producer_group"), "topic", "checks"),
        ("Next check", lambda half: _seconds_until(half.next_check_ms, now_ms)),
        ("Age (s)", lambda half: round((now_ms - half.born_ms) / 1000)),
        ("Half offset", "half_queue_offset"),
    )
    print_records([each for page in found.values() for each in page.transactions], columns)
    for address, page in found.items():
        click.echo(
            f"{address}: {page.undecided} undecided"
            + (f"; continue with --start {page.next} -b {address}" if page.next is not None else "")
        )


def _seconds_until(at_ms: int | None, now_ms: float) -> str:
    return "-" if at_ms is None else f"in {max(0, at_ms - now_ms) / 1000:.0f} s"


def _page_json(page: TransactionPage) -> dict[str, object]:
    halves = [_half_json(each, with_state=False) for each in page.transactions]
    return {**attrs.asdict(page, recurse=False), "transactions": halves}


def _half_json(half: HalfMessage, *, with_state: bool) -> dict[str, object]:
    shown = attrs.asdict(half)
    if not with_state:
        del shown["undecided"]
    return shown


async def _listed(
    admin: Admin, address: str, most: int, start: int, group: str | None, topic: str | None, given_up: bool
) -> TransactionPage:
    """Request pages from one broker until *most* transactions are found or there are no more."""
    found = list[HalfMessage]()
    for _ in range(_PAGES):
        count = min(MAX_PAGE, most - len(found))
        with _served(address):
            page = await list_transactions(
                admin, address, start=start, count=count, group=group, topic=topic, given_up=given_up
            )
        found += page.transactions
        if page.next is None or len(found) >= most:
            break
        start = page.next
    return attrs.evolve(page, transactions=tuple(found))


@transactions.command()
@click.argument("unique_id", metavar="ID")
@where_options
@admin_command
async def show(admin: Admin, unique_id: str, cluster: str | None, broker: str | None, output: str) -> None:
    """Show all messages of the transaction with the unique id ID.

    These are the copies of its half message, the committed message, and the given-up message. The exit code is 1 if no
    broker has any.
    """
    found = dict[str, TransactionMessages]()
    for address in (await readable_brokers(admin, cluster, broker, acting=True)).addresses:
        with _served(address):
            messages = await show_transaction(admin, address, unique_id)
        if messages.half_messages or messages.given_up:
            found[address] = messages
    if not found:
        raise NoMessageFound(f"no broker has a half message with the unique id {unique_id}")
    if output == "json":
        shown = [{"broker": address, **_messages_json(messages)} for address, messages in found.items()]
        print_json({"unique_id": unique_id, "brokers": shown})
        return
    for address, messages in found.items():
        for half in messages.half_messages:
            state = "decided, or stored again later"
            if half.undecided:
                state = f"undecided, next check {_seconds_until(half.next_check_ms, RealClock().now_ms())}"
            click.echo(
                f"{address} half message {half.offset_id} for {half.topic}:{half.queue} of {half.producer_group}, "
                f"{half.checks} checks: {state}"
            )
        for message in messages.committed:
            click.echo(f"{address} committed {message.offset_id} {message.topic}:{message.queue}")
        for half in messages.given_up:
            click.echo(f"{address} given up {half.offset_id} after {half.checks} checks")


def _messages_json(messages: TransactionMessages) -> dict[str, object]:
    return {
        "half_messages": [_half_json(each, with_state=True) for each in messages.half_messages],
        "committed": [attrs.asdict(each) for each in messages.committed],
        "given_up": [_half_json(each, with_state=False) for each in messages.given_up],
    }


@transactions.command()
@click.argument("name", metavar="ID")
@where_options
@admin_command
async def resume(admin: Admin, name: str, cluster: str | None, broker: str | None, output: str) -> None:
    """Resume the checks of a given-up transaction, starting with the first one.

    ID is the offset id of the message in TRANS_CHECK_MAX_TIME_TOPIC, or the unique id of the message: then the newest
    given-up message is used.
    """
    wanted = name
    if not is_offset_id(name):
        wanted = await _given_up(admin, name, await brokers_of(admin, cluster, broker))
    address = await resume_check(admin, wanted)
    if output == "json":
        print_json({"broker": address, "offset_id": wanted})
        return
    click.echo(f"{address} asks the producer of {wanted} again")


async def _given_up(admin: Admin, unique_id: str, brokers: Sequence[str]) -> str:
    for address in brokers:
        with _served(address):
            found = (await show_transaction(admin, address, unique_id)).given_up
        if found:
            return found[-1].offset_id
    raise ClientError(f"no broker gave a transaction with the unique id {unique_id} up; see gantrymq transactions list")


def _served(address: str) -> AbstractContextManager[None]:
    return served_by("gantrymq-transaction", address, "does not show transactions")
