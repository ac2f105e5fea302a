"""What an examination says: one finding for each thing that is wrong, or worth knowing.

A finding names the file, the place in it, how far it reaches, and says in one sentence what was seen and what belongs
there. ``kind`` is for programs: the part of the store, a dot, what is wrong (``log.torn``, ``queue.missing``).
"""

from __future__ import annotations

from typing import Any

import attrs

__all__ = ["Finding", "ProgressListener", "no_progress"]


class ProgressListener:
    """How far a long run is; the base shows nothing."""

    def begin(self, what: str, total_bytes: int) -> None:
        """A part of the work starts that will read about *total_bytes*."""

    def advance(self, read_bytes: int) -> None:
        """So many bytes more were read."""

    def end(self) -> None:
        """The part that began last is done."""


no_progress = ProgressListener()


@attrs.frozen
class Finding:
    """One thing that was seen."""

    kind: str  # "<part>.<what>"
    path: str  # the file or folder, from the store's root
    text: str  # one sentence
    place: int | None = None  # log offset for the log, queue offset for a queue, position in the file for the rest
    extent: int | None = None  # bytes, entries for a queue
    damage: bool = True  # False: worth knowing, nothing is wrong
    recovery: bool = False  # no damage: a broker that does not stop in good order leaves it, the next start mends it

    def to_json(self) -> dict[str, Any]:
        """The members, those without a value left out."""
        return {name: value for name, value in attrs.asdict(self).items() if value is not None}

    def for_recovery(self) -> Finding:
        """The same as something that the next start mends."""
        return attrs.evolve(self, damage=False, recovery=True)
