"""Durable creation of folders.

A new name is durable once its parent folder was synced. A synced file is lost if the name of its folder is lost in a
power failure.
"""

from __future__ import annotations

from pathlib import Path

from gantrymq.world.files import FileTree

__all__ = ["make_durable_dirs"]


def make_durable_dirs(files: FileTree, path: Path) -> None:
    """Create the folder and its parents, and sync the names of the new ones.

    Raises:
        OSError: a folder cannot be created; FileExistsError if *path* is a file.
    """
    found = files.stat(path)
    if found is not None and found.is_dir:
        return
    missing: list[Path] = []
    above = path
    while files.stat(above) is None:
        missing.append(above)
        above = above.parent
    files.make_dirs(path)
    for folder in reversed(missing):
        files.sync_dir(folder.parent)
