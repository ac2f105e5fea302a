"""Entry point ``allocate``: registers the allocation strategies."""

from __future__ import annotations

from functools import partial

from gantrymq.plugin import hookimpl
from gantrymq.plugin.interfaces import AllocationRegistry
from gantrymq_allocate.catalog import PLAIN, SHARING, nearby


@hookimpl
def gantry_register_allocations(registry: AllocationRegistry) -> None:
    """Register RocketMQ's strategies but AVG, and STICKY; MACHINE_ROOM_NEARBY with and without an inner name."""
    for name, factory in PLAIN.items():
        registry.add(name, factory)
    registry.add("MACHINE_ROOM_NEARBY", nearby)
    for inner in SHARING:
        registry.add(f"MACHINE_ROOM_NEARBY-{inner}", partial(nearby, inner=inner))
