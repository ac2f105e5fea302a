"""``gantrymq message consumers``: which groups consumed a message, with the evidence."""

from __future__ import annotations

import click

from gantrymq.client import Admin, Client, ReceivedMessage
from gantrymq.plugin import names
from gantrymq.plugin.commands import namesrv_option, output_option, print_json, print_table, run, say, warn
from gantrymq.plugin.model import is_offset_id
from gantrymq.plugin.real_world import real_world
from gantrymq_admin.commands.options import legal_topic
from gantrymq_admin.consumption import Consumption, Kind, consumers_of
from gantrymq_admin.consumption.as_json import as_json
from gantrymq_admin.consumption.sentences import missing_sentence, sentence
from gantrymq_admin.offset_ids import find_by_offset_id

__all__ = ["consumers"]

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
            print_json(as_json(found))
        else:
            _show(found)

    run(ask())


async def _message(admin: Admin, message_id: str, topic: str | None) -> ReceivedMessage:
    if is_offset_id(message_id):
        return (await find_by_offset_id(admin, message_id))[1]
    if topic is None:
        raise click.UsageError(
            f"{message_id} is not an offset id; if it is the unique id that a client gave, name the topic: "
            f"gantrymq message consumers {message_id} -t TOPIC"
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
        print_table(
            ["Group", "Verdict", "Sure", "Evidence"],
            [(each.group, each.reason.value, each.certainty.value, sentence(message, each)) for each in found.verdicts],
        )
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
