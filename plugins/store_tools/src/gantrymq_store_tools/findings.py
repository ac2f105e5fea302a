"""Findings of a check: one for each problem or remarkable fact.

A finding names the file, the position in it, the extent, and says in one sentence what was found and what was expected.
``kind`` is for programs: the part of the store, a dot, the problem (``log.torn``, ``queue.missing``).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import attrs

DUE_TIME: Final = "queue.due_time"


class ProgressListener:
    """Receives the progress of a long run; the base class ignores it."""

    def begin(self, what: str, total_bytes: int) -> None:
        """Report the start of a phase, which reads about *total_bytes*."""

    def advance(self, read_bytes: int) -> None:
        """*read_bytes* more bytes were read."""

    def end(self) -> None:
        """Report the end of the phase that began last."""


no_progress = ProgressListener()


@attrs.frozen
class Finding:
    """One problem or remarkable fact."""

    kind: str  # "<part>.<problem>"
    path: str  # the file or folder, relative to the store's root
    text: str  # one sentence
    place: int | None = None  # log offset for the log, queue offset for a queue, file position otherwise
    extent: int | None = None  # bytes; entries for a queue
    damage: bool = True  # False: informational
    recovery: bool = False  # not damage: left by an unclean shutdown, repaired by the next start

    def to_json(self) -> dict[str, Any]:
        """Return the members that have a value."""
        return {name: value for name, value in attrs.asdict(self).items() if value is not None}

    def for_recovery(self) -> Finding:
        """Return a copy marked as repaired by the next start."""
        return attrs.evolve(self, damage=False, recovery=True)


def due_times(findings: Iterable[Finding]) -> int:
    """Return the number of queue entries with another due time than that of their delay level."""
    return sum(finding.extent or 0 for finding in findings if finding.kind == DUE_TIME)


def only_due_times(findings: Iterable[Finding]) -> bool:
    """Return whether all damage is of due times: the broker may have other delay levels, and nothing be damaged."""
    return {finding.kind for finding in findings if finding.damage} == {DUE_TIME}


def counted(number: int, noun: str) -> str:
    """Format a number with its *noun*, given in the singular: ``1 message``, ``2,000 messages``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
