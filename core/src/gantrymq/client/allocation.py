"""Allocation strategies that the installed plugins offer, for whoever shares out queues as consumers do."""

from __future__ import annotations

from collections.abc import Callable

from gantrymq.client.errors import client_errors
from gantrymq.interfaces import AllocationStrategy
from gantrymq.plugins import load_plugins

__all__ = ["allocation_strategy"]


def allocation_strategy(name: str, settings: dict[str, str], tell: Callable[[str], object]) -> AllocationStrategy:
    """The strategy *name* with its *settings*.

    Args:
        name: as plugins register it, such as "AVG".
        settings: the strategy's own.
        tell: is given a sentence for each plugin that is broken.

    Raises:
        PluginAbsent: no plugin offers it; says which there are, or what to install.
        OptionUnusable: the strategy does not take its settings.
    """
    with client_errors():
        loaded = load_plugins(strict=False, only_hooks=("gantry_register_allocations",))
        for problem in loaded.problems:
            tell(problem)
        return loaded.allocation(name)(settings)
