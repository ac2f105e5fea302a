"""Fault plans: what fails in a run. The seed determines every random choice.

Names of calls are those of `gantrymq_testing.forwarding`, except that ``create`` is the `open` of a file that does not
exist yet, and `peek` counts as ``pread``. CHANGES are the calls that change or sync something.

The same plan over the same calls gives the same faults. Calls from several threads have no fixed order, so a run with
real threads repeats only as far as their order does.
"""

from __future__ import annotations

import attrs

from gantrymq_testing.forwarding import CHANGES

__all__ = ["CHANGES", "IMPLICIT_OPERATIONS", "READS", "Failure", "FaultPlan", "Slowness"]

READS = frozenset({"read", "pread"})
"""Names of calls that read contents."""
IMPLICIT_OPERATIONS = frozenset({"write_back"})
"""Operations that are not calls and fail only if a `Failure` names them: write-back."""


@attrs.frozen
class Failure:
    """Calls that raise OSError and do nothing; a failed sync loses the data it should have written (see `pages`)."""

    number: int  # of the error: errno.EIO, errno.ENOSPC, errno.EROFS, ...
    calls: frozenset[str] = attrs.field(default=CHANGES, converter=frozenset)  # of methods or IMPLICIT_OPERATIONS
    where: str = ""  # only paths containing this text
    at: int = 0  # only the call with this number among them, from 1; 0 to use *share*
    share: float = 1.0  # share of these calls
    times: int = 1 << 62  # maximum number of failures


@attrs.frozen
class Slowness:
    """Slow calls."""

    seconds: tuple[float, float]  # minimum and maximum
    calls: frozenset[str] = attrs.field(default=CHANGES | READS, converter=frozenset)
    where: str = ""
    share: float = 1.0


@attrs.frozen
class FaultPlan:
    """All faults in one run of `FaultyFiles`."""

    seed: int | str = 0
    crash_at: int = 0  # number of the call, from 1, at which the process ends; 0 for never
    failures: tuple[Failure, ...] = ()
    slowness: tuple[Slowness, ...] = ()
    room_bytes: int | None = None  # free disk space; None for no limit
    flip_share: float = 0.0  # share of reads that return a wrong bit
    # Fate of unsynced data in a power cut:
    lose: float = 0.5  # share of dirty pages, and of names, that did not reach the disk
    tear: float = 0.25  # share of dirty pages of which only some sectors reached the disk
    sector_bytes: int = (
        512  # unit that a disk writes atomically; with 4096 no page is torn, but pages are still lost independently
    )
    write_back: float = 0.02  # share of calls after which the kernel writes one dirty page
    evict: float = 0.0  # share of calls after which a lost page is read from the disk again
    names_in_order: bool = False  # like a journal: a change of names is never kept without the earlier ones
