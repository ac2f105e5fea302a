"""``gantrymq quickstart``: a name server and a broker on free loopback ports, and a short demonstration.

The log files have 4 MiB instead of RocketMQ's 1 GiB, to save disk space.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gantrymq.cli.server_process import log_options, set_up_logs
from gantrymq.cli.servers import CONSOLE
from gantrymq.commands.output import FilledPath, output_option, print_json, warn
from gantrymq.commands.run import run

if TYPE_CHECKING:
    from gantrymq.cli.serving import Servers
    from gantrymq.world import World

LOOPBACK = "127.0.0.1"
TOPIC = "QuickstartTopic"
TAG = "TagA"
GRPC_LISTENER = "sdk"
LOG_FILE_BYTES = 4 * 1024 * 1024
QUEUE_FILE_BYTES = 60_000
MESSAGES = 6
ROUTE_S = 10.0  # time limit for the topic's registration with the name server


@click.command()
@click.option("--exit", "leave", is_flag=True, help="Stop after the demonstration instead of serving on.")
@click.option(
    "--store",
    type=FilledPath(),
    metavar="DIR",
    help="Keep the store in this folder; otherwise it is temporary.",
)
@log_options("warning")
@output_option
def quickstart(leave: bool, store: str | None, log_level: str, log_file: str | None, output: str) -> None:
    """Demonstrate a broker on free loopback ports, and serve until Ctrl-C."""
    from gantrymq.cli.serving import serve
    from gantrymq.world.real import raise_descriptor_limit

    set_up_logs(log_level, log_file)
    tell: Callable[[str], object] = click.echo if output == "text" else lambda sentence: None
    temporary = tempfile.TemporaryDirectory(prefix="gantrymq-quickstart-") if store is None else nullcontext(store)
    with temporary as folder:
        servers = _servers(Path(folder).absolute())
        for note in servers.notes:
            warn(note)
        raise_descriptor_limit()
        show = Demonstration(tell, output == "json", leave, temporary=store is None)
        run(serve(servers, show.announce, show.run))


def _servers(root: Path) -> Servers:
    """Return both servers, configured for free loopback ports, with all files below *root*."""
    from gantrymq.cli.server_settings import ServerArguments, broker_settings, name_server_settings
    from gantrymq.cli.serving import Servers
    from gantrymq.config import free_port_keys
    from gantrymq.remoting.listeners import GRPC
    from gantrymq.world.real import real_world

    world = real_world()
    of_broker = _pairs(
        storePathRootDir=root,
        bindAddress=LOOPBACK,
        brokerIP1=LOOPBACK,
        brokerName="broker-a",
        listenPort=0,
        listeners="",
        advertisedAddresses="",
        namesrvAddr="",
        mappedFileSizeCommitLog=LOG_FILE_BYTES,
        mappedFileSizeConsumeQueue=QUEUE_FILE_BYTES,
    )
    of_name_server = _pairs(
        bindAddress=LOOPBACK,
        listenPort=0,
        listeners="",
        kvConfigPath=root / "namesrv" / "kvConfig.json",
    )
    broker = broker_settings(world, ServerArguments("quickstart", pairs=of_broker))
    for key in free_port_keys(broker.plugins.config):
        broker.settings.set(key, 0, "quickstart")
    if GRPC in broker.plugins.protocols and any(each.name == "pop" for each in broker.plugins.services):
        broker.settings.set("listeners", f"{GRPC_LISTENER}={GRPC}://{LOOPBACK}:0", "quickstart")
    if CONSOLE in broker.settings.schema:
        broker.settings.set(CONSOLE, f"{LOOPBACK}:0", "quickstart")
    return Servers(world, name_server_settings(world, ServerArguments("quickstart", pairs=of_name_server)), broker)


def _pairs(**values: object) -> tuple[str, ...]:
    return tuple(f"{key}={value}" for key, value in values.items())


class Demonstration:
    """Demonstration that creates a topic, sends messages, consumes one tag, and prints each step."""

    def __init__(self, tell: Callable[[str], object], as_json: bool, leave: bool, *, temporary: bool) -> None:
        self._tell = tell
        self._as_json = as_json
        self._leave = leave
        self._temporary = temporary

    def announce(self, servers: Servers) -> None:
        """Print the addresses and the store."""
        line = servers.ready_line()
        if self._as_json:
            print_json(line)
        kept = "temporary, gone when this stops" if self._temporary else "kept"
        self._tell(f"1. started in {line['start_ms']} ms")
        self._tell(f"     name server  {line['namesrv']}")
        self._tell(f"     broker       {line['broker']}")
        if endpoint := line.get("listeners", {}).get(GRPC_LISTENER):
            self._tell(f"     gRPC         {endpoint} (endpoint of the 5.x SDKs)")
        self._tell(f"     store        {line['store']} ({kept}; log files of {LOG_FILE_BYTES >> 20} MiB, not 1 GiB)")
        for name, url in line.get("pages", {}).items():
            self._tell(f"     {name:<12} {url}")
        self._tell(f"     durability   {line['flush']}: a message is acknowledged when it is on disk")

    async def run(self, servers: Servers) -> None:
        """Run the demonstration, then return or wait until a signal cancels this."""
        address = servers.name_server_address
        await self._create_topic(servers)
        sent = await self._send(address, servers.world)
        received, passed_over = await self._consume(address, servers.world)
        if self._as_json:
            print_json({"topic": TOPIC, "sent": sent, "tag": TAG, "received": received, "not_wanted": passed_over})
        self._next_steps(address)
        if not self._leave:
            await asyncio.Event().wait()

    async def _create_topic(self, servers: Servers) -> None:
        from gantrymq.client import Client
        from gantrymq.errors import NoRoute
        from gantrymq.model.topic import TopicConfig

        async with Client(servers.name_server_address, world=servers.world) as client, client.admin as admin:
            await admin.create_topic(servers.broker_address, TopicConfig(TOPIC, read_queues=4, write_queues=4))
            clock = servers.world.clock
            deadline = clock.monotonic() + ROUTE_S
            while True:
                try:
                    await admin.route(TOPIC)
                    break
                except NoRoute:
                    if clock.monotonic() > deadline:
                        raise
                    await clock.sleep(0.02)
        self._tell(f"2. created the topic {TOPIC} with 4 queues")

    async def _send(self, address: str, world: World) -> int:
        from gantrymq.client import Client, Message

        self._tell(f"3. sending {MESSAGES} messages, every other one with {TAG}")
        async with Client(address, world=world) as client, client.producer("quickstart_producer") as producer:
            for number in range(MESSAGES):
                tag = TAG if number % 2 == 0 else "TagB"
                body = f"message {number}".encode()
                result = await producer.send(Message(TOPIC, body, tags=tag, keys=f"key{number}"))
                self._tell(f"     {tag}  queue {result.queue.queue_id}  offset {result.queue_offset}  {body.decode()}")
        return MESSAGES

    async def _consume(self, address: str, world: World) -> tuple[list[str], int]:
        """Return the bodies of the messages with the tag, and the number of other messages."""
        from gantrymq.client import Client
        from gantrymq.client.reading.queue_reading import read

        bodies: list[str] = []
        seen = 0
        async with Client(address, world=world) as client, client.reader(group="quickstart_consumer") as consumer:
            for queue in await consumer.queues(TOPIC):
                start, end = await consumer.min_offset(queue), await consumer.max_offset(queue)
                seen += end - start
                bodies += [found.body.decode() async for found in read(consumer, queue, start, end=end, expression=TAG)]
        self._tell(f"4. consumed with a subscription to {TAG}: {len(bodies)} of {seen} messages")
        for body in sorted(bodies):
            self._tell(f"     {body}")
        return sorted(bodies), seen - len(bodies)

    def _next_steps(self, address: str) -> None:
        if self._leave:
            self._tell("Done. Without --exit the servers stay up and you can try more.")
            return
        self._tell("Try next, in another terminal (any RocketMQ client works with the same address):")
        self._tell(f"     export NAMESRV_ADDR={address}")
        self._tell("     gantrymq topic list")
        self._tell(f"     gantrymq message send -t {TOPIC} --body hello")
        self._tell(f"     gantrymq message pull -t {TOPIC} -e {TAG}")
        self._tell("     gantrymq status")
        self._tell("Ctrl-C stops it.")
