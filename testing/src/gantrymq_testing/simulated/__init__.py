"""A world made of memory, a virtual clock and one seed: the same seed gives the same run, byte for byte.

What repeats is everything that goes through the `World`. A program spoils it with threads, with `hash` of strings
(iterating over sets of them), or by asking the operating system behind the world's back.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from gantrymq.world import World
from gantrymq_testing.simulated.clock import SimulatedClock
from gantrymq_testing.simulated.delivery import Delivery, Link, SeededDelivery
from gantrymq_testing.simulated.disk import BusError
from gantrymq_testing.simulated.faults import FaultyDelivery
from gantrymq_testing.simulated.files import CAPACITY_BYTES, SimulatedFiles
from gantrymq_testing.simulated.loop import SimulatedLoop, SimulationDeadlock, SimulationError, SimulationTimeout
from gantrymq_testing.simulated.network import SimulatedNetwork
from gantrymq_testing.simulated.process import ProcessKilled, SimulatedProcess
from gantrymq_testing.simulated.trace import Event, Trace
from gantrymq_testing.simulated.workers import SimulatedWorkers

__all__ = [
    "BusError",
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
CLEAN_UP_S = 3600.0  # virtual time that cancelled tasks have for their last steps


def simulated_world(
    seed: int,
    loop: SimulatedLoop,
    *,
    start_ms: int = START_MS,
    trace: Trace | None = None,
    delivery: Delivery | None = None,
    capacity: int = CAPACITY_BYTES,
) -> World:
    """Build a world that lives on *loop*. Its parts draw from random streams of their own, all made from *seed*."""
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
    """Run ``main(world)`` to its end in a world of its own; tasks it leaves behind are cancelled, oldest first.

    Args:
        seed: what every choice of the world is made from.
        main: the program; what it returns is returned, what it raises is raised.
        start_ms: wall time at the start, milliseconds since 1970-01-01 UTC.
        trace: gets what network and files do.
        delivery: decides how bytes travel; by default a `SeededDelivery`.
        capacity: room on the disk, bytes.
        limit_s: virtual seconds the run may last.

    Raises:
        SimulationDeadlock: nothing is left that could wake a task.
        SimulationTimeout: *limit_s* is over, or time stands still.
        RuntimeError: an event loop runs in this thread already.
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
    """Cancel pending tasks and let them finish, with a limit of its own: the run's may be over."""
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
