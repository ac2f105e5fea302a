"""Names that a module exports without importing their homes before the first use, so that commands start fast."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from sys import modules


def lazy_exports(
    module: str, homes: Mapping[str, str]
) -> tuple[list[str], Callable[[str], object], Callable[[], list[str]]]:
    """Return ``__all__``, ``__getattr__`` and ``__dir__`` of *module*.

    Args:
        module: its name.
        homes: the names that each module of core declares, separated by spaces.
    """
    home_of = {name: home for home, names in homes.items() for name in names.split()}

    def imported(name: str) -> object:
        if name not in home_of:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        value = getattr(import_module(home_of[name]), name)
        setattr(modules[module], name, value)
        return value

    def listed() -> list[str]:
        return sorted({*vars(modules[module]), *home_of})

    return sorted(home_of), imported, listed
