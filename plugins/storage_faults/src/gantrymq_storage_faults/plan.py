"""What goes wrong: a plan says it beforehand, and its seed makes every choice that is left open.

Names of calls are those of `gantrymq_testing.forwarding`, but that ``create`` is only the `open` of a file that is not
there yet, and that a `peek` is a ``pread``. CHANGES are those that change or sync something.

The same plan over the same calls gives the same faults. Calls that come from several threads have no order of their
own, so a run with real threads repeats only as far as they do.
"""

from __future__ import annotations

import attrs

from gantrymq_testing.forwarding import CHANGES

__all__ = ["CHANGES", "IMPLICIT_OPERATIONS", "READS", "Failure", "FaultPlan", "Slowness"]

READS = frozenset({"read", "pread", "map"})
"""Names of calls that read contents."""
IMPLICIT_OPERATIONS = frozenset({"write_back", "mapped_read"})
"""What fails only where a `Failure` names it, and is no call: the kernel writes a page by itself, a mapping is read."""


@attrs.frozen
class Failure:
    """Calls that raise OSError and do nothing; a sync that fails loses what it should have written (see `pages`)."""

    number: int  # of the error: errno.EIO, errno.ENOSPC, errno.EROFS, ...
    calls: frozenset[str] = attrs.field(default=CHANGES, converter=frozenset)  # of methods or IMPLICIT_OPERATIONS
    where: str = ""  # only paths that contain this
    at: int = 0  # only the at-th of these calls, from 1; 0 leaves it to *share*
    share: float = 1.0  # of these calls
    times: int = 1 << 62  # at most so often


@attrs.frozen
class Slowness:
    """Calls that take long."""

    seconds: tuple[float, float]  # least and most
    calls: frozenset[str] = attrs.field(default=CHANGES | READS, converter=frozenset)
    where: str = ""
    share: float = 1.0


@attrs.frozen
class FaultPlan:
    """All that goes wrong in one run of `FaultyFiles`."""

    seed: int | str = 0
    crash_at: int = 0  # number of the call, from 1, at which the process ends; 0 for never
    failures: tuple[Failure, ...] = ()
    slowness: tuple[Slowness, ...] = ()
    room_bytes: int | None = None  # what may still be taken on the disk; None leaves that to the files underneath
    flip_share: float = 0.0  # of reads that return one bit wrong; of maps of which one bit is wrong from then on
    # What becomes of that which was not synced when the power goes:
    lose: float = 0.5  # share of dirty pages, and of names, that never got to the disk
    tear: float = 0.25  # share of dirty pages of which some sectors got there and others did not
    sector_bytes: int = 512  # what a disk writes whole; 4096 tears nothing, but still loses every page by itself
    write_back: float = 0.02  # share of calls after which the kernel has written one dirty page by itself
    evict: float = 0.0  # share of calls after which a page that could not be written is read from the disk again
    names_in_order: bool = False  # a journal: of two names the later is never kept without the earlier
