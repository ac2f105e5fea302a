"""A world of memory, a virtual clock and a seed: the same seed gives the same run, byte for byte.

This holds for everything that goes through the `World`. A program breaks it with threads, with `hash` of strings
(iterating over sets of them), or by calling the operating system directly.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from gantrymq.world import World
from gantrymq_testing.simulated.clock import SimulatedClock, SimulatedWorkers
from gantrymq_testing.simulated.faults import FaultyDelivery
from gantrymq_testing.simulated.files import CAPACITY_BYTES, SimulatedFiles
from gantrymq_testing.simulated.loop import SimulatedLoop, SimulationDeadlock, SimulationError, SimulationTimeout
from gantrymq_testing.simulated.network import SimulatedNetwork
from gantrymq_testing.simulated.process import ProcessKilled, SimulatedProcess
from gantrymq_testing.simulated.stream import Delivery, Link, SeededDelivery
from gantrymq_testing.simulated.trace import Event, Trace

__all__ = [
    "Delivery",
    "Event",
    "FaultyDelivery",
    "Link",
    "ProcessKilled",
    "SeededDelivery",
    "SimulatedClock",
    "SimulatedFiles",
    "SimulatedLoop",
    "SimulatedNetwork",
    "SimulatedProcess",
    "SimulatedWorkers",
    "SimulationDeadlock",
    "SimulationError",
    "SimulationTimeout",
    "Trace",
    "simulate",
    "simulated_world",
]

T = TypeVar("T")

START_MS = 1_700_000_000_000
LIMIT_S = 24 * 3600.0
CLEAN_UP_S = 3600.0  # virtual time for the clean-up of cancelled tasks


def simulated_world(
    seed: int,
    loop: SimulatedLoop,
    *,
    start_ms: int = START_MS,
    trace: Trace | None = None,
    delivery: Delivery | None = None,
    capacity: int = CAPACITY_BYTES,
) -> World:
    """Build a world on *loop*. Each part has its own random stream, derived from *seed*."""
    clock = SimulatedClock(loop, start_ms)
    if trace is not None:
        trace.start(clock.now_us)
    if delivery is None:
        delivery = SeededDelivery(random.Random(f"{seed}/network"))
    return World(
        clock=clock,
        network=SimulatedNetwork(loop, delivery, trace),
        files=SimulatedFiles(clock.now_ms, trace, capacity=capacity),
        workers=SimulatedWorkers(clock, random.Random(f"{seed}/workers")),
        random=random.Random(f"{seed}/world"),
        process_id=1,
        host_name="simulated",
    )


def simulate(
    seed: int,
    main: Callable[[World], Awaitable[T]],
    *,
    start_ms: int = START_MS,
    trace: Trace | None = None,
    delivery: Delivery | None = None,
    capacity: int = CAPACITY_BYTES,
    limit_s: float = LIMIT_S,
) -> T:
    """Run ``main(world)`` to its end in its own world; remaining tasks are cancelled, oldest first.

    Args:
        seed: determines every random choice of the world.
        main: the program; its result is returned, its exception raised.
        start_ms: wall time at the start, milliseconds since 1970-01-01 UTC.
        trace: receives the events of network and files.
        delivery: decides how bytes are delivered; by default a `SeededDelivery`.
        capacity: size of the disk in bytes.
        limit_s: maximum duration of the run in virtual seconds.

    Raises:
        SimulationDeadlock: no event is left that could wake a task.
        SimulationTimeout: *limit_s* is over, or callbacks run without virtual time passing.
        RuntimeError: an event loop is running in this thread.
    """
    loop = SimulatedLoop(limit_s=limit_s)
    world = simulated_world(seed, loop, start_ms=start_ms, trace=trace, delivery=delivery, capacity=capacity)

    async def run_main() -> T:
        return await main(world)

    try:
        return loop.run_until_complete(run_main())
    finally:
        try:
            _cancel_what_is_left(loop)
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            loop.close()


def _cancel_what_is_left(loop: SimulatedLoop) -> None:
    """Cancel pending tasks and let them finish, with a separate time limit: that of the run may be over."""
    loop.allow(CLEAN_UP_S)
    left = loop.pending_tasks()
    if not left:
        return
    for task in left:
        task.cancel()

    async def wait_for_all() -> None:
        await asyncio.wait(left)

    loop.run_until_complete(wait_for_all())
    for task in left:
        if not task.cancelled() and task.exception() is not None:
            loop.call_exception_handler(
                {
                    "message": f"{task.get_name()} raised when it was cancelled",
                    "exception": task.exception(),
                    "task": task,
                }
            )
