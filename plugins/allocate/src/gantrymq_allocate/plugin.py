"""Entry point ``allocate``: registers the allocation strategies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gantrymq.plugin import hookimpl

if TYPE_CHECKING:
    from collections.abc import Callable

    from gantrymq.plugin.interfaces import AllocationRegistry, AllocationStrategy

_PLAIN = ("AVG_BY_CIRCLE", "CONFIG", "CONSISTENT_HASH", "MACHINE_ROOM", "STICKY")
_SHARING = ("AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH", "STICKY")  # inner strategies of MACHINE_ROOM_NEARBY


@hookimpl
def gantry_register_allocations(registry: AllocationRegistry) -> None:
    """Register RocketMQ's strategies but AVG, and STICKY; MACHINE_ROOM_NEARBY with and without an inner name."""
    for name in _PLAIN:
        registry.add(name, _plain(name))
    registry.add("MACHINE_ROOM_NEARBY", _nearby(None))
    for inner in _SHARING:
        registry.add(f"MACHINE_ROOM_NEARBY-{inner}", _nearby(inner))


def _plain(name: str) -> Callable[[dict[str, str]], AllocationStrategy]:
    def make(settings: dict[str, str]) -> AllocationStrategy:
        from gantrymq_allocate.catalog import PLAIN

        return PLAIN[name](settings)

    return make


def _nearby(inner: str | None) -> Callable[[dict[str, str]], AllocationStrategy]:
    def make(settings: dict[str, str]) -> AllocationStrategy:
        from gantrymq_allocate.catalog import nearby

        return nearby(settings, inner)

    return make
