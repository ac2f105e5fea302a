"""Saving and loading of one config file with a backup, so that one complete version exists at any time.

    save    <file> -> <file>.bak, sync folder; write <file>, sync
    load    <file>, or <file>.bak if <file> is missing, blank or not JSON; without both: new store

A Java broker removes a file that cannot be parsed, so that the next save does not replace the good ``.bak`` with it;
here it is renamed to ``<file>.broken``. A Java broker takes two blank files (empty, or all zeros, which a file system
may leave after a power failure) for a new store; here they are refused, as no broker saves a blank file.

Source: apache/rocketmq common/.../ConfigManager.java (load, loadBak, persist), MixAll.java (string2FileNotSafe).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from gantrymq.errors import FormatError
from gantrymq.loose_json import loads
from gantrymq.world.files import FileReader, FileTree
from gantrymq.world.folders import make_durable_dirs

RESERVE: Final = "reserve"  # file in the same folder that reserves disk space for saves; not JSON


def backup_of(path: Path) -> Path:
    """Return the path of the backup, the text before the last save."""
    return path.with_name(path.name + ".bak")


def broken_of(path: Path) -> Path:
    """Return the path to which an unreadable file is renamed."""
    return path.with_name(path.name + ".broken")


def load(files: FileTree, path: Path, log: Callable[[str], Any] = lambda sentence: None) -> dict[Any, Any] | None:
    """Load the object in *path*, or in its backup if *path* is unusable. Return None if neither file exists.

    Args:
        log: called with a message if the backup is used, or contains more than *path*.
    Raises:
        FormatError: files exist, but none contains a JSON object; both stay unchanged.
        OSError: an existing file cannot be read.
    """
    members, problem = _read(files, path)
    if members:
        return members
    backup = backup_of(path)
    kept, problem_there = _read(files, backup)
    if members is not None:
        if kept:
            log(f"{path} holds an empty object and is read; {backup.name} holds more, put it in its place to use it")
        return members
    if kept is None and (problem or problem_there):
        raise FormatError(
            f"{path}: {problem or 'it is missing'}, and {backup.name}: {problem_there or 'it is missing'}; put a copy "
            f"in the place of {path.name}, or remove both files to start without what they held"
        )
    if problem is not None:
        files.rename(path, broken_of(path))
        files.sync_dir(path.parent)
        log(f"{path}: {problem}; kept as {broken_of(path).name}, reading {backup.name} instead")
    elif kept is not None:
        log(f"{path} is missing; read {backup.name} instead")
    return kept


def save(files: FileTree, path: Path, text: str) -> None:
    """Write *text* to *path* durably, after renaming the old file to the backup. Creates the folder if missing.

    Raises:
        OSError: the save failed; the backup contains the previous text.
    """
    make_durable_dirs(files, path.parent)
    there = files.stat(path)
    if there is not None and there.size > 0:
        files.rename(path, backup_of(path))
        files.sync_dir(path.parent)
    files.replace(path, text.encode())


def _read(files: FileReader, path: Path) -> tuple[dict[Any, Any] | None, str | None]:
    """Return the object in *path* and the reason of a failure; both None for a missing file."""
    try:
        data = files.read(path)
    except FileNotFoundError:
        return None, None
    if not data.strip(b" \t\r\n\0"):
        return None, "it holds nothing but zeros or blanks" if data else "it is empty"
    try:
        value = loads(data)
    except FormatError as problem:
        return None, str(problem)
    if not isinstance(value, dict):
        return None, f"it holds a JSON {type(value).__name__} where an object belongs"
    return value, None
