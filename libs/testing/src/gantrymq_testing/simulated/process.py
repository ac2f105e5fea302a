"""One of several processes in a simulated world, which can be killed as by ``kill -9``, and paused as by SIGSTOP.

After `kill`, nothing of the process runs any more: its timers and completions do not run, its tasks end, its ports are
free, its peers see resets, and its locks are released. Files keep everything written; the page cache is not lost. A
call of its code to files, network, clock or workers raises `ProcessKilled`, which is no ``Exception``. `ProcessFiles`
and `ProcessNetwork` know the descriptors, locks, listeners and connections that end with the process.

While it is paused, none of its code runs; time passes, its connections stay open, and its peers may connect and send.
After `resume`, everything that waited runs in the order in which it became due.

    broker = SimulatedProcess(world, loop, "10.0.0.1", 2)
    server = BrokerServer(broker.world, settings, plugins)
    await broker.run(server.start())
    broker.kill()
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

import attrs

from gantrymq.world import World
from gantrymq.world.files import Files
from gantrymq.world.network import Listener, ProtocolFactory
from gantrymq.world.workers import Done, Workers
from gantrymq_testing.forwarding import CHANGES, ENDS, ForwardingFiles, Handle
from gantrymq_testing.simulated.loop import OWNER, SimulatedLoop
from gantrymq_testing.simulated.network import SimulatedListener, SimulatedNetwork

T = TypeVar("T")


class Check(Protocol):
    """Called before every call."""

    def __call__(self, *, changes: bool) -> None:
        """Raise if the process was killed, or is killed by this call; *changes*: it changes or syncs something."""


class ProcessFiles(ForwardingFiles):
    """`Files` of one process; ``held`` are its open objects, in the order they were opened."""

    def __init__(self, inner: Files, check: Check) -> None:
        super().__init__(inner)
        self._check = check
        self.held: dict[Handle, Path] = {}

    def break_off(self) -> None:
        """Release everything, as the operating system does for an ended process."""
        for handle in reversed(list(self.held)):
            handle.close()

    def around(self, name: str, path: Path, proceed: Callable[[], T], *, position: int = 0, length: int = 0) -> T:
        """Check first, except for releases: a killed process may make them."""
        if name not in ENDS:
            self._check(changes=name in CHANGES)
        return proceed()

    def began(self, handle: Handle) -> None:
        """Add it to the open objects."""
        self.held[handle] = handle.path

    def ended(self, handle: Handle) -> None:
        """Remove it from the open objects."""
        self.held.pop(handle, None)


class Owner(Protocol):
    """The process."""

    def check(self) -> None:
        """Raise once it was killed."""

    def enter(self, callback: Callable[..., Any], *args: Any) -> Any:
        """Call back as code of the process, if it runs."""


class ProcessNetwork:
    """`Network` of one process."""

    def __init__(self, inner: SimulatedNetwork, owner: Owner) -> None:
        self._inner = inner
        self._owner = owner
        self._listeners: list[SimulatedListener] = []
        self._open: dict[_Guard, None] = {}  # in the order of their creation

    @property
    def open_connections(self) -> int:
        """Number of its open connections."""
        return len(self._open)

    async def listen(self, host: str, port: int, factory: ProtocolFactory) -> Listener:
        """As `SimulatedNetwork.listen`."""
        self._owner.check()
        listener = await self._inner.listen(host, port, lambda: self._guard(factory()))
        self._listeners.append(listener)
        return listener

    async def connect(
        self, host: str, port: int, factory: ProtocolFactory
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """As `SimulatedNetwork.connect`."""
        self._owner.check()
        transport, guard = await self._inner.connect(host, port, lambda: self._guard(factory()))
        return transport, cast(_Guard, guard).inner

    def unread(self, transport: asyncio.Transport) -> bytes:
        """As the inner network."""
        return self._inner.unread(transport)

    async def resolve(self, host: str) -> str:
        """Resolve on the process's host."""
        return await self._inner.resolve(host)

    def own_address(self) -> str:
        """Return the address of the process's host."""
        return self._inner.own_address()

    def break_off(self) -> None:
        """Free the ports and reset every connection."""
        for listener in self._listeners:
            listener.free()
        for guard in list(self._open):
            guard.transport.abort()

    def _guard(self, protocol: asyncio.BaseProtocol) -> _Guard:
        return _Guard(cast(asyncio.Protocol, protocol), self._owner, self._open)


