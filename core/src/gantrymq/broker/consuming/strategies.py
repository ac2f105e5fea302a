"""Allocation strategies by name, made when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gantrymq.errors import RefusedWith
from gantrymq.interfaces import AllocationStrategy

__all__ = ["Strategies"]


class Strategies:
    """What plugins offer, with default settings."""

    def __init__(self, offered: Mapping[str, Callable[[dict[str, str]], AllocationStrategy]]) -> None:
        self._offered = offered
        self._made: dict[str, AllocationStrategy] = {}

    def named(self, name: str) -> AllocationStrategy:
        """The strategy.

        Raises:
            RefusedWith: code 1, no plugin offers it.
        """
        if name not in self._made:
            if name not in self._offered:
                known = ", ".join(sorted(self._offered)) or "none"
                raise RefusedWith(
                    1,
                    f"no installed plugin offers the allocation strategy {name} (there is {known}); install one with: "
                    "pip install gantrymq-allocate",
                )
            self._made[name] = self._offered[name]({})
        return self._made[name]
