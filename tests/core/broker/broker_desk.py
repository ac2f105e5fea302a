"""A complete broker in a simulated world, accessed over its network like by a client."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from gantrymq.broker import BrokerServer
from gantrymq.broker.settings import SCHEMA
from gantrymq.config import Settings
from gantrymq.formats.batch_body import encode_batch
from gantrymq.formats.record import RecordView, iter_records
from gantrymq.loose_json import dumps, loads
from gantrymq.plugins import Plugins
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.codes import CURRENT_VERSION, LanguageCode
from gantrymq.remoting.command import Command, request
from gantrymq.remoting.connection import Connection
from gantrymq.remoting.headers.send import SendMessageRequest
from gantrymq.world import World
from gantrymq_testing.simulated import Trace, simulate

T = TypeVar("T")
START_MS = 1_700_000_000_000
ADDRESS = "10.0.0.1:10911"
QUICKLY_S = 600.0  # virtual
LIMIT_S = 24 * 3600.0


class Peer:
    """A connection to the broker that records the broker's requests."""

    def __init__(self, world: World) -> None:
        self.client = RemotingClient(world, handler=self)
        self.asked: list[Command] = []

    def requests(self, connection: Connection, commands: Sequence[Command]) -> None:
        """Record the broker's requests."""
        self.asked.extend(commands)

    async def ask(
        self,
        code: int,
        ext: dict[str, str] | None = None,
        body: bytes | None = None,
        *,
        language: int = LanguageCode.JAVA,
        version: int = CURRENT_VERSION,
    ) -> Command:
        """Send a request to the broker."""
        command = request(code, ext, body)
        command.language, command.version = language, version
        return await (await self.client.connect(ADDRESS)).call(command, QUICKLY_S)

    def later(self, code: int, ext: dict[str, str] | None = None, body: bytes | None = None) -> asyncio.Task[Command]:
        """Send a request to the broker without waiting for the answer."""
        return asyncio.ensure_future(self.ask(code, ext, body))

    async def send(
        self, topic: str, body: bytes = b"body", *, code: int = 310, properties: str = "", **fields: Any
    ) -> Command:
        """Send one message to queue 0 of *topic*."""
        header = send_header(topic, properties=properties, **fields)
        return await self.ask(code, header.to_ext() if code == 10 else header.to_ext_v2(), body)

    async def send_batch(self, topic: str, entries: Sequence[tuple[bytes, bytes]], **fields: Any) -> Command:
        """Send a batch of (body, property text)."""
        body = encode_batch([(0, each, own) for each, own in entries])
        return await self.send(topic, body, code=320, batch=True, **fields)

    async def pull(self, topic: str, offset: int = 0, *, wait_s: float = 0, **fields: str) -> Command:
        """Pull from queue 0 of *topic* with the subscription ``*`` in the request."""
        return await self.ask(11, pull_ext(topic, offset, wait_s=wait_s, **fields))

    async def heartbeat(self, group: str, topic: str = "T", *, client_id: str = "c1", **fields: Any) -> Command:
        """Join *group* with one subscription."""
        subscription = {"topic": topic, "subString": "*", "subVersion": 1, "expressionType": "TAG"}
        consumer = {
            "groupName": group,
            "consumeType": "CONSUME_PASSIVELY",
            "messageModel": "CLUSTERING",
            "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
            "subscriptionDataSet": [subscription],
            "unitMode": False,
            **fields,
        }
        return await self.ask(34, None, dumps({"clientID": client_id, "consumerDataSet": [consumer]}))


class Desk(Peer):
    """The broker and a first peer."""

    def __init__(self, world: World, server: BrokerServer) -> None:
        super().__init__(world)
        self.world = world
        self.clock = world.clock
        self.server = server
        self.tables = server.tables
        self._peers: list[Peer] = [self]

    def peer(self) -> Peer:
        """One more connection."""
        self._peers.append(Peer(self.world))
        return self._peers[-1]

    async def close(self) -> None:
        """Close the connections, then the broker."""
        for peer in self._peers:
            await peer.client.close()
        await self.server.stop()
        await self.world.workers.close()


def send_header(topic: str, **fields: Any) -> SendMessageRequest:
    """The header of a send to queue 0 of *topic*."""
    values: dict[str, Any] = {
        "producer_group": "PG",
        "default_topic": "TBW102",
        "default_topic_queue_nums": 4,
        "queue_id": 0,
        "sys_flag": 0,
        "born_timestamp": START_MS,
        "flag": 0,
        "properties": "",
    }
    return SendMessageRequest(topic=topic, **{**values, **fields})


def pull_ext(topic: str, offset: int = 0, *, wait_s: float = 0, **fields: str) -> dict[str, str]:
    """Fields of a pull from queue 0 with a subscription to everything, perhaps held."""
    return {
        "consumerGroup": "CG",
        "topic": topic,
        "queueId": "0",
        "queueOffset": str(offset),
        "maxMsgNums": "32",
        "sysFlag": str(4 | (2 if wait_s else 0)),
        "commitOffset": "0",
        "suspendTimeoutMillis": str(round(wait_s * 1000)),
        "subscription": "*",
        "subVersion": "0",
        "expressionType": "TAG",
        **fields,
    }


def topic_ext(topic: str, queues: int = 4, **fields: str) -> dict[str, str]:
    """Fields of a request that creates or updates a topic."""
    return {
        "topic": topic,
        "defaultTopic": "TBW102",
        "readQueueNums": str(queues),
        "writeQueueNums": str(queues),
        "perm": "6",
        "topicFilterType": "SINGLE_TAG",
        **fields,
    }


def records(answer: Command) -> list[RecordView]:
    """The messages in the answer to a pull."""
    return list(iter_records(answer.payload))


def body_of(answer: Command) -> Any:
    """The JSON body of an answer."""
    return loads(answer.payload)


async def commit(desk: Peer, offset: int, *, group: str = "CG", topic: str = "T") -> None:
    """Commit an offset of queue 0."""
    ext = {"consumerGroup": group, "topic": topic, "queueId": "0", "commitOffset": str(offset)}
    assert (await desk.ask(15, ext)).code == 0


async def three_messages_one_consumed(desk: Peer) -> None:
    """Send three messages to topic T, pull them as a member of CG, and commit the first."""
    for _ in range(3):
        await desk.send("T")
    await desk.heartbeat("CG")
    await desk.pull("T")
    await commit(desk, 1)


def settings_for(plugins: Plugins, **values: Any) -> Settings:
    """Settings of a broker with these *plugins*, the memory store's for one."""
    settings = Settings([*SCHEMA, *plugins.config])
    for key, value in {"bindAddress": "10.0.0.1", "storePathRootDir": "/store", "store": "memory", **values}.items():
        settings.set(key, value, "the test")
    return settings


def run_broker(
    plugins: Plugins,
    main: Callable[[Desk], Awaitable[T]],
    *,
    world_of: Callable[[World], World] = lambda world: world,
    trace: Trace | None = None,
    limit_s: float = LIMIT_S,
    **values: Any,
) -> T:
    """Start a broker with these settings, run *main* for up to *limit_s* virtual seconds, stop."""

    async def run(world: World) -> T:
        world = world_of(world)
        settings = settings_for(plugins, **{"brokerName": "broker-a", **values})
        desk = Desk(world, BrokerServer(world, settings, plugins))
        await desk.server.start()
        try:
            return await main(desk)
        finally:
            await desk.close()

    return simulate(1, run, start_ms=START_MS, trace=trace, limit_s=limit_s)
