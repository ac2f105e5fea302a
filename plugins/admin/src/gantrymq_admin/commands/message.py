"""``gantrymq message``: send, pull and follow messages; `message_query` finds them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from contextlib import aclosing
from itertools import chain
from typing import Any

import click

from gantrymq.client import Client, Message, ReceivedMessage, SendResult, SendStatus
from gantrymq.errors import ClientError, InvalidParameter
from gantrymq.plugin import properties as props
from gantrymq.plugin.client import Outages, follow, split_properties
from gantrymq.plugin.commands import (
    LATER_TIMES,
    TIMES,
    CommandGroup,
    ImportedCommand,
    namesrv_option,
    output_option,
    print_json,
    read_duration_ms,
    read_time_ms,
    run,
    say,
    stop_requested,
    warn,
)
from gantrymq.plugin.model import MessageQueue
from gantrymq_admin.commands.options import topic_option
from gantrymq_admin.messages import Starts, first_of, newest_of, show

_PRODUCER_GROUP = "gantrymq-cli"
_OPTION_OF = {
    props.TAGS: "--tags",
    props.KEYS: "--keys",
    props.TIMER_DELAY_MS: "--delay",
    props.TIMER_DELAY_SEC: "--delay",
    props.TIMER_DELIVER_MS: "--deliver-at",
}
"""Return RocketMQ's properties set by options, with the name of each option."""

_CONSUMER_GROUP = "TOOLS_CONSUMER"  # exists on every broker, even if groups are not created automatically

queue_option = click.option(
    "--queue", metavar="ID", help="One queue: its id, or BROKER:ID where several brokers have the topic."
)
group_option = click.option(
    "-g", "--group", default=_CONSUMER_GROUP, show_default=True, metavar="NAME", help="Consumer group to read as."
)
expression_option = click.option(
    "-e", "--expression", default="*", show_default=True, metavar="TEXT", help="Tags wanted, such as 'TagA || TagB'."
)
type_option = click.option(
    "--expression-type", default="TAG", show_default=True, metavar="NAME", help="How to read it: TAG, SQL92."
)


_OF_QUERIES = "gantrymq_admin.commands.message_query:"  # not imported to send a message


@click.group(
    cls=CommandGroup,
    imported={
        name: ImportedCommand(_OF_QUERIES + name, purpose)
        for name, purpose in {
            "consumers": "Show for each group of the topic whether it consumed a message, how sure that is, and why.",
            "pending": "Show delayed messages that wait, the soonest first, and their total number.",
            "query": "Print the newest messages with a key, oldest first; queries every broker of the topic.",
            "view": "Print one message with all its stored fields.",
        }.items()
    },
)
def message() -> None:
    """Send, pull, follow and find messages."""


@message.command()
@topic_option
@click.option("--body", metavar="TEXT", help="What to send; without it, every line of stdin is a message.")
@click.option("--tags", metavar="TAG", help="The tag.")
@click.option("--keys", metavar="KEYS", help="Index keys, separated by blanks.")
@click.option("--delay", metavar="TIME", help="Deliver the messages that much later: 10s, 5m, 2h, 1d.")
@click.option("--deliver-at", metavar="TIME", help=f"Deliver them at this time: {LATER_TIMES}.")
@click.option("--property", "properties", multiple=True, metavar="NAME=VALUE", help="A property of your own.")
@queue_option
@click.option("--count", type=click.IntRange(min=1), default=1, show_default=True, help="Send each body so often.")
@click.option("-g", "--group", default=_PRODUCER_GROUP, show_default=True, metavar="NAME", help="Producer group.")
@namesrv_option
@output_option
def send(
    name: str,
    body: str | None,
    tags: str | None,
    keys: str | None,
    delay: str | None,
    deliver_at: str | None,
    properties: tuple[str, ...],
    queue: str | None,
    count: int,
    group: str,
    namesrv: str,
    output: str,
) -> None:
    """Send messages, one after the other; each is stored before the next one is sent.

    Prints a line for each. The first failure ends the command with exit code 1. A message that is stored, but less
    safely than its broker's settings ask for, such as SLAVE_NOT_AVAILABLE, does not end it, but the exit code is 1 too.
    The line of a message with --delay or --deliver-at ends with a handle, with which gantrymq message recall cancels it
    before it is delivered.
    """
    if delay is not None and deliver_at is not None:
        raise click.UsageError("give --delay or --deliver-at, not both")
    delay_ms = read_duration_ms(delay, param_hint="--delay") if delay is not None else None
    deliver_at_ms = (
        read_time_ms(deliver_at, times=LATER_TIMES, param_hint="--deliver-at") if deliver_at is not None else None
    )
    own, system = split_properties(dict(_property(text) for text in properties))
    bodies = [body.encode()] if body is not None else _stdin_lines()
    messages = (
        Message(
            name,
            b,
            tags,
            keys,
            properties=dict(own),
            delay_ms=delay_ms,
            deliver_at_ms=deliver_at_ms,
            system_properties=dict(system),
        )
        for b in bodies
        for _ in range(count)
    )
    run(_send(namesrv, group, name, queue, messages, _show_sent_json if output == "json" else _show_sent))


