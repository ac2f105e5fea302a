"""A name server and a broker in memory on a virtual clock: hours pass in a moment, a seed determines the run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from gantrymq.config import Value
from gantrymq.world import World
from gantrymq_testing.accounts import Users
from gantrymq_testing.cluster import Cluster, GivenPlugin
from gantrymq_testing.simulated import simulate

T = TypeVar("T")

ROOT = Path("/gantrymq")


def simulate_cluster(
    work: Callable[[Cluster], Awaitable[T]],
    *,
    seed: int = 1,
    settings: Mapping[str, Value] | None = None,
    plugins: Iterable[GivenPlugin] = (),
    users: Users | None = None,
    **more: Any,
) -> T:
    """Run ``work(cluster)`` with a started `Cluster` and return (or raise) its result.

    Args:
        work: an async function; its time is ``cluster.world.clock``.
        seed: determines every random choice of the world.
        settings: as for `Cluster`.
        plugins: as for `Cluster`.
        users: as for `Cluster`.
        more: passed to `gantrymq_testing.simulated.simulate` (trace, delivery, capacity, limit_s).

    Raises:
        SimulationDeadlock: no event is left that could wake a task.
        SimulationTimeout: the virtual time is over.
    """

    async def main(world: World) -> T:
        cluster = Cluster(world, ROOT, settings, plugins, users)
        await cluster.start()
        try:
            return await work(cluster)
        finally:
            await cluster.stop()
            await world.workers.close()

    return simulate(seed, main, **more)
