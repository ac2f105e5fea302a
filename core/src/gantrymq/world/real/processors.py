"""Number of processors usable by this process, from its affinity and the quotas of its control groups.

Source: the kernel's Documentation/admin-guide/cgroup-v2.rst (cpu.max) and scheduler/sched-bwc.rst (cpu.cfs_quota_us).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

__all__ = ["usable_processors", "yield_processor"]

yield_processor: Callable[[], object] = getattr(os, "sched_yield", lambda: None)
"""Let other threads use this processor, if the platform supports it."""


def usable_processors(root: Path = Path("/")) -> float:
    """Return the number of processors, a fraction with a quota. *root* is the folder with ``proc`` and ``sys``."""
    try:
        usable = float(len(os.sched_getaffinity(0)))
    except (AttributeError, OSError):  # not Linux
        usable = float(os.cpu_count() or 1)
    for group in _groups(root):
        try:
            quota, period = _quota(group)
            if quota > 0:
                usable = min(usable, quota / period)
        except (OSError, ValueError, ZeroDivisionError):  # without a quota
            continue
    return usable


def _quota(group: Path) -> tuple[int, int]:
    """Return processor time and period in microseconds. Raises ValueError or OSError without a quota."""
    if (group / "cpu.max").exists():
        quota, period = (group / "cpu.max").read_text("ascii").split()
        return int(quota), int(period)
    return int((group / "cpu.cfs_quota_us").read_text("ascii")), int((group / "cpu.cfs_period_us").read_text("ascii"))


def _groups(root: Path) -> list[Path]:
    """Return the folders of the control groups of this process and their parents, of versions 2 and 1."""
    try:
        lines = (root / "proc" / "self" / "cgroup").read_text("utf-8", "replace").splitlines()
    except OSError:
        return []
    mounted = root / "sys" / "fs" / "cgroup"
    found: list[Path] = []
    for line in lines:
        _, _, rest = line.partition(":")  # after the number of the hierarchy
        controllers, _, own = rest.partition(":")
        if not controllers or "cpu" in controllers.split(","):
            group = Path(own.lstrip("/"))
            found += [mounted / controllers / each for each in (group, *group.parents)]
    return found
