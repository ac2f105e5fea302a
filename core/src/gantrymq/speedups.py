"""Optional compiled versions of the functions that run for every message (``gantrymq-speedups``).

A compiled function (twin) behaves like its Python version, which is in the module that selects one of them. Without
twins everything runs in Python. ``GANTRYMQ_SPEEDUPS=off`` in the environment disables them.
"""

from __future__ import annotations

import os
from importlib import import_module
from types import ModuleType
from typing import Any, Final

from gantrymq.errors import install_command

__all__ = ["INTERFACE", "compiled", "description", "switch_warning"]

INTERFACE: Final = 11  # incremented when arguments, results or accessed attributes of a twin change
SWITCH: Final = "GANTRYMQ_SPEEDUPS"
_PACKAGE = "gantrymq_speedups"
_DISTRIBUTION: Final = "gantrymq-speedups"


def switch_warning(switch: str) -> str:
    """Return a warning if *switch*, the value of ``GANTRYMQ_SPEEDUPS``, is neither on nor off, else ""."""
    if switch.strip().lower() in ("", "on", "off"):
        return ""
    return f"{SWITCH}={switch[:40]} is ignored: it is neither on nor off"


def find(switch: str = "") -> tuple[ModuleType | None, str]:
    """Return the module of the twins, or None if they are not used, and a description of the choice.

    Args:
        switch: the value of ``GANTRYMQ_SPEEDUPS``; ``off`` disables them.
    """
    if switch.strip().lower() == "off":
        return None, f"pure Python, {SWITCH}=off"
    if ignored := switch_warning(switch):
        module, found_description = find()
        return module, f"{found_description}; {ignored}"
    try:
        found = import_module(f"{_PACKAGE}._compiled")
    except ImportError as error:
        if error.name == _PACKAGE:
            return (
                None,
                f"pure Python; compiled functions come with: {install_command(_DISTRIBUTION)}",
            )
        if error.name == f"{_PACKAGE}._compiled":
            return None, (
                f"pure Python, {_DISTRIBUTION} was installed without a C compiler; with one: "
                + install_command(_DISTRIBUTION, options="--force-reinstall --no-cache-dir ")
            )
        return None, f"pure Python, gantrymq-speedups cannot be loaded: {error}"
    if found.INTERFACE != INTERFACE:
        return None, (
            f"pure Python, the installed gantrymq-speedups has interface {found.INTERFACE} and this version needs "
            f"{INTERFACE}; upgrade both to one version: pip install --upgrade gantrymq {_DISTRIBUTION} (in a clone of "
            "GantryMQ: pip install --upgrade ./core ./libs/speedups)"
        )
    return found, "compiled functions"


compiled: Any
compiled, description = find(os.environ.get(SWITCH, ""))
