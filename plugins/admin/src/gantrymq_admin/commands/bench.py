"""``gantrymq bench``: throughput and latency of a cluster, or of two clusters measured in alternation."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any, TypeVar

import attrs
import click

from gantrymq.client import Admin, Client, Producer
from gantrymq.plugin.commands import (
    CommandGroup,
    namesrv_option,
    output_option,
    print_json,
    run,
    say,
    warn,
)
from gantrymq.plugin.world import World
from gantrymq_admin.bench.loads import MODES, about, call_of, drained, messages_of, one_by_one, own_name, own_place
from gantrymq_admin.bench.measuring import Limit, load, ratios, summary, turns
from gantrymq_admin.commands.lists import print_records
from gantrymq_admin.commands.options import cluster_option, legal_topic

Command = TypeVar("Command", bound=Callable[..., Any])
Document = dict[str, Any]

_PRODUCE_CELL = ("mode", "body_bytes", "in_flight")
_CONSUME_CELL = ("body_bytes",)
_FILL_BATCH_BYTES = 256 * 1024  # messages per request when a backlog is created
_FILL_IN_FLIGHT = 8
_PAIR_ROUNDS = 3
_CLOSE_S = 2.0  # time limit for closing a consumer with a failed measurement


@attrs.frozen
class Asked:
    """Options of both commands."""

    namesrv: str
    vs: str | None
    rounds: int | None
    cluster: str | None
    queues: int
    sizes: Sequence[int]
    keep: bool
    output: str

    @property
    def servers(self) -> list[str]:
        """Return the clusters to measure."""
        return [self.namesrv, *([self.vs] if self.vs else [])]


def _shared(command: Command) -> Command:
    for option in (
        output_option,
        namesrv_option,
        click.option("--keep", is_flag=True, help="Leave the topic that was made for this."),
        click.option(
            "--size", "sizes", type=click.IntRange(1, 4_000_000), multiple=True, default=(1024,), show_default=True,
            metavar="BYTES", help="Of a body; may be repeated.",
        ),
        click.option(
            "--queues", type=click.IntRange(1, 1024), default=8, show_default=True, help="Of the topic, at each broker."
        ),
        cluster_option,
        click.option(
            "--rounds", type=click.IntRange(1), help=f"Measure all so often. [default: 1; with --vs {_PAIR_ROUNDS}]"
        ),
        click.option(
            "--vs", metavar="ADDR", help="Name servers of another cluster, which takes turns with the first."
        ),
    ):  # fmt: skip
        command = option(command)
    return command


@click.group(cls=CommandGroup)
def bench() -> None:
    """Measure the throughput and latency of brokers, with the load of this one process."""


@bench.command()
@click.option("-t", "--topic", callback=legal_topic, metavar="NAME", help="Send there, and make no topic.")
@click.option(
    "--mode",
    "modes",
    type=click.Choice(MODES),
    multiple=True,
    default=("sync",),
    show_default=True,
    help="How to send; may be repeated.",
)
@click.option(
    "--in-flight",
    type=click.IntRange(1, 10_000),
    multiple=True,
    default=(1, 16, 256),
    show_default=True,
    metavar="N",
    help="Calls under way at any time; may be repeated.",
)
@click.option("--batch", type=click.IntRange(1, 10_000), default=32, show_default=True, help="Messages of a batch.")
@click.option("--count", type=click.IntRange(1), metavar="N", help="Send N messages, instead of --seconds.")
@click.option("--seconds", type=click.FloatRange(0.1), default=5.0, show_default=True, help="How long, each time.")
@click.option(
    "--warmup", type=click.FloatRange(0), default=1.0, show_default=True, help="Seconds before, which do not count."
)
@_shared
def produce(
    topic: str | None,
    modes: Sequence[str],
    in_flight: Sequence[int],
    batch: int,
    count: int | None,
    seconds: float,
    warmup: float,
    **shared: Any,
) -> None:
    """Measure sends: rate, latency, and the client's CPU time per message.

    Creates a topic and deletes it afterwards. Shows whether brokers flush before they respond, as this decides much of
    the result.
    """
    asked = Asked(**shared)
    limit = Limit(count, seconds, warmup)

    async def cell(tools: _Tools, name: str, mode: str, size: int, under_way: int) -> Document:
        call = call_of(tools.producer, mode, name, tools.body(size), batch)
        figures = await load(
            call,
            limit,
            in_flight=under_way,
            clock=tools.world.clock,
            cpu_s=time.process_time,
            each=messages_of(mode, batch),
        )
        return {"mode": mode, "body_bytes": size, "in_flight": under_way, **figures.document(size)}

    async def measure(tools: _Tools) -> list[Document]:
        async with AsyncExitStack() as stack:
            name = topic or await tools.place(stack, asked, group=False)
            return [
                await cell(tools, name, mode, size, under_way)
                for mode in modes
                for size in asked.sizes
                for under_way in in_flight
            ]

    _show(asked, "produce", _PRODUCE_CELL, run(_rounds(asked, measure, in_flight)))


@bench.command()
@click.option("--count", type=click.IntRange(2), default=50_000, show_default=True, help="Messages of the backlog.")
@click.option(
    "--single", type=click.IntRange(0), default=1000, show_default=True, help="Messages sent one by one afterwards."
)
@_shared
def consume(count: int, single: int, **shared: Any) -> None:
    """Measure a consumer: reading a backlog, then the latency of single messages from send to delivery.

    Creates and fills a topic and a group, and deletes them afterwards.
    """
    asked = Asked(**shared)

    async def backlog(tools: _Tools, name: str, size: int) -> Document:
        body = tools.body(size)
        each = max(1, min(1000, _FILL_BATCH_BYTES // (size + 200)))
        clock = tools.world.clock
        call = call_of(tools.producer, "batch", name, body, each)
        filled = await load(
            call, Limit(count), in_flight=_FILL_IN_FLIGHT, clock=clock, cpu_s=time.process_time, each=each
        )
        async with Client(tools.namesrv) as client:  # with connections of its own
            consumer = client.consumer(name, name, consume_from="first")
            try:
                messages = aiter(consumer)
                found = await drained(messages, filled.messages, clock, time.process_time)
                times = await one_by_one(tools.producer, name, body, messages, single, clock)
                del messages  # otherwise its last message counts as in flight
            finally:
                await consumer.close(_CLOSE_S)
        document = attrs.evolve(found.figures, times_s=times).document(size)
        document.pop("calls")
        return {"body_bytes": size, "first_ms": round(found.first_s * 1000, 1), **document, "single_messages": single}

    async def measure(tools: _Tools) -> list[Document]:
        cells = []
        for size in asked.sizes:
            async with AsyncExitStack() as stack:
                cells.append(await backlog(tools, await tools.place(stack, asked, group=True), size))
        return cells

    _show(asked, "consume", _CONSUME_CELL, run(_rounds(asked, measure, ())))


# --- measuring ------------------------------------------------------------------------------------------------------


@attrs.frozen
class _Tools:
    """The context of a measurement at one cluster."""

    namesrv: str
    world: World
    admin: Admin
    producer: Producer

    def body(self, size: int) -> bytes:
        return self.world.random.randbytes(size)

    async def place(self, stack: AsyncExitStack, asked: Asked, *, group: bool) -> str:
        name = own_name(self.world)
        kept = "kept" if asked.keep else "deleted afterwards"
        say(f"{self.namesrv}: topic {name} with {asked.queues} queues at each broker; {kept}")
        await stack.enter_async_context(
            own_place(
                self.admin,
                name,
                asked.queues,
                asked.cluster,
                group=group,
                keep=asked.keep,
                clock=self.world.clock,
                tell=warn,
            )
        )
        return name


async def _rounds(
    asked: Asked, measure: Callable[[_Tools], Awaitable[list[Document]]], in_flight: Sequence[int]
) -> Document:
    """All measurements."""
    from gantrymq.plugin.real_world import real_world

    world = real_world()
    rounds = asked.rounds or (_PAIR_ROUNDS if asked.vs else 1)
    async with AsyncExitStack() as stack:
        tools: dict[str, _Tools] = {}
        for server in asked.servers:
            client = await stack.enter_async_context(Client(server))
            under_way = max([*in_flight, _FILL_IN_FLIGHT])
            producer = client.producer("gantrymq-bench", max_under_way=under_way)
            tools[server] = _Tools(server, world, client.admin, producer)
        clusters = [{"namesrv": server, "brokers": await about(tools[server].admin, asked.cluster)} for server in tools]
        cells: list[Document] = []
        for number, servers in turns(asked.servers, rounds):
            for server in servers:
                if rounds > 1:
                    say(f"round {number} of {rounds}: {server}")
                cells += [{"namesrv": server, "round": number, **cell} for cell in await measure(tools[server])]
    return {"rounds": rounds, "clusters": clusters, "cells": cells}


# --- showing --------------------------------------------------------------------------------------------------------

_COLUMNS = {
    "namesrv": "Name server",
    "mode": "Mode",
    "body_bytes": "Bytes",
    "in_flight": "In flight",
    "messages": "Messages",
    "first_ms": "First after ms",
    "messages_per_s": "Messages/s",
    "mib_per_s": "MiB/s",
    "p50_ms": "p50 ms",
    "p99_ms": "p99 ms",
    "max_ms": "max ms",
    "client_cpu_us_per_message": "Client CPU us/message",
}


def _show(asked: Asked, what: str, names: Sequence[str], found: Document) -> None:
    rows = summary(found["cells"], names)
    compared = ratios(found["cells"], names, asked.namesrv, asked.vs) if asked.vs else []
    if asked.output == "json":
        print_json({"measured": what, **found, "medians": rows, "ratios": compared})
        return
    for cluster in found["clusters"]:
        for broker in cluster["brokers"]:
            say(f"{cluster['namesrv']}: {broker['broker']} at {broker['address']}, {broker['flush']}")
    if what == "consume":
        say("p50, p99 and max are of single messages, from the send to the consumer's loop")
    print_records(rows, [(_COLUMNS[name], _shown(name)) for name in _COLUMNS if name in rows[0]])
    if compared:
        say(f"messages/s at {asked.namesrv} by those at {asked.vs}, of the same round:")
        print_records(compared, [*((_COLUMNS[name], name) for name in names), "least", "median", "greatest"])


def _shown(name: str) -> Callable[[Any], object]:
    """Return a column whose numbers have thousands separators."""

    def read(row: Document) -> object:
        value = row[name]
        if isinstance(value, float):
            return f"{value:,.0f}" if value >= 1000 else f"{value:,.2f}"
        return f"{value:,}" if isinstance(value, int) else value

    return read
