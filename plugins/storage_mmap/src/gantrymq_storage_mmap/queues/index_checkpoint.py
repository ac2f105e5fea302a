"""The index's part of a checkpoint, beside the queues': synced file by file, its note in a file of its own.

    <store>/indexNote.json     {"checkpoint": [<RocketMQ's five numbers>], "note": {...}}

The note counts as long as RocketMQ's checkpoint is the one that it was written with.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gantrymq.formats.checkpoint import Checkpoint
from gantrymq.world import Files
from gantrymq_storage_mmap.index.mark import IndexMark

__all__ = ["believed_note", "save_note", "sync_mark"]

NAME = "indexNote.json"


def sync_mark(files: Files, mark: IndexMark) -> None:
    """Write and sync all of *mark*. Runs in a thread. Raises OSError."""
    mark.write()
    for file in mark.files:
        file.datasync()
    for folder in mark.folders:
        files.sync_dir(folder)


def save_note(files: Files, root: Path, checkpoint: Checkpoint, note: dict[str, Any]) -> None:
    """Write the note that belongs to *checkpoint*. Raises OSError."""
    files.replace(root / NAME, json.dumps({"checkpoint": checkpoint, "note": note}).encode("ascii"))


def believed_note(files: Files, root: Path, checkpoint: Checkpoint) -> Any:
    """The note that was written with *checkpoint*; None without one."""
    if files.stat(root / NAME) is None:
        return None
    try:
        found = json.loads(files.read(root / NAME))
        return found["note"] if found["checkpoint"] == list(checkpoint) else None
    except (ValueError, TypeError, KeyError):
        return None
