"""Allocation strategies of the installed plugins, for code that assigns queues the way consumers do."""

from __future__ import annotations

from collections.abc import Callable

from gantrymq.client.errors import client_errors
from gantrymq.interfaces import AllocationStrategy
from gantrymq.plugins import load_plugins


def allocation_strategy(name: str, settings: dict[str, str], tell: Callable[[str], object]) -> AllocationStrategy:
    """Return the strategy *name*, built with its *settings*.

    Args:
        name: as registered by plugins, such as "AVG".
        settings: the strategy's own settings.
        tell: called with a sentence for each broken plugin.

    Raises:
        PluginAbsent: no plugin provides it; the message lists the available strategies or the package to install.
        OptionUnusable: the strategy rejects its settings.
    """
    with client_errors():
        loaded = load_plugins(strict=False, only_hooks=("gantry_register_allocations",))
        for problem in loaded.problems:
            tell(problem)
        return loaded.allocation(name)(settings)
