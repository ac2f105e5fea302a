"""Files as one process of a simulated world sees them: descriptors, mappings and locks that end with the process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar

from gantrymq.world.files import Files
from gantrymq_testing.forwarding import CHANGES, ENDS, ForwardingFiles, Handle

T = TypeVar("T")


class Check(Protocol):
    """Called before every call."""

    def __call__(self, *, changes: bool) -> None:
        """Raise when the process is dead, or dies of this call; *changes*: the call changes or syncs something."""


class ProcessFiles(ForwardingFiles):
    """`Files` of one process; ``held`` is what it has not given back, in the order it was opened."""

    def __init__(self, inner: Files, check: Check) -> None:
        super().__init__(inner)
        self._check = check
        self.held: dict[Handle, Path] = {}

    def break_off(self) -> None:
        """Give everything back, as the operating system does for a process that is gone."""
        for handle in reversed(list(self.held)):
            handle.close()

    def around(self, name: str, path: Path, proceed: Callable[[], T], *, position: int = 0, length: int = 0) -> T:
        """Check first, but for what is given back: a dead process may do that."""
        if name not in ENDS:
            self._check(changes=name in CHANGES)
        return proceed()

    def began(self, handle: Handle) -> None:
        """Hold it."""
        self.held[handle] = handle.path

    def ended(self, handle: Handle) -> None:
        """Hold it no longer."""
        self.held.pop(handle, None)
