"""Running a case of the store contract: with its own store, on its own event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import attrs

from gantrymq.interfaces import MessageStore
from gantrymq.model.queue import Queue
from gantrymq.world import World
from gantrymq.world.real import real_world
from gantrymq_testing.store_contract_bench import StandingClock, StoreBench

T0 = Queue("T", 0)
NEVER = Queue("Never", 0)

Case = Callable[[Any, StoreBench], Awaitable[None]]


def with_store(**settings: Any) -> Callable[[Case], Callable[[Any, Path], None]]:
    """Run an async test method with a `StoreBench` on its own event loop."""

    def decorate(case: Case) -> Callable[[Any, Path], None]:
        def run(self: StoreCases, tmp_path: Path) -> None:
            asyncio.run(self.drive(case, tmp_path / "store", settings))

        run.__name__, run.__doc__ = case.__name__, case.__doc__
        return run

    return decorate


class StoreCases:
    """Creates stores; the cases are in the derived classes."""

    durable = True
    """Whether messages survive a stop and a start on the same folder."""

    def make_store(self, world: World, root: Path, **settings: Any) -> MessageStore:
        """Create a store on *root* without starting it; called again on the same folder for a restart."""
        raise NotImplementedError

    def make_world(self) -> World:
        """The store's world; its clock is replaced by one that stands still."""
        return real_world()

    async def drive(self, case: Case, root: Path, settings: dict[str, Any]) -> None:
        """Open a store, run *case* and stop the store."""
        world = self.make_world()
        clock = StandingClock(world.clock)
        world = attrs.evolve(world, clock=clock)
        bench = StoreBench(lambda: self.make_store(world, root, **settings), clock)
        await bench.store.start()
        try:
            await case(self, bench)
        finally:
            await bench.store.stop()
            await world.workers.close()
