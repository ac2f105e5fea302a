"""A disk that takes no more: how it shows, and what is said of it."""

from __future__ import annotations

from pathlib import Path

__all__ = ["RESUME", "no_room"]

RESUME = "; writes resume by themselves once there is room"


def no_room(folder: Path, what: str, error: OSError) -> str:
    """The sentence for a disk that took no more."""
    return f"{what} finds no room on the disk of {folder} ({error.strerror or error}); free space{RESUME}"
