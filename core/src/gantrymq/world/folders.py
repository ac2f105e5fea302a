"""Folders that are still there after a power cut.

`Files.make_dirs` makes names, and a name is durable once the folder it stands in was synced. A file that was synced in
a folder whose own name is lost is lost with it.
"""

from __future__ import annotations

from pathlib import Path

from gantrymq.world.files import Files

__all__ = ["make_durable_dirs"]


def make_durable_dirs(files: Files, path: Path) -> None:
    """Create the folder and its parents, and make the names of those that were missing durable.

    Raises:
        OSError: they cannot be made; FileExistsError when *path* is a file.
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
