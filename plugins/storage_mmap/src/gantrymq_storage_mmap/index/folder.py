"""The folder of the index: which of its files are used, and from where on the log has to be read again.

Files are taken oldest first. From the first one on that cannot be right, all are set aside (see `set_aside`) and the
background builds them again from the log: one of another length than the settings give, one whose header contradicts
itself or the file before, one that knows messages behind the log's end, and after a crash one that was not full, or
ended later than the checkpoint says was durable. RocketMQ deletes what ended later and looks at none of the others.

    <store>/indexPosition.json     {"offset": <log offset>, "newest": "<name of the newest file>"}

That note is written by a stop when much of the log's end has no keys, so that the next start need not read it again.
It counts as long as the file it names is there. RocketMQ ignores it.

Source: apache/rocketmq store/.../index/IndexService.java (load).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import attrs

from gantrymq.formats.index import IndexHeader, IndexLayout, is_index_file_name
from gantrymq.world import Files
from gantrymq_storage_mmap.index.file import IndexFile
from gantrymq_storage_mmap.reading.cold_record import FromDisk
from gantrymq_storage_mmap.recovery.set_aside import SetAside

__all__ = ["IndexPlace", "LoadedIndex", "load_index", "read_note", "write_note"]

NOTE = "indexPosition.json"


class IndexPlace(NamedTuple):
    """Up to where the log is indexed."""

    log_offset: int  # everything before it is
    keys: int = 0  # of the message that starts there, so many are


@attrs.frozen
class LoadedIndex:
    """What a folder gave."""

    files: list[IndexFile]  # open, oldest first; none has its slots in memory
    place: IndexPlace
    full_timestamp: int  # ms, end of the newest full file; 0 without one
    set_aside: bool  # there were files that are not used


def load_index(
    files: Files,
    root: Path,
    layout: IndexLayout,
    log: tuple[int, int],
    trusted_ms: int | None,
    stamp_ms: int,
    tell: Callable[[str], object],
) -> LoadedIndex:
    """Open the index files below *root*. Blocks.

    Args:
        layout: what the settings give.
        log: the log's first offset and its end.
        trusted_ms: after a crash the checkpoint's time of the index; None after a clean stop.
        stamp_ms: names the folder of what is set aside.
        tell: is told of each file that is not used.

    Raises:
        OSError: the disk failed.
    """
    folder = root / "index"
    found: list[IndexFile] = []
    problem = ""
    aside = SetAside(files, folder, stamp_ms)
    try:
        for name in files.list(folder):
            path = folder / name
            stat = files.stat(path)
            if not is_index_file_name(name) or stat is None or stat.is_dir:
                tell(f"{path} is no index file and is left alone; those are named by 17 digits")
                continue
            if not problem:
                opened = None
                if stat.size != layout.file_bytes:
                    problem = (
                        f"has {stat.size} bytes where maxHashSlotNum={layout.slots} and maxIndexNum={layout.entries} "
                        f"make {layout.file_bytes}"
                    )
                else:
                    opened = IndexFile.open(files, path, layout)
                    problem = _problem(opened.header, found[-1].header if found else None, layout, log[1], trusted_ms)
                if not problem and opened is not None:
                    found.append(opened)
                    continue
                if opened is not None:
                    opened.close()
            tell(f"index file {name} {problem}; it is kept as {aside.move(path)} and built again from the log")
            problem = problem if problem.startswith("follows") else f"follows {name}, which is not used"
        place = _place(found, log[0])
        noted, newest = read_note(files, root)
        if place.log_offset < noted <= log[1] and newest == (found[-1].path.name if found else ""):
            place = IndexPlace(noted)
    except BaseException:
        for file in found:
            file.close()
        raise
    full_timestamp = max((file.header.end_timestamp for file in found if file.full), default=0)
    return LoadedIndex(found, place, full_timestamp, bool(problem))


def _problem(
    header: IndexHeader, before: IndexHeader | None, layout: IndexLayout, log_end: int, trusted_ms: int | None
) -> str:
    """Why a file cannot be used; empty when it can."""
    if trusted_ms is not None and header.index_count > 1:
        # The checkpoint's time may be that of the file before, when both end in the same millisecond.
        ambiguous = before is not None and before.end_timestamp == header.end_timestamp
        if header.end_timestamp > trusted_ms or header.index_count < layout.entries or ambiguous:
            return "was being written when the broker ended"
    if header.index_count > layout.entries:
        return f"says it holds {header.index_count - 1} entries where {layout.entries - 1} fit"
    if header.index_count > 1 and header.end_offset >= log_end:
        return f"knows a message at {header.end_offset}, where the log ends at {log_end}"
    if header.begin_offset > header.end_offset or header.begin_timestamp > header.end_timestamp:
        return "begins behind its own end"
    if before is not None and before.index_count < layout.entries:
        return "follows a file that is not full"
    if before is not None and header.begin_offset < before.end_offset:
        return f"begins at {header.begin_offset}, before the end of the file before it, {before.end_offset}"
    return ""


def _place(found: list[IndexFile], log_min: int) -> IndexPlace:
    """Behind the newest entry: its message may have more keys than there are entries of it."""
    newest, keys, read = -1, 0, FromDisk().index
    for file in reversed(found):
        number = file.header.index_count - 1
        if number >= 1 and newest < 0:
            newest = file.header.end_offset
        while number >= 1 and file.entry(number, read).log_offset == newest:
            keys += 1
            number -= 1
        if number >= 1:
            break
    return IndexPlace(newest, keys) if newest >= log_min else IndexPlace(log_min)


def read_note(files: Files, root: Path) -> tuple[int, str]:
    """Log offset and file name of the note; -1 without one that can be read."""
    if files.stat(root / NOTE) is None:
        return -1, ""
    try:
        found = json.loads(files.read(root / NOTE))
        return int(found["offset"]), str(found["newest"])
    except (ValueError, OverflowError, TypeError, KeyError):
        return -1, ""


def write_note(files: Files, root: Path, log_offset: int, newest: str) -> None:
    """Write the note. Raises OSError."""
    files.replace(root / NOTE, json.dumps({"offset": log_offset, "newest": newest}).encode("ascii"))
