"""A disk that takes no more: how it shows, and what is said of it."""

from __future__ import annotations

import errno
from pathlib import Path

__all__ = ["RESUME", "is_full", "no_room"]

RESUME = "; writes resume by themselves once there is room"
_FULL = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))


def is_full(error: OSError) -> bool:
    """Whether *error* says that there is no room, which passes by itself."""
    return error.errno in _FULL


def no_room(folder: Path, what: str, error: OSError) -> str:
    """The sentence for a disk that took no more."""
    return f"{what} finds no room on the disk of {folder} ({error.strerror or error}); free space{RESUME}"
