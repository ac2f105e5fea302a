"""Files of one process in a simulated world: descriptors and locks that end with the process."""

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
        """Raise if the process was killed, or is killed by this call; *changes*: it changes or syncs something."""


class ProcessFiles(ForwardingFiles):
    """`Files` of one process; ``held`` are its open objects, in the order they were opened."""

    def __init__(self, inner: Files, check: Check) -> None:
        super().__init__(inner)
        self._check = check
        self.held: dict[Handle, Path] = {}

    def break_off(self) -> None:
        """Release everything, as the operating system does for an ended process."""
        for handle in reversed(list(self.held)):
            handle.close()

    def around(self, name: str, path: Path, proceed: Callable[[], T], *, position: int = 0, length: int = 0) -> T:
        """Check first, except for releases: a killed process may make them."""
        if name not in ENDS:
            self._check(changes=name in CHANGES)
        return proceed()

    def began(self, handle: Handle) -> None:
        """Add it to the open objects."""
        self.held[handle] = handle.path

    def ended(self, handle: Handle) -> None:
        """Remove it from the open objects."""
        self.held.pop(handle, None)