@message.command()
@click.argument("handle", metavar="HANDLE")
@topic_option
@namesrv_option
@output_option
def recall(handle: str, name: str, namesrv: str, output: str) -> None:
    """Cancel a message sent with --delay or --deliver-at, before it is delivered.

    HANDLE is printed by message send.
    """

    async def work() -> str:
        async with Client(namesrv) as client, client.producer(_PRODUCER_GROUP) as producer:
            try:
                return await producer.recall(name, handle)
            except InvalidParameter as problem:
                raise click.BadParameter(str(problem), param_hint="HANDLE") from problem

    message_id = run(work())
    if output == "json":
        print_json({"topic": name, "message_id": message_id})
        return
    click.echo(f"recalled {message_id}")


@message.command()
@topic_option
@queue_option
@click.option("--from-offset", type=click.IntRange(min=0), metavar="N", help="Begin at this queue offset.")
@click.option("--from-time", metavar="TIME", help=f"Begin at this store time: {TIMES}.")
@click.option("--newest", is_flag=True, help="Begin with the newest message instead, merged over all queues.")
@click.option("--to-time", metavar="TIME", help="With --newest: only messages stored then or before.")
@click.option("--to-offset", type=click.IntRange(min=0), metavar="N", help="With --newest: no higher queue offset.")
@click.option(
    "--skip", type=click.IntRange(min=0), default=0, metavar="N", help="With --newest: leave out the first N."
)
@click.option("--max", "most", type=click.IntRange(min=1), default=32, show_default=True, help="Messages, at most.")
@expression_option
@type_option
@group_option
@namesrv_option
@output_option
def pull(
    name: str,
    queue: str | None,
    from_offset: int | None,
    from_time: str | None,
    newest: bool,
    to_time: str | None,
    to_offset: int | None,
    skip: int,
    most: int,
    expression: str,
    expression_type: str,
    group: str,
    namesrv: str,
    output: str,
) -> None:
    """Print existing messages, queue by queue, from the oldest on, or the newest first. Commits nothing."""
    if from_offset is not None and (from_time is not None or newest):
        raise click.UsageError(f"give --from-offset or {'--newest' if newest else '--from-time'}, not both")
    if not newest and (to_time is not None or to_offset is not None or skip):
        raise click.UsageError("--to-time, --to-offset and --skip need --newest")
    from_ms = read_time_ms(from_time, param_hint="--from-time") if from_time is not None else None
    to_ms = read_time_ms(to_time, param_hint="--to-time") if to_time is not None else None

    wanted = {"expression": expression, "expression_type": expression_type}

    async def work() -> None:
        async with Client(namesrv) as client, client.reader(group=group) as reader:
            queues = _pick(await reader.queues(name), queue)
            if newest:
                stream = newest_of(reader, queues, begin_ms=from_ms or 0, end_ms=to_ms, end_offset=to_offset, **wanted)
                if not await _show_some(stream, skip, most, output):
                    say(f"nothing to print: {name} has no such messages")
                return
            starts = Starts(reader, queues, from_offset, from_ms, say)
            last = None
            async with aclosing(first_of(starts, most, **wanted)) as messages:
                async for last in messages:
                    show(last, output)
            if last is None:
                say(f"nothing to print: {name} has no such messages")
            elif rest := await starts.behind():
                at_most = "" if expression == "*" else "at most "
                say(f"ended after {most} (--max); {at_most}{rest} more follow")

    run(work())


@message.command()
@topic_option
@queue_option
@click.option("--from-beginning", is_flag=True, help="Begin with the oldest message instead of the next one.")
@click.option("--max", "most", type=click.IntRange(min=1), metavar="N", help="Stop after N messages.")
@expression_option
@type_option
@group_option
@namesrv_option
@output_option
def tail(
    name: str,
    queue: str | None,
    from_beginning: bool,
    most: int | None,
    expression: str,
    expression_type: str,
    group: str,
    namesrv: str,
    output: str,
) -> None:
    """Print messages as they arrive, from all queues, until Ctrl-C. Commits nothing.

    Prints on stderr when it is listening. If a broker disconnects, waits for it.
    """

    async def work() -> None:
        from gantrymq.plugin.real_world import real_world

        world, asked_to_stop = real_world(), stop_requested()
        outages = Outages(world.clock, warn)
        async with Client(namesrv, world=world) as client, client.reader(group=group) as consumer:
            queues = _pick(await consumer.queues(name), queue)
            edge = consumer.min_offset if from_beginning else consumer.max_offset
            starts = await asyncio.gather(*(edge(at) for at in queues))
            streams = [
                follow(
                    consumer,
                    at,
                    start,
                    clock=world.clock,
                    outages=outages,
                    problem=warn,
                    expression=expression,
                    expression_type=expression_type,
                )
                for at, start in zip(queues, starts, strict=True)
            ]
            say(f"following {len(queues)} queue{'' if len(queues) == 1 else 's'} of {name}; Ctrl-C ends it")
            await _print_until(asked_to_stop, streams, most, output)

    run(work())


