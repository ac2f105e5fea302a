"""Replays the requests to a Java broker against our broker: same connections, order, and times on a virtual clock.

Each request is sent at the virtual time at which the recorder saw it. If Java's answer follows, ours is awaited, so
that later requests find the broker in the same state as Java's. Held pulls stay held until the event that ends them.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Mapping
from typing import NamedTuple

from one_frame import split_frame
from replay_recording import Heard, Key, Recording
from replay_translation import Translation

from gantrymq.broker import BrokerServer
from gantrymq.broker.settings import SCHEMA
from gantrymq.config import Settings
from gantrymq.plugins import Plugins, load_plugins
from gantrymq.remoting.command import Command, decode, encode
from gantrymq.remoting.frame import FrameDecoder
from gantrymq.world import World
from gantrymq_testing.simulated import Link, simulate

GRACE_S = 5.0  # virtual seconds that our answer may be later than Java's
SETTLE_S = 1e-6  # lets the broker see a request before the next one is sent

PLUGINS = "diagnosis,filter_tag,filter_sql92,request_reply,schedule,transaction,pop,allocate"

# Settings of the recorded brokers for features that are not implemented here; they are left out.
SETTINGS_LEFT_OUT = {
    "enabledAppendPropCRC",
}
# Settings that the replay sets itself, or never needs.
SETTINGS_OF_OURS = {"plugins", "namesrvAddr", "storePathCommitLog"}


class Exchange(NamedTuple):
    """A request with both answers; None if there was no answer."""

    asked: Heard
    java: Command | None
    ours: Command | None


class Outcome(NamedTuple):
    """The result of a replay."""

    exchanges: list[Exchange]
    java_pushed: Counter[tuple[int, int]]  # (connection, code) of requests from the broker to clients
    our_pushed: Counter[tuple[int, int]]


class AtOnce:
    """Bytes arrive whole and without delay."""

    def latency_s(self, link: Link) -> float:
        """No time."""
        return 0.0

    def read_size(self, link: Link, waiting: int) -> int:
        """All exchanges."""
        return waiting


class Client(asyncio.Protocol):
    """A connection that keeps every answer under its opaque."""

    def __init__(self, number: int, outcome: Outcome, translation: Translation) -> None:
        self._number = number
        self._translation = translation
        self._pushed = outcome.our_pushed
        self._decoder = FrameDecoder()
        self._answers: dict[int, asyncio.Future[Command]] = {}
        self._asked: dict[int, list[int]] = {}  # code to opaques of requests by the broker that are not answered yet
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        for frame in self._decoder.feed(data):
            command = decode(frame)
            if command.is_response:
                self.answer(command.opaque).set_result(command)
            else:
                self._pushed[self._number, command.code] += 1
                self._translation.checked_by_ours(command)
                self._asked.setdefault(command.code, []).append(command.opaque)

    def send(self, data: bytes) -> None:
        assert self._transport is not None
        self._transport.write(data)

    def ask(self, heard: Heard) -> None:
        """Send our broker the requests to Java's."""
        fields = self._translation.fields_of(heard.command)
        if fields is None:
            self.send(heard.data)
        else:
            request = decode(split_frame(heard.data))
            request.ext = fields
            self.send(encode(request))

    def reply(self, code: int, recorded: Command) -> None:
        """Answer the oldest request of our broker with *code* as the recorded client answered Java's."""
        if waiting := self._asked.get(code):
            recorded.opaque = waiting.pop(0)
            self.send(encode(recorded))

    def close(self) -> None:
        assert self._transport is not None
        self._transport.close()

    def answer(self, opaque: int) -> asyncio.Future[Command]:
        """The answer to a request, perhaps not there yet."""
        return self._answers.setdefault(opaque, asyncio.get_running_loop().create_future())


def replay(recording: Recording, conf: Mapping[str, str], store: str) -> Outcome:
    """Run one scenario against a broker of ours with the settings *conf* and the store *store*."""

    def main(world: World) -> Awaitable[Outcome]:
        return _replay(world, recording, conf, store)

    # The seed gives work of threads its duration. With this one, decisions of one moment are stored in Java's order.
    return simulate(93, main, start_ms=recording.began_ms, delivery=AtOnce())


async def _replay(world: World, recording: Recording, conf: Mapping[str, str], store: str) -> Outcome:
    clock = world.clock
    await clock.sleep(recording.started_ms / 1000)
    broker = BrokerServer(world, *broker_parts(conf, store))
    await broker.start()
    address = conf["bindAddress"], int(conf["listenPort"])
    outcome = Outcome([], Counter(), Counter())
    translation = Translation()
    clients: dict[int, Client] = {}
    asked: dict[Key, Heard] = {}
    pushed: dict[tuple[int, int], int] = {}  # connection and opaque of a request of Java's broker, to its code
    last = {heard.connection: heard for heard in recording.frames}  # then the client went away
    try:
        for heard in recording.frames:
            wait_s = heard.time_ms / 1000 - clock.monotonic()
            if wait_s > 0:
                await clock.sleep(wait_s)
            if heard.connection not in clients:
                client = Client(heard.connection, outcome, translation)
                await world.network.connect(*address, lambda client=client: client)  # type: ignore[misc]
                clients[heard.connection] = client
            client = clients[heard.connection]
            if heard.command.is_response:
                if not heard.from_client and heard.key in asked:
                    ours = await _within_grace(client.answer(heard.command.opaque))
                    outcome.exchanges.append(Exchange(asked.pop(heard.key), heard.command, ours))
                    if ours is not None:
                        translation.answered(heard.command, ours)
                elif heard.from_client and (heard.connection, heard.command.opaque) in pushed:
                    client.reply(pushed[heard.connection, heard.command.opaque], heard.command)
                    await clock.sleep(SETTLE_S)
            elif heard.from_client:
                client.ask(heard)
                asked[heard.key] = heard
                await clock.sleep(SETTLE_S)
            else:
                outcome.java_pushed[heard.connection, heard.command.code] += 1
                pushed[heard.connection, heard.command.opaque] = heard.command.code
                translation.checked_by_java(heard.command)
            if last[heard.connection] is heard:
                client.close()
                await clock.sleep(SETTLE_S)
        for heard in asked.values():
            answer = clients[heard.connection].answer(heard.command.opaque)
            outcome.exchanges.append(Exchange(heard, None, answer.result() if answer.done() else None))
    finally:
        await broker.stop()
        await world.workers.close()
    return outcome


async def _within_grace(answer: asyncio.Future[Command]) -> Command | None:
    done, _ = await asyncio.wait([answer], timeout=GRACE_S)
    return answer.result() if done else None


def broker_parts(conf: Mapping[str, str], store: str) -> tuple[Settings, Plugins]:
    """Settings and plugins of a broker in place of the recorded one."""
    plugins = load_plugins(f"{PLUGINS},storage_{store}", reserved=SCHEMA)
    settings = Settings([*SCHEMA, *plugins.config])
    for key, value in conf.items():
        if key in settings.schema.keys() - SETTINGS_LEFT_OUT - SETTINGS_OF_OURS:
            settings.set(key, value, "broker.conf")
    settings.set("storePathRootDir", "/store", "the replay")
    settings.set("store", store, "the replay")
    return settings, plugins
