"""One round of fuzzing: a server in a simulated world, connections with corrupted frames, then a check of its state."""

from __future__ import annotations

import asyncio
import logging
import random
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from frame_mutations import mutated, recorded

from gantrymq.broker import BrokerServer
from gantrymq.broker.settings import SCHEMA
from gantrymq.config import Settings
from gantrymq.plugins import Plugins
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import request
from gantrymq.remoting.server import RemotingServer
from gantrymq.world import World
from gantrymq_nameserver.server import NameServer
from gantrymq_nameserver.settings import name_server_settings
from gantrymq_testing.simulated import SimulatedLoop, SimulatedNetwork, SimulatedProcess, SimulationError, simulate

HOST, PORT = "10.0.0.1", 9000
FRAMES = 1000  # in a round
OPEN = 20  # connections at a time
SETTLE_S = 400.0  # longer than any held pull and any wait for a call to a client
LIMIT_S = 20_000.0
READ_CPU_S = 5.0  # limit for one read; real ones take microseconds


class Round:
    """Frames from one seed against one kind of server, ``broker`` or ``ns``."""

    def __init__(self, kind: str, seed: int, plugins: Plugins, frames: int = FRAMES) -> None:
        self.problems: list[str] = []
        self.sent = 0
        self._kind = kind
        self._plugins = plugins
        self._frames = frames
        self._random = random.Random(f"{kind}/{seed}")
        self._seed = seed
        self._open: list[_Talker] = []
        self._slowest_s = 0.0

    def run(self) -> list[str]:
        """Problems found, as sentences."""
        with _logged(self.problems):
            try:
                simulate(self._seed, self._main, limit_s=LIMIT_S)
            except SimulationError as error:
                self.problems.append(f"{type(error).__name__}: {error}")
            except Exception:
                self.problems.append(traceback.format_exc())
        if self._slowest_s > READ_CPU_S:
            self.problems.append(f"one read took {self._slowest_s:.1f} s of processor time")
        return self.problems

    async def _main(self, world: World) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimulatedLoop) and isinstance(world.network, SimulatedNetwork)
        loop.set_exception_handler(self._on_exception)
        process = SimulatedProcess(world, loop, HOST, 7)
        server = self._server(process.world)
        await process.run(server.start())
        usual = len(process.tasks())
        own, others = recorded()[self._kind], recorded()["ns" if self._kind == "broker" else "broker"]
        while self.sent < self._frames:
            await self._talk(world, others if self._random.random() < 0.1 else own)
        for talker in self._open:
            talker.transport.abort()
        await world.clock.sleep(SETTLE_S)
        self._look(server, process, usual)
        await self._ask(world)
        await process.run(server.stop())
        if process.files.held or process.tasks() or process.network.open_connections:
            kept = (list(process.files.held.values()), process.tasks(), process.network.open_connections)
            self.problems.append(f"stopped, it keeps files, tasks or connections: {kept}")
        await world.workers.close()

    def _server(self, world: World) -> BrokerServer | NameServer:
        if self._kind == "ns":
            world.files.make_dirs(Path("/home/namesrv"))
            settings = Settings(name_server_settings(Path("/home")))
            settings.set("bindAddress", HOST, "the test")
            settings.set("listenPort", PORT, "the test")
            return NameServer(world, settings)
        settings = Settings([*SCHEMA, *self._plugins.config])
        values: dict[str, Any] = {"bindAddress": HOST, "listenPort": PORT, "brokerName": "broker-a", "store": "mmap"}
        for key, value in {**values, "storePathRootDir": "/store", "mappedFileSizeCommitLog": 1 << 20}.items():
            settings.set(key, value, "the test")
        return BrokerServer(world, settings, self._plugins)

    async def _talk(self, world: World, frames: list[bytes]) -> None:
        """A connection with a few frames, in one write or several; closed now or later, by either side."""
        talker = _Talker()
        assert isinstance(world.network, SimulatedNetwork)
        await world.network.on_host("10.0.0.9").connect(HOST, PORT, lambda: talker)
        count = self._random.choice((1, 1, 2, 5, 20))
        spoilt = [mutated(self._random, frames) for _ in range(count)]
        together = self._random.random() < 0.2
        for data in [b"".join(spoilt)] if together else spoilt:
            if talker.lost:
                break
            talker.transport.write(data)
            self.sent += count if together else 1
            began = time.process_time()
            await world.clock.sleep(self._random.choice((0.0, 0.01)))
            self._slowest_s = max(self._slowest_s, time.process_time() - began)
        self._open.append(talker)
        if len(self._open) > OPEN:
            leaving = self._open.pop(self._random.randrange(OPEN))
            (leaving.transport.close if self._random.random() < 0.5 else leaving.transport.abort)()

    def _look(self, server: BrokerServer | NameServer, process: SimulatedProcess, usual: int) -> None:
        """No state of the connections may be left, and no table may be larger than the data sent."""
        found = {"connections": process.network.open_connections, "tasks": max(len(process.tasks()) - usual, 0)}
        for remoting in _remoting(server):
            found["unfinished bytes"] = remoting.unfinished_bytes
        if any(found.values()):
            self.problems.append(f"left over: {found}")
        if isinstance(server, BrokerServer):
            sizes = {"topics": len(server.tables.topics.view), "offsets": len(server.tables.offsets.table)}
        else:
            tables = server.service.tables
            sizes = {"topics": len(tables.queues), "brokers": len(tables.brokers), "live": len(tables.live)}
        if max(sizes.values()) > self.sent + 100:
            self.problems.append(f"tables grew beyond what was sent: {sizes}")

    async def _ask(self, world: World) -> None:
        """It still answers."""
        code = RequestCode.GET_BROKER_CLUSTER_INFO if self._kind == "ns" else RequestCode.GET_BROKER_RUNTIME_INFO
        client = RemotingClient(world)
        answer = await client.call(f"{HOST}:{PORT}", request(code))
        if answer.code != 0:
            self.problems.append(f"{code.name} was answered with {answer.code}: {answer.remark}")
        await client.close()

    def _on_exception(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        lines = traceback.format_exception(error) if error is not None else []
        self.problems.append(f"{context.get('message')}\n{''.join(lines)}")


class _Talker(asyncio.Protocol):
    """Writes; answers are ignored."""

    transport: asyncio.Transport
    lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True


def _remoting(server: BrokerServer | NameServer) -> list[RemotingServer]:
    return [each for each in vars(server).values() if isinstance(each, RemotingServer)]


class _Errors(logging.Handler):
    """Keeps log records that are errors or have a traceback."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__(logging.WARNING)
        self._problems = problems

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.ERROR or record.exc_info:
            self._problems.append(self.format(record))


@contextmanager
def _logged(problems: list[str]) -> Iterator[None]:
    handler, loggers = _Errors(problems), [logging.getLogger(name) for name in ("gantrymq", "asyncio")]
    for logger in loggers:
        logger.addHandler(handler)
        logger.propagate = False  # every refusal is a warning, and pytest would keep them all
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeHandler(handler)
            logger.propagate = True
