"""Limit of open files and sockets of this process: the soft limit of ``RLIMIT_NOFILE``."""

from __future__ import annotations

import sys

__all__ = ["usable_descriptors"]

NO_LIMIT = 1_048_576


def usable_descriptors() -> int:
    """Return the current limit; `NO_LIMIT` if there is none, and on Windows."""
    if sys.platform == "win32":
        return NO_LIMIT
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return NO_LIMIT if soft == resource.RLIM_INFINITY else soft
