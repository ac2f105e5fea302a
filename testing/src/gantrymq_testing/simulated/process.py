"""One of several processes in a simulated world, which can be killed as ``kill -9`` does.

After `kill` nothing of the process happens any more: its timers and completions do not run, its tasks end, its ports
are free, its peers see resets, and its locks are gone. Files stay as they were written; nothing of the page cache is
lost. A call of its code to files, network, clock or workers raises `ProcessKilled`, which no ``except Exception``
catches.

    broker = SimulatedProcess(world, loop, "10.0.0.1", 2)
    server = BrokerServer(broker.world, settings, plugins)
    await broker.run(server.start())
    broker.kill()
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from typing import Any, TypeVar

import attrs

from gantrymq.world import World
from gantrymq.world.workers import Done, Workers
from gantrymq_testing.simulated.loop import OWNER, SimulatedLoop
from gantrymq_testing.simulated.network import SimulatedNetwork
from gantrymq_testing.simulated.process_files import ProcessFiles
from gantrymq_testing.simulated.process_network import ProcessNetwork

T = TypeVar("T")


class ProcessKilled(BaseException):
    """The process is gone; its code gets no further."""


class SimulatedProcess:
    """A host name, a number and a world that ends with `kill`."""

    def __init__(self, world: World, loop: SimulatedLoop, host: str, number: int) -> None:
        """Make a process that runs nothing yet.

        Args:
            world: of `simulated_world`; its parts are shared by all processes.
            loop: that the world lives on.
            host: where its connections come from.
            number: its process id.
        """
        assert isinstance(world.network, SimulatedNetwork)
        self.alive = True
        self.ahead_ms = 0  # how far its host's wall clock is set forward, or back; monotonic time does not notice
        self.on_kill: Callable[[], None] = lambda: None
        self._loop = loop
        self._clock = world.clock
        self._calls_left: int | None = None
        self._context = copy_context()
        self._context.run(OWNER.set, self)
        self.files = ProcessFiles(world.files, self.check_file_call)
        self.network = ProcessNetwork(world.network.on_host(host), self)
        self.world: World = attrs.evolve(
            world,
            clock=self,
            files=self.files,
            network=self.network,
            workers=_Workers(world.workers, self),
            process_id=number,
            host_name=host,
        )

    def run(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Begin *work* as code of this process; with `kill` it is cancelled."""
        task: asyncio.Task[T] = self._context.copy().run(self._loop.create_task, work)
        return task

    def enter(self, callback: Callable[..., Any], *args: Any) -> Any:
        """Call back as code of this process; a dead one does nothing and returns None."""
        if not self.alive:
            return None
        try:
            return self._context.copy().run(callback, *args)
        except ProcessKilled:
            return None

    def kill(self) -> None:
        """End it here and now; harmless the second time."""
        if not self.alive:
            return
        self.alive = False
        for task in self._loop.tasks_of(self):
            task.add_done_callback(_look_at)
            # One that goes on waiting even so waits for what never comes; asyncio need not complain.
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            task.cancel()
        self.network.break_off()
        self.files.break_off()
        self.on_kill()

    def kill_at_file_call(self, number: int) -> None:
        """Kill it at the *number*-th call from now that writes to, renames, removes or syncs a file; 0 for none."""
        self._calls_left = number or None

    def check(self) -> None:
        """Raise ProcessKilled once it is dead."""
        if not self.alive:
            raise ProcessKilled

    def check_file_call(self, *, changes: bool) -> None:
        """As `check`; counts calls that change something."""
        self.check()
        if changes and self._calls_left is not None:
            self._calls_left -= 1
            if self._calls_left == 0:
                self.kill()
                raise ProcessKilled

    def tasks(self) -> list[asyncio.Task[Any]]:
        """Its tasks that are not done."""
        return self._loop.tasks_of(self)

    # --- the clock it sees ------------------------------------------------------------------------------------------

    def now_ms(self) -> int:
        """Wall time of its host, milliseconds since 1970-01-01 UTC."""
        return self._clock.now_ms() + self.ahead_ms

    def utc_offset_ms(self, at_ms: int) -> int:
        """0: a simulation lives in UTC."""
        return self._clock.utc_offset_ms(at_ms)

    def monotonic(self) -> float:
        """Virtual seconds since the run began."""
        return self._clock.monotonic()

    def call_later(self, delay_s: float, callback: Callable[..., Any], *args: Any) -> asyncio.TimerHandle:
        """Call ``callback(*args)`` once *delay_s* virtual seconds have passed, if the process still lives."""
        self.check()
        return self._loop.call_later(delay_s, self.enter, callback, *args)

    async def sleep(self, seconds: float) -> None:
        """Suspend the caller for *seconds* of virtual time."""
        self.check()
        await self._clock.sleep(seconds)
        self.check()


class _Workers:
    """Workers whose completions a dead process does not see."""

    def __init__(self, inner: Workers, process: SimulatedProcess) -> None:
        self._inner = inner
        self._process = process

    async def run(self, work: Callable[..., T], *args: Any) -> T:
        self._process.check()
        result = await self._inner.run(work, *args)
        self._process.check()
        return result

    def submit(self, work: Callable[..., T], *args: Any, done: Done[T]) -> None:
        self._process.check()
        self._inner.submit(work, *args, done=lambda result, error: self._process.enter(done, result, error))

    async def close(self) -> None:
        """Nothing to release: the threads are the world's."""


def _look_at(task: asyncio.Task[Any]) -> None:
    """Take the end of a killed task as seen, whatever it is."""
    if not task.cancelled():
        task.exception()
