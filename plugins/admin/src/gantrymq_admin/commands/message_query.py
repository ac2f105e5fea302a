"""``gantrymq message query|view``: find messages by key, by unique key, by id."""

from __future__ import annotations

import click

from gantrymq.client import Admin, ReceivedMessage
from gantrymq.client.admin import FOREVER_MS
from gantrymq.errors import NoMessageFound
from gantrymq.plugin.commands import TIMES, body_text, local_time, print_json, read_time_ms
from gantrymq.plugin.model import is_offset_id
from gantrymq_admin.commands.options import admin_command, topic_option
from gantrymq_admin.message_shown import as_json, show
from gantrymq_admin.offset_ids import find_by_offset_id


@click.command()
@topic_option
@click.option("--key", metavar="KEY", help="One of the messages' keys.")
@click.option("--unique-key", "unique", metavar="ID", help="The unique id that the sending client gave.")
@click.option("--begin", metavar="TIME", help=f"First store time: {TIMES}.")
@click.option("--end", metavar="TIME", help="Last store time, in the same way.")
@click.option("--max", "most", type=click.IntRange(min=1), default=64, show_default=True, help="Of each broker.")
@admin_command
async def query(
    admin: Admin,
    name: str,
    key: str | None,
    unique: str | None,
    begin: str | None,
    end: str | None,
    most: int,
    output: str,
) -> None:
    """Print the newest messages with a key, oldest first; queries every broker of the topic.

    If there is none, prints the response of each broker and ends with exit code 1.
    """
    if (key is None) == (unique is None):
        raise click.UsageError("give --key or --unique-key, and not both")
    begin_ms = read_time_ms(begin, param_hint="--begin") if begin is not None else None
    end_ms = read_time_ms(end, param_hint="--end") if end is not None else FOREVER_MS
    if unique is None:
        messages = await admin.query_message(name, str(key), begin_ms or 0, end_ms, most)
    else:
        stored = await admin.query_unique(name, unique, begin_ms)
        messages = tuple(each for each in stored if each.store_timestamp <= end_ms)[-most:]
        if not messages:
            raise NoMessageFound(f"every message of topic {name} with that unique key was stored after --end")
    for found in messages:
        show(found, output)


@click.command()
@click.argument("message_id", metavar="ID")
@click.option("-t", "--topic", metavar="NAME", help="Where it was sent; needed for the id that the client gave.")
@admin_command
async def view(admin: Admin, message_id: str, topic: str | None, output: str) -> None:
    """Print one message with all its stored fields.

    ID is an offset id, which contains the broker and the position in its log, or with --topic a client's unique id. The
    message is also found if its broker has another address now.
    """
    if is_offset_id(message_id):
        _, found = await find_by_offset_id(admin, message_id)
    elif topic is not None:
        found = (await admin.query_unique(topic, message_id))[0]
    else:
        raise click.UsageError(
            f"{message_id} is not an offset id; if it is the unique id that a client gave, name the topic: "
            f"gantrymq message view {message_id} -t TOPIC"
        )
    if output == "json":
        print_json(as_json(found))
        return
    for label, value in lines_of(found):
        click.echo(f"{label + ':':<18}{value}")


def lines_of(found: ReceivedMessage) -> list[tuple[str, object]]:
    """Return all stored fields of a message for people: label and value."""
    return [
        ("Message id", found.message_id),
        ("Offset id", found.offset_id),
        ("Topic", found.topic),
        ("Tags", found.tags or ""),
        ("Keys", found.keys or ""),
        ("Queue", found.queue_id),
        ("Queue offset", found.queue_offset),
        ("Log offset", found.log_offset),
        ("Reconsume times", found.reconsume_times),
        ("Born", f"{local_time(found.born_timestamp, fraction=True)} at {found.born_host}"),
        ("Stored", f"{local_time(found.store_timestamp, fraction=True)} at {found.store_host}"),
        ("System flag", found.sys_flag),
        ("Flag", found.flag),
        *((f"  {name}", value) for name, value in found.properties.items()),
        ("Body", body_text(found.body, found.body_problem)),
    ]