class _Guard(asyncio.Protocol):
    """Wraps a protocol of the process and passes events on while it runs."""

    transport: asyncio.Transport

    def __init__(self, inner: asyncio.Protocol, owner: Owner, table: dict[_Guard, None]) -> None:
        self.inner = inner
        self._enter = owner.enter
        self._table = table

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._table[self] = None
        self._enter(self.inner.connection_made, transport)

    def data_received(self, data: bytes) -> None:
        self._enter(self.inner.data_received, data)

    def eof_received(self) -> bool | None:
        return cast("bool | None", self._enter(self.inner.eof_received))

    def connection_lost(self, exc: Exception | None) -> None:
        self._table.pop(self, None)
        self._enter(self.inner.connection_lost, exc)

    def pause_writing(self) -> None:
        self._enter(self.inner.pause_writing)

    def resume_writing(self) -> None:
        self._enter(self.inner.resume_writing)


class ProcessKilled(BaseException):
    """The process was killed; its code does not continue."""


class SimulatedProcess:
    """A host name, a number and a world that ends with `kill`."""

    def __init__(self, world: World, loop: SimulatedLoop, host: str, number: int) -> None:
        """Create a process without running code.

        Args:
            world: of `simulated_world`; its parts are shared by all processes.
            loop: of the world.
            host: source of its connections.
            number: its process id.
        """
        assert isinstance(world.network, SimulatedNetwork)
        self.alive = True
        self.paused = False
        self.ahead_ms = 0  # offset of its host's wall clock; does not affect monotonic time
        self.on_kill: Callable[[], None] = lambda: None
        self._loop = loop
        self._clock = world.clock
        self._calls_left: int | None = None
        self._held: list[asyncio.Handle] = []  # what waits for `resume`
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
        """Run *work* as code of this process; `kill` cancels it."""
        task: asyncio.Task[T] = self._context.copy().run(self._loop.create_task, work)
        return task

    def enter(self, callback: Callable[..., Any], *args: Any) -> Any:
        """Call back as code of this process; returns None if it was killed, or is paused and called back later."""
        if not self.alive:
            return None
        if self.paused:
            self.hold(asyncio.Handle(self.enter, (callback, *args), self._loop, self._context))
            return None
        try:
            return self._context.copy().run(callback, *args)
        except ProcessKilled:
            return None

    def kill(self) -> None:
        """Kill it now. Idempotent."""
        if not self.alive:
            return
        self.resume()
        self.alive = False
        for task in self._loop.tasks_of(self):
            task.add_done_callback(_look_at)
            # A task that ignores its cancellation waits for ever; asyncio need not warn.
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            task.cancel()
        self.network.break_off()
        self.files.break_off()
        self.on_kill()

    def pause(self) -> None:
        """Run none of its code until `resume`. Idempotent."""
        self.paused = self.alive

    def resume(self) -> None:
        """Continue after `pause`. Idempotent."""
        self.paused = False
        held, self._held = self._held, []
        self._loop.add_ready(held)

    def hold(self, handle: asyncio.Handle) -> None:
        """Run *handle* after `resume`."""
        self._held.append(handle)

    def kill_at_file_call(self, number: int) -> None:
        """Kill it at the *number*-th call from now that writes to, renames, removes or syncs a file; 0 for never."""
        self._calls_left = number or None

    def check(self) -> None:
        """Raise ProcessKilled once it was killed."""
        if not self.alive:
            raise ProcessKilled

    def check_file_call(self, *, changes: bool) -> None:
        """As `check`; counts changing calls."""
        self.check()
        if changes and self._calls_left is not None:
            self._calls_left -= 1
            if self._calls_left == 0:
                self.kill()
                raise ProcessKilled

    def tasks(self) -> list[asyncio.Task[Any]]:
        """Its pending tasks."""
        return self._loop.tasks_of(self)

    # --- the clock it sees ------------------------------------------------------------------------------------------

    def now_ms(self) -> int:
        """Wall time of its host, milliseconds since 1970-01-01 UTC."""
        return self._clock.now_ms() + self.ahead_ms

    def utc_offset_ms(self, at_ms: int) -> int:
        """Return 0: a simulation uses UTC."""
        return self._clock.utc_offset_ms(at_ms)

    def monotonic(self) -> float:
        """Virtual seconds since the run began."""
        return self._clock.monotonic()

    def call_later(self, delay_s: float, callback: Callable[..., Any], *args: Any) -> asyncio.TimerHandle:
        """Call ``callback(*args)`` after *delay_s* virtual seconds, if the process still runs."""
        self.check()
        return self._loop.call_later(delay_s, self.enter, callback, *args)

    async def sleep(self, seconds: float) -> None:
        """Suspend the caller for *seconds* of virtual time."""
        self.check()
        await self._clock.sleep(seconds)
        self.check()


class _Workers:
    """Workers with completions that do not reach a killed process."""

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
        """Nothing to release: the threads belong to the world."""


def _look_at(task: asyncio.Task[Any]) -> None:
    """Retrieve the exception of a killed task, so that asyncio does not log it."""
    if not task.cancelled():
        task.exception()
