"""Handling of a store that a broker has open, for which no final result is possible."""

from __future__ import annotations

from pathlib import Path

from gantrymq.errors import StoreLocked
from gantrymq.plugin.commands import warn
from gantrymq.plugin.real_world import held_elsewhere

IN_USE = 3  # exit code


def in_use(root: Path) -> bool:
    """Return whether a broker, GantryMQ or Java, has the store open."""
    return held_elsewhere(root / "lock")


def warn_if_in_use(root: Path) -> bool:
    """Warn if a broker has the store open, because data may be half written; return whether it has."""
    open_now = in_use(root)
    if open_now:
        warn(f"a broker has {root} open; data it is writing may look like damage")
    return open_now


class StoreInUse(StoreLocked):
    """Raised when a broker has the store open and nothing can be built from it."""

    exit_code = IN_USE


def refuse_if_in_use(root: Path) -> None:
    """Reject a store that a broker has open: a copy made now would be incomplete.

    Raises:
        StoreInUse: a broker has it open; the command ends with `IN_USE`.
    """
    if in_use(root):
        raise StoreInUse(
            f"a broker has {root} open, so the result would lack data that the broker has not written yet; "
            f"stop the broker first (gantrymq store check {root} checks the durable part)"
        )
