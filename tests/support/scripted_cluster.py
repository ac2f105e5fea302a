"""A cluster of scripted servers, in memory on a virtual clock or on real sockets of this machine."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from gantrymq.formats.batch_body import decode_batch
from gantrymq.formats.record import encode_record
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command
from gantrymq.remoting.connection import Connection
from gantrymq.remoting.server import RemotingServer
from gantrymq.world import World
from gantrymq_testing import simulated

Answer = Callable[[Command], Command | None]
LIMIT_S = 3600.0


class Peer:
    """A server that answers by request code and keeps what it was asked.

    An answer is a Command, a function of the request that returns one, or None for silence. Unknown codes get 3.
    """

    def __init__(self, world: World, host: str, port: int) -> None:
        self.address = f"{host}:{port}"
        self.asked: list[Command] = []
        self.answers: dict[int, Command | Answer | None] = {}
        self.connections: list[Connection] = []
        self._server = RemotingServer(world, self)
        self._where = (host, port)

    def hold(self, request: Command, seconds: float, answer: Answer) -> None:
        """Answer *request* in *seconds*, unless the peer is silent then; the function in `answers` returns None."""
        connection = self._asking

        def end() -> None:
            held = self.answers.get(request.code) and answer(request)
            if held and not connection.closed:
                connection.reply(request, held)

        asyncio.get_running_loop().call_later(seconds, end)

    async def start(self) -> Peer:
        host, port = await self._server.start(*self._where)
        self.address, self._where = f"{host}:{port}", (host, port)
        return self

    async def stop(self) -> None:
        await self._server.stop()

    def requests(self, connection: Connection, commands: list[Command]) -> None:
        if connection not in self.connections:
            self.connections.append(connection)
        for command in commands:
            self.asked.append(command)
            answer = self.answers.get(command.code, Command(3, remark="not supported"))
            if callable(answer):
                self._asking = connection
                answer = answer(command)
            if answer is not None:
                connection.reply(command, Command(answer.code, remark=answer.remark, ext=answer.ext, body=answer.body))

    def of(self, code: int) -> list[Command]:
        """The requests of one code, in order."""
        return [command for command in self.asked if command.code == code]


class Cluster:
    """A name server at ns:9876 and brokers a, b, ... at <name>:10911 with four queues of topic T each.

    *real*: on free ports of this machine's loopback address instead.
    """

    def __init__(
        self,
        world: World,
        brokers: str = "ab",
        *,
        queues: int = 4,
        topics: tuple[str, ...] = ("T",),
        real: bool = False,
    ) -> None:
        self.ns = Peer(world, "127.0.0.1", 0) if real else Peer(world, "ns", 9876)
        self.brokers = {name: Peer(world, *(("127.0.0.1", 0) if real else (name, 10911))) for name in brokers}
        self.queues = queues
        self.topics = set(topics)
        self.ns.answers[RequestCode.GET_ROUTEINFO_BY_TOPIC] = self._route
        for peer in self.brokers.values():
            stored = _Stored()
            for code in (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE):
                peer.answers[code] = stored.answer
            peer.answers[RequestCode.HEART_BEAT] = Command(0)
            peer.answers[RequestCode.UNREGISTER_CLIENT] = Command(0)

    @property
    def namesrv(self) -> str:
        """Address of the name server; known before the start where it is in memory."""
        return self.ns.address

    async def __aenter__(self) -> Cluster:
        for peer in (self.ns, *self.brokers.values()):
            await peer.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        for peer in (self.ns, *self.brokers.values()):
            await peer.stop()

    def sends(self) -> list[str]:
        """Which broker got each send, broker by broker."""
        codes = (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)
        return [name for name, peer in self.brokers.items() for code in codes for _ in peer.of(code)]

    def _route(self, request: Command) -> Command:
        topic = (request.ext or {})["topic"]
        if topic not in self.topics:
            return Command(17, remark=f"No topic route info in name server for the topic: {topic}")
        perm = 7 if topic == "TBW102" else 6
        body = {
            "brokerDatas": [
                {"brokerAddrs": {"0": peer.address}, "brokerName": name, "cluster": "C"}
                for name, peer in self.brokers.items()
            ],
            "queueDatas": [
                {"brokerName": name, "perm": perm, "readQueueNums": self.queues, "writeQueueNums": self.queues}
                for name in self.brokers
            ],
        }
        return Command(0, body=json.dumps(body).encode())


class _Stored:
    """Answers sends: a counter per queue."""

    def __init__(self) -> None:
        self._next: dict[tuple[str, str], int] = {}

    def answer(self, request: Command) -> Command | None:
        if request.is_oneway:
            return None
        ext = request.ext or {}
        count = len(decode_batch(request.payload)) if request.code == RequestCode.SEND_BATCH_MESSAGE else 1
        at = self._next.get((ext["b"], ext["e"]), 0)
        self._next[ext["b"], ext["e"]] = at + count
        ids = ",".join(f"7F000001{number:024X}" for number in range(at, at + count))
        return Command(0, ext={"msgId": ids, "queueId": ext["e"], "queueOffset": str(at)})


def record(**fields: Any) -> bytes:
    """One record of topic T, with any field of `encode_record` set otherwise."""
    return encode_record(**{"topic": "T", "queue_id": 0, "body": b"x", "properties": b"", **fields})


@pytest.fixture
def simulate() -> Callable[[Callable[[World], Coroutine[Any, Any, Any]]], Any]:
    """Run a coroutine function of a simulated world; no task may be left when it ends."""

    async def checked(work: Callable[[World], Coroutine[Any, Any, Any]], world: World) -> Any:
        result = await work(world)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left
        return result

    return lambda work: simulated.simulate(7, lambda world: checked(work, world), limit_s=LIMIT_S)


@pytest.fixture
def cluster() -> type[Cluster]:
    return Cluster


@pytest.fixture
def peer() -> type[Peer]:
    return Peer


@pytest.fixture(name="record")
def record_maker() -> Callable[..., bytes]:
    """One record of topic T, with any field of `encode_record` set otherwise."""
    return record
