"""An asyncio event loop with virtual time: when no callback is ready it jumps to the next timer.

It has no sockets, threads or signals. asyncio's base loop lets its selector wait until the next timer; this selector
advances the clock instead. Three conditions that would hang a real program raise errors: nothing left to wait for,
virtual time beyond a limit, and endless callbacks without time passing.
"""

from __future__ import annotations

import asyncio
import os
import weakref
from collections import deque
from contextvars import ContextVar
from typing import Any, Protocol

from gantrymq.errors import GantryError

ASYNCIO_FOLDER = os.path.dirname(asyncio.__file__)
STANDSTILL_TURNS = 1_000_000  # turns of the loop at one instant; real programs need few


class Owner(Protocol):
    """A process."""

    @property
    def paused(self) -> bool:
        """Whether its code does not run at the moment."""

    def hold(self, handle: asyncio.Handle) -> None:
        """Take a callback that has to wait until the process runs again."""


OWNER: ContextVar[Owner | None] = ContextVar("owner", default=None)  # of the running code, if there are processes


class SimulationError(GantryError):
    """A simulated run cannot continue."""


class SimulationDeadlock(SimulationError):
    """Every task waits, and there is no timer that could wake one."""


class SimulationTimeout(SimulationError):
    """The run exceeded its limit of virtual time, or loops without time passing."""


class SimulatedLoop(asyncio.BaseEventLoop):
    """Runs callbacks, timers and tasks in one repeatable order. ``time()`` starts at 0 and counts virtual seconds."""

    def __init__(self, *, limit_s: float) -> None:
        """Create a loop that raises SimulationTimeout once ``time()`` exceeds *limit_s*."""
        super().__init__()
        self._now = 0.0
        self._clock_resolution = 1e-9
        self._selector = _Jump(self, limit_s)  # the base class calls its `select` once per turn
        self._ready: deque[asyncio.Handle] = _Ready()  # from which the base class takes each callback that it runs
        self._made = 0
        self._tasks: weakref.WeakValueDictionary[int, asyncio.Task[Any]] = weakref.WeakValueDictionary()
        self._owners: weakref.WeakKeyDictionary[asyncio.Task[Any], object] = weakref.WeakKeyDictionary()

    def time(self) -> float:
        """Virtual seconds since the loop was created."""
        return self._now

    def jump(self, seconds: float) -> None:
        """Advance the clock."""
        self._now += seconds

    def add_ready(self, handles: list[asyncio.Handle]) -> None:
        """Run *handles* next, in this order."""
        self._ready.extend(handles)

    def allow(self, seconds: float) -> None:
        """Limit the run to *seconds* from now, whatever its limit was."""
        self._selector.limit_s = self._now + seconds

    def pending_tasks(self) -> list[asyncio.Task[Any]]:
        """Tasks that are not done, oldest first (`asyncio.all_tasks` has no order)."""
        return [task for task in list(self._tasks.values()) if not task.done()]

    def tasks_of(self, owner: object) -> list[asyncio.Task[Any]]:
        """Those of `pending_tasks` that were created while OWNER was *owner*."""
        return [task for task in self.pending_tasks() if self._owners.get(task) is owner]

    def create_task(self, coro: Any, *, name: object = None, **options: Any) -> asyncio.Task[Any]:
        """Number tasks per loop; asyncio's own names are numbered per process.

        Not by a task factory: Python 3.13.0 resets the name of a task created by a factory to None.
        """
        self._made += 1
        task: asyncio.Task[Any] = super().create_task(coro, name=name or f"task-{self._made}", **options)
        self._tasks[self._made] = task
        if (owner := OWNER.get()) is not None:
            self._owners[task] = owner
        return task

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:  # type: ignore[override]
        """Refuse: threads would make the run unrepeatable. Use the world's workers."""
        raise SimulationError(f"no threads in a simulation: {func!r} has to go through Workers")

    def _process_events(self, event_list: list[Any]) -> None:
        """Process the events of the selector: there are none."""

    def _write_to_self(self) -> None:
        """Wake the selector: it never sleeps."""


class _Ready(deque[asyncio.Handle]):
    """Callbacks to run; those of paused processes are given to their process instead."""

    def popleft(self) -> asyncio.Handle:
        handle = super().popleft()
        owner = handle._context.get(OWNER)  # type: ignore[attr-defined]
        if owner is None or not owner.paused:
            return handle
        owner.hold(handle)
        return _NOTHING


class _Nothing(asyncio.Handle):
    """A cancelled handle, which the base class skips."""

    def __init__(self) -> None:
        self._cancelled = True


_NOTHING = _Nothing()


class _Jump:
    """Replaces the selector of the base loop."""

    def __init__(self, loop: SimulatedLoop, limit_s: float) -> None:
        self._loop = loop
        self.limit_s = limit_s
        self._turns = 0

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise SimulationDeadlock(f"nothing can wake {_waiting(self._loop)} at {self._loop.time():.6f} s")
        if timeout > 0:
            self._turns = 0
            self._loop.jump(timeout)
            if self._loop.time() > self.limit_s:
                raise SimulationTimeout(f"{_waiting(self._loop)} still running after {self.limit_s} virtual seconds")
        else:
            self._turns += 1
            if self._turns > STANDSTILL_TURNS:
                self._turns = 0  # leaves turns for the clean-up
                raise SimulationTimeout(
                    f"{self._turns} turns of the loop at {self._loop.time():.6f} s, time stands still"
                )
        return []


def _waiting(loop: SimulatedLoop) -> str:
    """Describe each pending task and the line it waits at."""
    return ", ".join(f"{task.get_name()} at {_place(task)}" for task in loop.pending_tasks()) or "the loop"


def _place(task: asyncio.Task[Any]) -> str:
    """Return file and line of the innermost coroutine that *task* awaits (`Task.get_stack` only has the outermost)."""
    place = "its start"
    awaited: Any = task.get_coro()
    while (frame := getattr(awaited, "cr_frame", None)) is not None:
        if not frame.f_code.co_filename.startswith(ASYNCIO_FOLDER):
            place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
        awaited = awaited.cr_await
    return place
