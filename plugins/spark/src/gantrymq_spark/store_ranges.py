"""A store's log split into ranges that different processes can read.

A cut is any log offset within a file: a record belongs to the range in which it starts, and the reader of a range
searches for the first record after the range's start (`log_walk.align`). So only the ends of files are read here: bytes
after a file's last non-zero byte are excluded, as are bytes written later to an open log.

If the file ``abort`` exists, a broker has the store open or was not shut down cleanly. Then the checkpoint determines
up to which store time the log must be intact (`StoreRange.vouched_ms`); unfinished writes after that are not damage.
"""

from __future__ import annotations

from pathlib import Path

import attrs

from gantrymq.plugin.world import Files
from gantrymq_store_files.blank import last_nonzero
from gantrymq_store_files.checkpoint import RECOVERY_MARGIN_MS
from gantrymq_store_tools.config_check import read_checkpoint
from gantrymq_store_tools.layout import Series, StoreFile, find_layout

SPLIT_BYTES = 64 * 1024 * 1024


@attrs.frozen
class StoreRange:
    """A range of the log. Made of plain values, so it can be sent to other machines, which must see the same folder."""

    log: Series
    start: int  # log offset; records that start at or after it
    end: int  # log offset; records that start before it
    log_end: int  # log offset after which there were only zeros when the range was created
    vouched_ms: int | None  # store time up to which the log must be intact; None after a clean shutdown: all of it


def plan(files: Files, root: Path, split_bytes: int = SPLIT_BYTES) -> list[StoreRange]:
    """Return the ranges of the log of the store at *root*, in log order.

    Args:
        split_bytes: maximum size of a range, unless a record is longer.

    Raises:
        StoreLayoutError: *root* is not a store that can be read; says which and what to do.
        OSError: a folder or file cannot be read.
    """
    layout = find_layout(files, root)
    vouched_ms = None
    if layout.abort:
        vouched_ms = max(0, read_checkpoint(files, layout).log_timestamp - RECOVERY_MARGIN_MS)
    used = [(file, _used_bytes(files, file, layout.log.file_bytes)) for file in layout.log.files]
    while used and not used[-1][1]:
        used.pop()
    cuts: list[tuple[int, int]] = []
    for number, (file, length) in enumerate(used):
        whole = layout.log.file_bytes if number < len(used) - 1 else length  # zeros before other files are damage
        starts = range(0, max(length, 1), split_bytes)
        ends = [*starts[1:], whole]
        cuts += [(file.start + start, file.start + end) for start, end in zip(starts, ends, strict=True)]
    log_end = cuts[-1][1] if cuts else layout.log.start
    return [StoreRange(layout.log, *cut, log_end, vouched_ms) for cut in cuts]


def _used_bytes(files: Files, file: StoreFile, file_bytes: int) -> int:
    """Return the length up to the file's last non-zero byte; at most the size of the log's files."""
    opened = files.open(file.path, read_only=True)
    try:
        length = min(opened.size(), file_bytes)
        return last_nonzero(lambda at, size: opened.pread(size, at), 0, opened.written(0, length))
    finally:
        opened.close()
