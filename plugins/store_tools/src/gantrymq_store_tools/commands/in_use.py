"""What the commands of ``gantrymq store`` do about a store that a broker has open: nothing final can be said of it."""

from __future__ import annotations

from pathlib import Path

from gantrymq.commands.output import warn
from gantrymq.errors import StoreLocked
from gantrymq.world.real.lock import held_elsewhere

__all__ = ["IN_USE", "StoreInUse", "in_use", "refuse_if_in_use", "warn_if_in_use"]

IN_USE = 3  # exit code


def in_use(root: Path) -> bool:
    """Whether a broker, ours or a Java one, has the store open."""
    return held_elsewhere(root / "lock")


def warn_if_in_use(root: Path) -> bool:
    """Say on stderr that a broker has the store open, if it has: what is read then may be half written."""
    open_now = in_use(root)
    if open_now:
        warn(f"a broker has {root} open; what it writes meanwhile may look like damage")
    return open_now


class StoreInUse(StoreLocked):
    """A broker has the store open, which nothing can be made of."""

    exit_code = IN_USE


def refuse_if_in_use(root: Path) -> None:
    """Refuse a store that a broker has open: a copy made now would be half of its work.

    Raises:
        StoreInUse: a broker has it open; it ends a command with `IN_USE`.
    """
    if in_use(root):
        raise StoreInUse(
            f"a broker has {root} open, and what is made of it now would lack what the broker still writes; "
            f"stop the broker first (gantrymq store check {root} looks at what is durable)"
        )