# --- sending --------------------------------------------------------------------------------------------------------


async def _send(
    namesrv: str,
    group: str,
    topic: str,
    queue: str | None,
    messages: Iterable[Message],
    show: Callable[[SendResult], None],
) -> None:
    messages = iter(messages)
    first = next(messages, None)
    if first is None:
        raise ClientError("nothing was sent: stdin has no line with a message; --body gives one")
    async with Client(namesrv) as client, client.producer(group) as producer:
        chosen = _pick(await producer.queues(topic), queue)[0] if queue is not None else None
        less_safe = 0
        for one in chain([first], messages):
            sent = await producer.send(one, queue=chosen)
            show(sent)
            less_safe += sent.status is not SendStatus.SEND_OK
    if less_safe:
        count = "1 message is" if less_safe == 1 else f"{less_safe} messages are"
        say(f"{count} stored, but on fewer disks or brokers than the broker's settings ask for")
        raise click.exceptions.Exit(1)


def _stdin_lines() -> Iterable[bytes]:
    """Yield lines without line ends; empty ones are skipped, as there is no empty message."""
    stream = sys.stdin.buffer
    if sys.stdin.isatty():
        say("every line is a message; Ctrl-D ends")
    return (line for line in (raw.rstrip(b"\r\n") for raw in stream) if line)


def _property(text: str) -> tuple[str, str]:
    name, mark, value = text.partition("=")
    if not (name and mark and value):
        raise click.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--property")
    if name in _OPTION_OF:
        raise click.BadParameter(f"{name} has an option of its own: {_OPTION_OF[name]}", param_hint="--property")
    return name, value


def _show_sent(result: SendResult) -> None:
    queue = result.queue
    place = f"{queue.broker_name}:{queue.queue_id} @{result.queue_offset}"
    handle = f" {result.recall_handle}" if result.recall_handle else ""
    click.echo(f"{result.status.name} {result.message_id} {place}{handle}")


def _show_sent_json(result: SendResult) -> None:
    print_json(
        {
            "status": result.status.name,
            "message_id": result.message_id,
            "offset_id": result.offset_id,
            "topic": result.queue.topic,
            "broker": result.queue.broker_name,
            "queue": result.queue.queue_id,
            "queue_offset": result.queue_offset,
            "recall_handle": result.recall_handle,
        }
    )


# --- reading --------------------------------------------------------------------------------------------------------


def _pick(queues: Sequence[MessageQueue], wanted: str | None) -> Sequence[MessageQueue]:
    """Return all queues, or the one named by ``ID`` or ``BROKER:ID``."""
    if wanted is None:
        return queues
    broker, _, text = wanted.rpartition(":")
    if not text.isdecimal():
        raise click.BadParameter(f"{wanted!r} is neither ID nor BROKER:ID", param_hint="--queue")
    found = [q for q in queues if q.queue_id == int(text) and broker in ("", q.broker_name)]
    if len(found) > 1:
        choices = ", ".join(f"{q.broker_name}:{q.queue_id}" for q in found)
        raise click.BadParameter(f"several brokers have queue {text}: specify one of {choices}", param_hint="--queue")
    if not found:
        choices = ", ".join(f"{q.broker_name}:{q.queue_id}" for q in queues)
        raise ClientError(f"topic {queues[0].topic} has no queue {wanted}; it has {choices}")
    return found


async def _show_some(stream: AsyncGenerator[ReceivedMessage, None], skip: int, most: int, output: str) -> int:
    """Print up to *most* messages after the first *skip*; return how many."""
    count = 0
    async with aclosing(stream) as messages:
        async for each in messages:
            if skip:
                skip -= 1
                continue
            show(each, output)
            count += 1
            if count == most:
                break
    return count


async def _print_until(
    asked_to_stop: asyncio.Event, streams: Sequence[AsyncIterator[ReceivedMessage]], most: int | None, output: str
) -> None:
    """Print the messages of all streams; ends on request, after *most*, or with the first error."""
    arrived: asyncio.Queue[ReceivedMessage] = asyncio.Queue(maxsize=1000)  # a slow terminal slows the pulls

    async def forward(stream: AsyncIterator[ReceivedMessage]) -> None:
        async for found in stream:
            await arrived.put(found)

    async def show_all() -> None:
        shown = 0
        while most is None or shown < most:
            show(await arrived.get(), output)
            shown += 1

    loop = asyncio.get_running_loop()
    jobs: list[asyncio.Task[Any]] = [loop.create_task(asked_to_stop.wait()), loop.create_task(show_all())]
    jobs += [loop.create_task(forward(stream)) for stream in streams]
    try:
        done, _ = await asyncio.wait(jobs, return_when=asyncio.FIRST_COMPLETED)
        for job in done:
            job.result()
    finally:
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)
