"""Who has been told of a failed write, as Linux keeps it: each error once to every descriptor that could ask.

A file, and the file system as a whole, have one `ErrorMark`. A descriptor remembers the mark when it is opened and asks
at each sync. An error that nobody has heard of is told to a descriptor that was opened after it as well; one that
somebody has heard of is not.

Source: linux lib/errseq.c, Documentation/core-api/errseq.rst.
"""

from __future__ import annotations

__all__ = ["ErrorMark"]


class ErrorMark:
    """A count of errors, the newest one's number, and whether somebody was told of it."""

    __slots__ = ("_count", "_number", "_told")

    def __init__(self) -> None:
        self._count = 0
        self._number = 0
        self._told = True

    @property
    def untold(self) -> bool:
        """Whether there is an error that nobody was told of."""
        return not self._told

    def set(self, number: int) -> None:
        """An error, by its errno; an older one that nobody was told of is forgotten."""
        self._count += self._told
        self._number, self._told = number, False

    def sample(self) -> int:
        """What a descriptor that is opened now remembers."""
        return self._count if self._told else 0

    def check(self, since: int) -> tuple[int, int]:
        """The errno of what happened since, 0 for nothing; and what to remember from now on."""
        if since == self._count:
            return 0, since
        self._told = True
        return self._number, self._count
