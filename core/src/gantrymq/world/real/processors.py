"""How many processors this process may use at once, by its affinity and the quotas of its control groups.

Source: the kernel's Documentation/admin-guide/cgroup-v2.rst (cpu.max) and scheduler/sched-bwc.rst (cpu.cfs_quota_us).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

__all__ = ["usable_processors", "yield_processor"]

yield_processor: Callable[[], object] = getattr(os, "sched_yield", lambda: None)
"""Let whoever waits for this thread's processor have it, where the system can."""


def usable_processors(root: Path = Path("/")) -> float:
    """Processors, a fraction where a quota says so. *root* is the folder with ``proc`` and ``sys``."""
    try:
        usable = float(len(os.sched_getaffinity(0)))
    except (AttributeError, OSError):  # no Linux
        usable = float(os.cpu_count() or 1)
    for group in _groups(root):
        try:
            quota, period = _quota(group)
            if quota > 0:
                usable = min(usable, quota / period)
        except (OSError, ValueError, ZeroDivisionError):  # no such file, no quota
            continue
    return usable


def _quota(group: Path) -> tuple[int, int]:
    """Microseconds of processor time in how many of time. Raises ValueError, OSError where there is no such bound."""
    if (group / "cpu.max").exists():
        quota, period = (group / "cpu.max").read_text("ascii").split()
        return int(quota), int(period)
    return int((group / "cpu.cfs_quota_us").read_text("ascii")), int((group / "cpu.cfs_period_us").read_text("ascii"))


def _groups(root: Path) -> list[Path]:
    """Folders of the groups that may bound this process: its own and those around it, of version 2 and of 1."""
    try:
        lines = (root / "proc" / "self" / "cgroup").read_text("utf-8", "replace").splitlines()
    except OSError:
        return []
    mounted = root / "sys" / "fs" / "cgroup"
    found: list[Path] = []
    for line in lines:
        _, _, rest = line.partition(":")  # behind the hierarchy's number
        controllers, _, own = rest.partition(":")
        if not controllers or "cpu" in controllers.split(","):
            group = Path(own.lstrip("/"))
            found += [mounted / controllers / each for each in (group, *group.parents)]
    return found
