"""``gantrymq filter explain|test``: shows the meaning of an expression and the messages it matches."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import aclosing
from typing import Any

import click

from gantrymq.client import Client, Reader, ReceivedMessage
from gantrymq.plugin.client import read as read_queue
from gantrymq.plugin.commands import (
    CommandGroup,
    namesrv_option,
    output_option,
    print_json,
    print_table,
    run,
    say,
    warn,
)
from gantrymq.plugin.model import MessageQueue
from gantrymq.plugin.properties import encode
from gantrymq_filter_sql92.explain import answer_of, format_expression, tree_lines
from gantrymq_filter_sql92.expression import CompiledExpression, read
from gantrymq_filter_sql92.nodes import ExpressionRefused
from gantrymq_filter_sql92.skipping import required_keys

_GROUP = "TOOLS_CONSUMER"  # exists on every broker, even if groups are not created automatically
_REST_SHOWN = 40  # characters


async def newest(namesrv: str, topic: str, most: int) -> list[ReceivedMessage]:
    """Return at most *most* messages from the ends of all queues.

    Raises:
        ClientError: no such topic, or a broker that does not answer.
    """
    async with Client(namesrv) as client, client.reader(group=_GROUP) as consumer:
        queues = await consumer.queues(topic)
        of_each = -(-most // len(queues))
        found = await asyncio.gather(*(_newest_of(consumer, queue, of_each) for queue in queues))
    return [message for messages in found for message in messages][:most]


async def _newest_of(consumer: Reader, queue: MessageQueue, most: int) -> list[ReceivedMessage]:
    first, end = await asyncio.gather(consumer.min_offset(queue), consumer.max_offset(queue))
    start = max(first, end - most)
    if start >= end:
        return []
    found = []
    async with aclosing(read_queue(consumer, queue, start)) as messages:
        async for message in messages:
            found.append(message)
            if message.queue_offset >= end - 1:
                break
    return found


def _properties(_context: click.Context, _option: click.Parameter, texts: tuple[str, ...]) -> dict[str, str] | None:
    pairs = [text.partition("=") for text in texts]
    for text, (name, mark, value) in zip(texts, pairs, strict=True):
        if not (name and mark and value) or {"\x01", "\x02"} & set(text):
            raise click.BadParameter(f"{text!r} is not NAME=VALUE")
    return {name: value for name, _, value in pairs} if pairs else None


property_option = click.option(
    "-p",
    "--property",
    "properties",
    multiple=True,
    metavar="NAME=VALUE",
    callback=_properties,
    help="A property of a message; as often as needed.",
)


@click.group("filter", cls=CommandGroup)
def filter_() -> None:
    """Explain and test SQL92 expressions."""


@filter_.command()
@click.argument("text", metavar="EXPR")
@property_option
@output_option
def explain(text: str, properties: dict[str, str] | None, output: str) -> None:
    """Show the tree of an expression, the properties that it needs, and whether block filters can skip messages.

    With -p, also the result of each part for a message with these properties. No broker is contacted.
    """
    expression, rest = _compiled(text)
    stored = None if properties is None else encode(properties)
    required = required_keys(expression.tree)
    if output == "json":
        document = _as_json(expression, rest)
        document["block_filter"] = None if required is None else required.name
        document["tree"] = list(tree_lines(expression.tree, stored))
        print_json(document | ({} if stored is None else _answer_as_json(expression, stored)))
        return
    click.echo(format_expression(expression.tree))
    for line in tree_lines(expression.tree, stored):
        click.echo(f"  {line}")
    click.echo(f"needs {', '.join(expression.names) or 'no properties'}")
    if required is None:
        click.echo("block filters cannot be used: they need = or IN with at most 32 values of one property")
    else:
        click.echo(f"block filters can be used, by property {required.name}")
    if stored is not None:
        click.echo(_sentence(expression, stored))


@filter_.command()
@click.argument("text", metavar="EXPR")
@property_option
@click.option("-t", "--topic", metavar="NAME", help="Take messages of this topic instead of -p.")
@click.option(
    "--max", "most", type=click.IntRange(1, 100_000), default=100, show_default=True, help="Messages, at most."
)
@namesrv_option
@output_option
def test(text: str, properties: dict[str, str] | None, topic: str | None, most: int, namesrv: str, output: str) -> None:
    """Show whether a consumer with this expression receives a message.

    The message has the properties of -p, or none; the exit code is 1 if a consumer does not receive it. With -t the
    newest messages of a topic are tested, the same number from each queue, and the exit code is 1 if it receives none.
    """
    if topic is not None and properties is not None:
        raise click.UsageError("give -p or -t, not both")
    expression, rest = _compiled(text)
    if topic is None:
        stored = encode(properties or {})
        if output == "json":
            print_json(_as_json(expression, rest) | _answer_as_json(expression, stored))
        else:
            click.echo(_sentence(expression, stored))
        taken = expression.matches(stored)
    else:
        taken = _test_topic(expression, rest, topic, most, namesrv, output)
    raise SystemExit(0 if taken else 1)


def _compiled(text: str) -> tuple[CompiledExpression, str]:
    """Return the expression and the unread rest of the text."""
    try:
        reading = read(text)
    except ExpressionRefused as refusal:
        line_start = text.rfind("\n", 0, refusal.at) + 1
        line = text[line_start:].partition("\n")[0]
        if len(line) <= 200:
            say(line.replace("\t", " "))
            say(" " * (refusal.at - line_start) + "^")
        raise
    rest = text[reading.end :]
    if rest:
        warn(f"character {reading.end + 1}: the condition ends here; {rest[:_REST_SHOWN]!a} is not looked at")
    return CompiledExpression(text, reading.tree), rest


def _as_json(expression: CompiledExpression, rest: str) -> dict[str, Any]:
    read_as = format_expression(expression.tree)
    return {"expression": expression.text, "read_as": read_as, "not_read": rest, "needs": list(expression.names)}


def _answer_as_json(expression: CompiledExpression, stored: bytes) -> dict[str, Any]:
    return {"answer": answer_of(expression.tree, stored), "matches": expression.matches(stored)}


def _sentence(expression: CompiledExpression, stored: bytes) -> str:
    gets = "gets" if expression.matches(stored) else "does not get"
    return f"{answer_of(expression.tree, stored)}: a consumer {gets} the message"


def _test_topic(expression: CompiledExpression, rest: str, topic: str, most: int, namesrv: str, output: str) -> bool:
    from gantrymq_filter_sql92.commands import newest

    messages = run(newest(namesrv, topic, most))
    stored = [encode(each.properties) for each in messages]
    taken = sum(map(expression.matches, stored))
    if output == "json":
        rows = [
            {"broker": each.broker_name, "queue": each.queue_id, "queue_offset": each.queue_offset}
            | _answer_as_json(expression, properties)
            for each, properties in zip(messages, stored, strict=True)
        ]
        print_json(_as_json(expression, rest) | {"tried": len(rows), "taken": taken, "messages": rows})
        return taken > 0
    print_table(
        ["Message", "Answer", *expression.names],
        [
            [
                f"{each.broker_name}:{each.queue_id} @{each.queue_offset}",
                answer_of(expression.tree, properties),
                *_shown(each.properties, expression.names),
            ]
            for each, properties in zip(messages, stored, strict=True)
        ],
    )
    click.echo(f"takes {taken} of {len(messages)} messages of {topic}")
    return taken > 0


def _shown(properties: dict[str, str], names: tuple[str, ...]) -> Iterator[str]:
    return (properties.get(name, "-") for name in names)
