"""Reporting of failed writes as Linux does it: each error once to every descriptor that was open when it occurred.

A file, and the file system as a whole, each have one `ErrorSequence`. A descriptor samples the sequence when it is
opened and checks it at each sync. An error that no descriptor has reported yet is also reported to a descriptor opened
later; an error that was already reported is not.

Source: linux lib/errseq.c, Documentation/core-api/errseq.rst.
"""

from __future__ import annotations


class ErrorSequence:
    """Number of errors, the newest errno, and whether the newest error was reported."""

    __slots__ = ("_count", "_number", "_told")

    def __init__(self) -> None:
        self._count = 0
        self._number = 0
        self._told = True

    @property
    def unreported(self) -> bool:
        """Whether an error exists that no descriptor has reported."""
        return not self._told

    def set(self, number: int) -> None:
        """Record an error by its errno; it replaces an older error that was not reported."""
        self._count += self._told
        self._number, self._told = number, False

    def sample(self) -> int:
        """Return the value that a newly opened descriptor has to remember."""
        return self._count if self._told else 0

    def check(self, since: int) -> tuple[int, int]:
        """Return the errno of an error after *since* (0 for none) and the value to remember from now on."""
        if since == self._count:
            return 0, since
        self._told = True
        return self._number, self._count
