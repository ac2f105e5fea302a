"""One broker process on the disk: it starts, works, and ends in order, at a call, or with the power."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any

import attrs

from crash_rig.starts import INDEX_SIZES, ROOT, Start
from gantrymq.broker import BrokerServer
from gantrymq.broker.settings import SCHEMA
from gantrymq.config import Settings
from gantrymq.interfaces import Broker, RecoveryReport
from gantrymq.plugins import Plugins, load_plugins
from gantrymq.world import Files, World
from gantrymq_storage_faults import FaultPlan, FaultyFiles, LateWorkers, Machine
from gantrymq_testing.simulated import SimulatedLoop, SimulatedProcess

LOG = logging.getLogger("gantrymq.broker.server")
HOST = "10.0.0.1"
# Every timer comes round several times in a run, and the two ends of the checkpoint differ from run to run.
QUICK = {
    "flushIntervalCommitLog": 20,
    "flushCommitLogThoroughInterval": 100,
    "flushIntervalConsumeQueue": 30,
    "flushConsumeQueueThoroughInterval": 150,
    "flushConsumerOffsetInterval": 100,
    "fileReservedTime": 0,  # a log file may be deleted on request as soon as it is no longer written
}

ALL_KINDS = {  # of queues: batch queues, light queues, ext units
    "enableLmq": True,
    "enableMultiDispatch": True,
    "mappedFileSizeConsumeQueueExt": 1200,  # where units are written at all
    "mapperFileSizeBatchConsumeQueue": 460,
}


@cache
def plugins() -> Plugins:
    """The store alone."""
    return load_plugins("storage_mmap", reserved=SCHEMA)


class _Listener(logging.Handler):
    """Collects the broker's messages to the operator."""

    def __init__(self, said: list[str]) -> None:
        super().__init__(logging.WARNING)
        self._said = said

    def emit(self, record: logging.LogRecord) -> None:
        self._said.append(record.getMessage())


class Watcher:
    """A service that gives the test access to the plugins' view of the broker."""

    name = "crash_tests"

    def __init__(self) -> None:
        self.broker: Broker | None = None

    async def start(self, broker: Broker) -> None:
        self.broker = broker

    async def stop(self) -> None:
        pass


class Life:
    """A broker from its start to its end."""

    def __init__(
        self,
        world: World,
        disk: Files | Machine,
        start: Start,
        plan: FaultPlan | None = None,
        settings: dict[str, Any] | None = None,
        loaded: Plugins | None = None,
    ) -> None:
        """Nothing runs before `run`. Over files instead of a machine, all data of earlier processes is durable.

        *loaded*: its plugins, by default only the store.
        """
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimulatedLoop)
        self.log_file_bytes: int = start.sizes["mappedFileSizeCommitLog"]
        self.files = FaultyFiles(disk, plan, on_crash=self._kill, stall=loop.jump)
        workers = LateWorkers(world.workers, world.clock, self.files)
        self._process = SimulatedProcess(
            attrs.evolve(world, files=self.files, workers=workers), loop, HOST, 1000 + loop_number(loop)
        )
        self._loop = loop
        self._watcher = Watcher()
        self._loaded = loaded or plugins()
        self._settings = {**start.sizes, **QUICK, **(settings or {})}
        self.world = self._process.world
        self.report: RecoveryReport | None = None
        self.server: BrokerServer | None = None
        self.ended_at = 0.0  # monotonic
        self._killed = asyncio.Event()
        self.problems: list[str] = []
        self.said: list[str] = []  # messages to the operator

    @property
    def broker(self) -> Broker:
        """The plugins' view of the broker, once it has started."""
        assert self._watcher.broker is not None, "the broker is not started"
        return self._watcher.broker

    async def run(self, work: Callable[[Life], Awaitable[object]]) -> bool:
        """Start, do *work*, stop in order; False when the process ended on the way."""
        self._loop.set_exception_handler(self._on_exception)
        listener = _Listener(self.said)
        LOG.addHandler(listener)
        try:
            task = self._process.run(self._main(work))
            killed = asyncio.ensure_future(self._killed.wait())
            await asyncio.wait([task, killed], return_when=asyncio.FIRST_COMPLETED)
            killed.cancel()
            await asyncio.wait([task], timeout=1.0 if self.files.crashed else None)  # a dead one may never end
        finally:
            LOG.removeHandler(listener)
        if self.files.crashed:
            return False
        self._process.kill()
        self.files.crash()
        task.result()
        assert not self.problems, self.problems
        return True

    def kill(self) -> None:
        """End it here: kill -9."""
        self.files.crash()

    def set_clock(self, ahead_ms: int) -> None:
        """Set the host's wall clock so far ahead; 0 sets it back."""
        self._process.ahead_ms = ahead_ms

    async def _main(self, work: Callable[[Life], Awaitable[object]]) -> None:
        loaded = attrs.evolve(self._loaded, services=(*self._loaded.services, self._watcher))
        settings = Settings([*SCHEMA, *loaded.config])
        values = {"bindAddress": HOST, "listenPort": 0, "brokerName": "broker-a", "storePathRootDir": str(ROOT)}
        for key, value in {**values, **self._settings}.items():
            if key in INDEX_SIZES and key not in settings.schema:
                continue  # a store without an index
            settings.set(key, value, "the crash tests")
        self.server = BrokerServer(self.world, settings, loaded)
        self.report = await self.server.start()
        try:
            await work(self)
        finally:
            if not self.files.crashed:
                await self.server.stop()

    def _kill(self) -> None:
        self.ended_at = self._loop.time()
        self._process.kill()
        self._killed.set()

    def _on_exception(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if not self.files.crashed:
            self.problems.append(f"{context.get('message')}: {context.get('exception')!r}")


def loop_number(loop: SimulatedLoop) -> int:
    """How many processes *loop* has seen."""
    number = getattr(loop, "_crash_rig_processes", 0) + 1
    loop._crash_rig_processes = number  # type: ignore[attr-defined]
    return number
