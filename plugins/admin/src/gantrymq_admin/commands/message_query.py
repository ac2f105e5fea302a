"""``gantrymq message query|view|pending|consumers``: find messages and their consumers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from shlex import quote
from typing import Any, Final

import attrs
import click

from gantrymq.client import Admin, Client, ReceivedMessage
from gantrymq.client.admin import FOREVER_MS
from gantrymq.errors import NoMessageFound
from gantrymq.plugin import names
from gantrymq.plugin.commands import (
    TIMES,
    body_text,
    local_time,
    namesrv_option,
    output_option,
    print_json,
    read_time_ms,
    run,
    say,
    warn,
)
from gantrymq.plugin.model import is_offset_id
from gantrymq.plugin.real_world import real_world
from gantrymq_admin.commands.lists import Columns, local_times, print_records, text
from gantrymq_admin.commands.options import (
    admin_command,
    legal_topic,
    readable_brokers,
    served_by,
    topic_option,
    where_options,
)
from gantrymq_admin.consumption import Consumption, Kind, consumers_of
from gantrymq_admin.consumption.evidence import as_json as consumption_json
from gantrymq_admin.consumption.evidence import missing_sentence, sentence
from gantrymq_admin.messages import as_json, find_by_offset_id, show
from gantrymq_admin.pending import PendingMessage, pending_messages

_COLUMNS: Final[Columns] = (
    *(("Due", local_times("due_ms", fraction=True)), "kind", ("Topic", text("topic")), ("Queue", text("queue"))),
    *(("Keys", text("keys")), ("Unique id", text("unique_id")), "size"),
)


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
            f"gantrymq message view {quote(message_id)} -t TOPIC"
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
        print_records(messages, _COLUMNS)


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


_KINDS = {
    Kind.RETRY: "it is a retry; shown is the message that failed",
    Kind.DEAD_LETTER: "it is a dead letter; shown is the message that failed",
    Kind.DELAYED: "it is a delayed message",
    Kind.HALF: "it is a half message of a transaction",
    Kind.DISCARDED: "it is a half message that was checked too often and discarded",
}


@click.command()
@click.argument("message_id", metavar="ID")
@click.option("-t", "--topic", metavar="NAME", callback=legal_topic, help="Where it was sent; needed for a unique id.")
@click.option("--trace-topic", "traces", metavar="NAME", multiple=True, help="Topics with traces, if not the default.")
@click.option("--timeout", type=click.FloatRange(min=0.1), default=10.0, show_default=True, help="Seconds, for all.")
@click.option("--start", type=click.IntRange(min=0), default=0, show_default=True, help="Number of the first group.")
@click.option("--max", "most", type=click.IntRange(min=1), default=200, show_default=True, help="Groups to show.")
@namesrv_option
@output_option
def consumers(
    message_id: str,
    topic: str | None,
    traces: tuple[str, ...],
    timeout: float,
    start: int,
    most: int,
    namesrv: str,
    output: str,
) -> None:
    """Show for each group of the topic whether it consumed a message, how sure that is, and why.

    ID is an offset id, or with --topic the unique id that a client gave. Brokers record how far a group has read, not
    what it consumed: only a message trace makes "consumed" certain. A question that a server did not answer is
    reported, and the verdict of each group that depends on it is "unknown".
    """

    async def ask() -> None:
        async with Client(namesrv) as client, client.admin as admin, client.reader() as reader:
            message = await _message(admin, message_id, topic)
            found = await consumers_of(
                admin,
                reader,
                message,
                clock=real_world().clock,
                deadline_s=timeout,
                start=start,
                most=most,
                trace_topics=traces or (names.TRACE_TOPIC,),
            )
        if output == "json":
            print_json(consumption_json(found))
        else:
            _show(found)

    run(ask())


async def _message(admin: Admin, message_id: str, topic: str | None) -> ReceivedMessage:
    if is_offset_id(message_id):
        return (await find_by_offset_id(admin, message_id))[1]
    if topic is None:
        raise click.UsageError(
            f"{message_id} is not an offset id; if it is the unique id that a client gave, name the topic: "
            f"gantrymq message consumers {quote(message_id)} -t TOPIC"
        )
    return (await admin.query_unique(topic, message_id))[0]


def _show(found: Consumption) -> None:
    if found.kind in _KINDS:
        click.echo(_KINDS[found.kind])
    message = found.message
    if message is None:
        decided = "" if found.transaction is None else f" The last traced decision is {found.transaction}."
        click.echo(f"No group can receive it: it is not in its topic.{decided}")
    else:
        queue = message.queue
        click.echo(f"{queue.topic} {queue.broker_name}:{queue.queue_id} @{message.queue_offset}")
        columns: Columns = (
            *("group", ("Verdict", lambda verdict: verdict.reason.value)),
            *(("Sure", lambda verdict: verdict.certainty.value), ("Evidence", partial(sentence, message))),
        )
        print_records(found.verdicts, columns)
        for each in found.light:
            at = "nothing" if each.committed is None else each.committed
            click.echo(f"{each.group}: reads it in {each.queue} @{each.queue_offset}, committed {at}")
        if found.others:
            count = len(found.others)
            say(f"{count} more group{'' if count == 1 else 's'}; see --start and --max")
        if not found.traced:
            say(f"no trace of it in {', '.join(found.trace_topics)}")
    for gap in found.missing:
        warn(missing_sentence(gap))
