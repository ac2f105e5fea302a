"""The compiled twins of the functions that run for every message, where they are installed (``gantrymq-speedups``).

A twin does what its function in Python does, which stands beside the place where it is chosen; without twins everything
runs in Python. ``GANTRYMQ_SPEEDUPS=off`` in the environment leaves them out.
"""

from __future__ import annotations

import os
from importlib import import_module
from types import ModuleType
from typing import Any, Final

__all__ = ["INTERFACE", "compiled", "description", "switch_warning"]

INTERFACE: Final = 7  # incremented when arguments, results or accessed attributes of a twin change
SWITCH: Final = "GANTRYMQ_SPEEDUPS"
_PACKAGE = "gantrymq_speedups"


def switch_warning(switch: str) -> str:
    """A sentence if *switch*, the value of ``GANTRYMQ_SPEEDUPS``, is neither on nor off; "" otherwise."""
    if switch.strip().lower() in ("", "on", "off"):
        return ""
    return f"{SWITCH}={switch[:40]} is ignored: it is neither on nor off"


def find(switch: str = "") -> tuple[ModuleType | None, str]:
    """The module of the twins, None where they are not to be used, and a sentence that says which runs.

    Args:
        switch: the value of ``GANTRYMQ_SPEEDUPS``; ``off`` leaves them out.
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
            return None, "pure Python; compiled functions come with: pip install ./speedups (in a clone of GantryMQ)"
        if error.name == f"{_PACKAGE}._compiled":
            return None, (
                "pure Python, gantrymq-speedups was installed without a C compiler; with one: "
                "pip install --force-reinstall --no-cache-dir ./speedups (in a clone of GantryMQ)"
            )
        return None, f"pure Python, gantrymq-speedups cannot be loaded: {error}"
    if found.INTERFACE != INTERFACE:
        return None, (
            f"pure Python, the installed gantrymq-speedups has interface {found.INTERFACE} and this version needs "
            f"{INTERFACE}; install both anew from one clone of GantryMQ: pip install --upgrade ./core ./speedups"
        )
    return found, "compiled functions"


compiled: Any
compiled, description = find(os.environ.get(SWITCH, ""))
