"""Servers on hosts of their own, which stop, crash and start again on the same files."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from gantrymq.broker import BrokerServer
from gantrymq.broker.settings import SCHEMA
from gantrymq.config import Settings
from gantrymq.plugins import Plugins, load_plugins
from gantrymq.world import World
from gantrymq_nameserver.server import NameServer
from gantrymq_nameserver.settings import name_server_settings
from gantrymq_testing.simulated import SimulatedLoop, SimulatedProcess

SOURCE = "the plan"
Server = BrokerServer | NameServer


@cache
def plugins() -> Plugins:
    """Both stores, the tag filter, a plugin for every kind of message, and the gRPC protocol if it is installed."""
    wanted = "filter_tag,pop,schedule,storage_memory,storage_mmap,transaction"
    return load_plugins(f"{wanted},grpc" if find_spec("gantrymq_grpc") else wanted, reserved=SCHEMA)


class Machine:
    """A host with at most one process; `build` returns its server."""

    def __init__(self, world: World, host: str, build: Callable[[World], Server]) -> None:
        self.host = host
        self.ahead_ms = 0
        self.starts = 0
        self.ends_ms: list[int] = []  # of its processes, wall time of the world
        self.server: Server | None = None
        self.process: SimulatedProcess | None = None
        self.leaks: list[str] = []
        self._world = world
        self._build = build
        self._starting: asyncio.Task[Any] | None = None

    @property
    def up(self) -> bool:
        """Whether the process is alive; it may still be starting."""
        return self.process is not None and self.process.alive

    def start(self) -> None:
        """Start the process in the background; no effect if it is up."""
        if self.up:
            return
        self.starts += 1
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimulatedLoop)
        self.process = SimulatedProcess(self._world, loop, self.host, 1000 + self.starts)
        self.process.ahead_ms = self.ahead_ms
        self._starting = self.process.run(self._start(self.process.world))

    async def ready(self) -> None:
        """Wait until the start is complete; raise its exception if it failed."""
        assert self._starting is not None
        await self._starting

    async def stop(self) -> None:
        """Stop cleanly, as on SIGTERM, in any state; then every resource must have been released."""
        if not self.up:
            return
        process, starting = self.process, self._starting
        assert process is not None and starting is not None
        if not starting.done():
            starting.cancel()
        await asyncio.wait([starting])
        if self.server is not None:
            await asyncio.wait([process.run(self.server.stop())])
        self.server = None
        if process.alive:
            self._look_for_leaks(process)
            process.kill()

    def crash(self) -> None:
        """As SIGKILL."""
        if self.process is not None:
            self.process.kill()

    def jump(self, milliseconds: int) -> None:
        """Set the wall clock."""
        self.ahead_ms += milliseconds
        if self.process is not None:
            self.process.ahead_ms = self.ahead_ms

    async def _start(self, world: World) -> None:
        assert self.process is not None
        self.process.on_kill = self._gone
        server = self._build(world)
        await server.start()
        self.server = server

    def _gone(self) -> None:
        self.server = None
        self.ends_ms.append(self._world.clock.now_ms())

    def _look_for_leaks(self, process: SimulatedProcess) -> None:
        held = [str(path) for path in process.files.held.values()]
        tasks = [task.get_name() for task in process.tasks()]
        if held or tasks:
            self.leaks.append(f"{self.host} stopped and kept {held} open, and the tasks {tasks}")


def name_server(world: World, host: str) -> Machine:
    """A name server on port 9876 of *host*."""

    def build(own: World) -> NameServer:
        folder = Path("/", host)
        own.files.make_dirs(folder / "namesrv")
        settings = Settings(name_server_settings(folder))
        settings.set("bindAddress", host, SOURCE)
        return NameServer(own, settings)

    return Machine(world, host, build)


def broker(world: World, host: str, namesrv: str, given: dict[str, Any]) -> Machine:
    """A broker on port 10911 of *host*."""

    def build(own: World) -> BrokerServer:
        settings = Settings([*SCHEMA, *plugins().config])
        values = {
            "bindAddress": host,
            "brokerName": "broker-a",
            "storePathRootDir": f"/{host}/store",
            "namesrvAddr": namesrv,
            **given,
        }
        for key, value in values.items():
            settings.set(key, value, SOURCE)
        return BrokerServer(own, settings, plugins())

    return Machine(world, host, build)
