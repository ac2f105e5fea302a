"""How one config file is kept: a text and the one before it, so that at every moment one of the two is whole.

    save    <file> -> <file>.bak, sync folder; write <file> whole, sync
    load    <file>, or <file>.bak if <file> is missing, blank or not JSON; neither there: nothing was ever saved

A Java broker removes a file that does not parse, lest the next save put it over the good ``.bak``; here it is renamed
to ``<file>.broken`` for the same reason, and kept. A Java broker takes two blank files (empty, or all zeros, as a file
system may leave them after a power cut) for a new store; here they are refused, as nothing saves a blank file.

Source: apache/rocketmq common/.../ConfigManager.java (load, loadBak, persist), MixAll.java (string2FileNotSafe).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from gantrymq.errors import FormatError
from gantrymq.loose_json import loads
from gantrymq.world.files import Files
from gantrymq.world.folders import make_durable_dirs

RESERVE: Final = "reserve"  # beside the files: room for them, which a broker keeps on the disk; no JSON


def backup_of(path: Path) -> Path:
    """Where the text before the last save is kept."""
    return path.with_name(path.name + ".bak")


def broken_of(path: Path) -> Path:
    """Where a text that could not be read is put aside."""
    return path.with_name(path.name + ".broken")


def load(files: Files, path: Path, log: Callable[[str], Any] = lambda sentence: None) -> dict[Any, Any] | None:
    """Return the object in *path* or else in its backup, None if neither file exists.

    Args:
        log: given one sentence if the backup had to be read, or holds more than *path*.
    Raises:
        FormatError: there are files, and none holds a JSON object; both stay as they are.
        OSError: a file is there and cannot be read.
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


def save(files: Files, path: Path, text: str) -> None:
    """Write *text* to *path* durably; what was there becomes the backup. Makes the folder if need be.

    Raises:
        OSError: nothing is lost then, the backup holds the last text.
    """
    make_durable_dirs(files, path.parent)
    there = files.stat(path)
    if there is not None and there.size > 0:
        files.rename(path, backup_of(path))
        files.sync_dir(path.parent)
    files.replace(path, text.encode())


def _read(files: Files, path: Path) -> tuple[dict[Any, Any] | None, str | None]:
    """The object in *path* and what is wrong with it; neither for a missing file."""
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
