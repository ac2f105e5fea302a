"""``gantrymq message pending``: delayed messages with their delivery times."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs
import click

from gantrymq.client import Admin
from gantrymq.plugin.commands import print_json, read_time_ms
from gantrymq_admin.commands.options import admin_command, readable_brokers, served_by, where_options
from gantrymq_admin.commands.records import Columns, local_times, print_records, text
from gantrymq_admin.pending import PendingMessage, pending_messages

__all__ = ["pending"]

COLUMNS: Final[Columns] = (
    *(("Due", local_times("due_ms", fraction=True)), "kind", ("Topic", text("topic")), ("Queue", text("queue"))),
    *(("Keys", text("keys")), ("Unique id", text("unique_id")), "size"),
)


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
    found: list[tuple[str, Mapping[str, Any], list[PendingMessage]]] = []
    for address in (await readable_brokers(admin, cluster, broker, acting=True)).addresses:
        sources, messages = await _of_broker(admin, address, topic, until_ms, most)
        found.append((address, sources, sorted(messages, key=lambda message: message.due_ms)))
    if output == "json":
        shown = [
            {"broker": address, "sources": sources, "messages": [attrs.asdict(each) for each in messages]}
            for address, sources, messages in found
        ]
        print_json({"brokers": shown})
        return
    for address, sources, messages in found:
        for name, source in sources.items():
            count = source["waiting"]
            wait = "1 message waits" if count == 1 else f"{count:,} messages wait"
            click.echo(f"{address}: {wait} ({name})")
        print_records(messages, COLUMNS)


async def _of_broker(
    admin: Admin, address: str, topic: str | None, until_ms: int | None, most: int
) -> tuple[Mapping[str, Any], list[PendingMessage]]:
    """Return the sources of one broker with their counts, and the soonest messages of each."""
    sources, messages = dict[str, Any](), list[PendingMessage]()
    with served_by("gantrymq-schedule", address, "does not tell what is pending"):
        async for page in pending_messages(admin, address, most=most, topic=topic, until_ms=until_ms):
            sources = dict(page.sources)
            messages += page.messages
    return sources, messages
