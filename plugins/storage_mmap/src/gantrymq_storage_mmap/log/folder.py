"""The folder of the commit log: what is in it, and whether this store may use it.

Nothing but log files of one size, one behind the other, may be there; RocketMQ refuses anything else too. An empty last
file, and one of full length that holds only zeros, are what an interrupted allocation leaves and are taken as such.

Source: apache/rocketmq store/.../MappedFileQueue.java (doLoad, checkSelf).
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from gantrymq.errors import StoreDamaged, StoreLayoutError
from gantrymq.world import Files
from gantrymq_storage_mmap.log.file import LogFile, file_name, file_start

__all__ = ["create_log_file", "load_log_files"]


def load_log_files(files: Files, folder: Path, file_bytes: int) -> list[LogFile]:
    """Open every log file of *folder*, oldest first.

    Args:
        folder: may be missing, which is an empty log.
        file_bytes: the configured size of every file.

    Raises:
        StoreLayoutError: a stray file, or files of another size; names the key and the size that fits.
        StoreDamaged: a file between the others is missing.
    """
    found: list[tuple[Path, int]] = []
    names = files.list(folder)
    for name in names:
        path = folder / name
        stat = files.stat(path)
        if stat is None or stat.is_dir:
            continue
        start = file_start(name)
        if start is None:
            raise StoreLayoutError(f"{path} does not belong into a commit log folder; move the file away")
        if stat.size == 0 and name == names[-1]:
            files.remove(path)
            continue
        if stat.size != file_bytes or start % file_bytes:
            size = stat.size if stat.size != file_bytes else _likely_size(names, stat.size)
            raise StoreLayoutError(
                f"{path} has {stat.size} bytes, but mappedFileSizeCommitLog is {file_bytes}: "
                f"set mappedFileSizeCommitLog={size} for this store"
            )
        if found and start != found[-1][1] + file_bytes:
            missing = file_name(found[-1][1] + file_bytes)
            raise StoreDamaged(
                f"{folder}: {missing} is missing between {file_name(found[-1][1])} and {name}; put it back, or, when "
                f"it is lost, have its messages given up: truncate -s {file_bytes} {folder / missing}"
            )
        found.append((path, start))
    opened: list[LogFile] = []
    try:
        for path, start in found:
            opened.append(LogFile(path, start, file_bytes, files.open(path)))
    except OSError:
        for log_file in opened:
            log_file.close()
        raise
    return opened


def create_log_file(files: Files, folder: Path, start: int, file_bytes: int) -> LogFile:
    """Make the log file at *start*, its blocks reserved and its name durable, or take over one that is there.

    The length is set before the blocks are reserved, so that a file of a wrong length is never left behind, and it is
    durable before the file is used. May block;
    two threads doing it for the same file do no harm.

    Raises:
        OSError: no room, or the folder cannot be written.
    """
    path = folder / file_name(start)
    file = files.open(path, create=True)
    try:
        if file.size() != file_bytes:
            file.truncate(file_bytes)
        file.allocate(file_bytes)
        file.datasync()  # the length too: a file of length 0 between others would not be taken for part of a log
        files.sync_dir(folder)
    except BaseException:
        file.close()
        raise
    return LogFile(path, start, file_bytes, file)


def _likely_size(names: list[str], size: int) -> int:
    starts = [start for start in map(file_start, names) if start is not None]
    steps = {after - before for before, after in pairwise(starts)}
    return steps.pop() if len(steps) == 1 else size
