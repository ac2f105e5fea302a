"""``gantrymq message pending``: delayed messages with their delivery times."""

from __future__ import annotations

import time
from typing import Any, Final, cast

import click

from gantrymq.client import Admin
from gantrymq.client.admin import RequestNotServed
from gantrymq.commands.output import print_json, print_table
from gantrymq.commands.times import read_time_ms
from gantrymq.errors import RequestRefused, install_command
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.headers.base import Int32, Int64, RequestHeader, header_of
from gantrymq_admin.commands.options import admin_command, brokers_of, where_options

__all__ = ["pending"]

PENDING: Final = cast(RequestCode, 65001)  # request code of GantryMQ, served by gantrymq-schedule
PAGE: Final = 256


@header_of(PENDING)
class PendingRequest(RequestHeader):
    """One page of pending messages."""

    source: str
    most: Int32
    place: str | None = None
    topic: str | None = None
    until_ms: Int64 | None = None


@click.command()
@click.option("-t", "--topic", metavar="NAME", help="Only messages that go to this topic.")
@click.option(
    "--until", metavar="TIME", help="Only what is due then or sooner: '2026-11-21 10:00:00', milliseconds, or +10m."
)
@click.option("--max", "most", type=click.IntRange(min=1), default=32, show_default=True, help="Messages of each kind.")
@where_options
@admin_command
async def pending(
    admin: Admin, topic: str | None, until: str | None, most: int, cluster: str | None, broker: str | None, output: str
) -> None:
    """Show delayed messages that wait, the soonest first, and their total number."""
    until_ms = read_time_ms(until, param_hint="--until") if until is not None else None
    found: list[dict[str, Any]] = []
    for address in await brokers_of(admin, cluster, broker):
        sources, messages = await _of_broker(admin, address, topic, until_ms, most)
        messages.sort(key=lambda message: message["due_ms"])
        found.append({"broker": address, "sources": sources, "messages": messages})
    if output == "json":
        print_json({"brokers": found})
        return
    for each in found:
        for name, source in each["sources"].items():
            count = source["waiting"]
            wait = "1 message waits" if count == 1 else f"{count:,} messages wait"
            click.echo(f"{each['broker']}: {wait} ({name})")
        print_table(["Due", "Kind", "Topic", "Queue", "Keys", "Unique id", "Size"], map(_row, each["messages"]))


def _row(message: dict[str, Any]) -> tuple[object, ...]:
    due = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(message["due_ms"] / 1000))
    texts = (message[name] or "" for name in ("topic", "queue", "keys", "unique_id"))
    return f"{due}.{message['due_ms'] % 1000:03d}", message["kind"], *texts, message["size"]


async def _of_broker(
    admin: Admin, address: str, topic: str | None, until_ms: int | None, most: int
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Print the number of pending messages of each kind, and the soonest of each."""
    messages: list[dict[str, Any]] = []
    sources: dict[str, Any] = {"levels": None}
    asked: set[str] = set()
    while left := [name for name in sources if name not in asked]:
        asked.add(left[0])
        place, missing = "", most
        while missing > 0:
            header = PendingRequest(
                source=left[0], most=min(missing, PAGE), place=place or None, topic=topic, until_ms=until_ms
            )
            answer = await _ask(admin, address, header)
            sources = answer["sources"]
            messages += answer["messages"]
            missing -= len(answer["messages"])
            place = answer["place"]
            if place is None:
                break
    return sources, messages


async def _ask(admin: Admin, address: str, header: PendingRequest) -> dict[str, Any]:
    try:
        return await admin.request_json(address, PENDING, header, what="pending messages")
    except RequestNotServed as problem:
        raise RequestRefused(
            3,
            f"the broker at {address} does not tell what is pending: it is RocketMQ's, or lacks a plugin; "
            f"{install_command('gantrymq-schedule')} beside it",
        ) from problem
