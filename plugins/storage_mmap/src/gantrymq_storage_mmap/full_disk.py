"""Error sentences for a full disk."""

from __future__ import annotations

from pathlib import Path

RESUME = "; writes resume by themselves once there is room"


def no_room(folder: Path, what: str, error: OSError) -> str:
    """Return the error sentence for a write that failed because the disk is full."""
    return f"{what} finds no room on the disk of {folder} ({error.strerror or error}); free space{RESUME}"
