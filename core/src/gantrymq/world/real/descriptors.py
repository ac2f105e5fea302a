"""How many files and sockets this process may have open at once: the soft limit of ``RLIMIT_NOFILE``."""

from __future__ import annotations

import sys

__all__ = ["usable_descriptors"]

NO_LIMIT = 1_048_576


def usable_descriptors() -> int:
    """The limit as it is now; `NO_LIMIT` where there is none, or no such thing."""
    if sys.platform == "win32":
        return NO_LIMIT
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return NO_LIMIT if soft == resource.RLIM_INFINITY else soft
