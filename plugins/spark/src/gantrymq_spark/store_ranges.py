"""A store's folder cut into ranges of its log that different processes may read.

A cut is a log offset anywhere in a file: a record belongs to the range in which it starts, and whoever reads a range
looks for the first record behind its start (`log_walk.align`). So nothing but the ends of files is read here: what lies
behind a file's last byte that is not zero is left out, and of a log that is being written to, what comes later.

Where ``abort`` is in the folder a broker has the store open, or did not stop in good order. Then the checkpoint tells
how far the log has to be right (`StoreRange.vouched_ms`), and what is unfinished behind that is no damage.
"""

from __future__ import annotations

from pathlib import Path

import attrs

from gantrymq.world.files import Files
from gantrymq_store_files.checkpoint import RECOVERY_MARGIN_MS
from gantrymq_store_files.zeros import last_nonzero
from gantrymq_store_tools.config_check import read_checkpoint
from gantrymq_store_tools.layout import Series, StoreFile, find_layout

__all__ = ["SPLIT_BYTES", "StoreRange", "plan"]

SPLIT_BYTES = 64 * 1024 * 1024


@attrs.frozen
class StoreRange:
    """Where to read. Made of plain values, so it can be sent elsewhere; what is read there is the same folder."""

    log: Series
    start: int  # log offset; records that start from here on
    end: int  # log offset; and before it
    log_end: int  # log offset behind which nothing but zeros stood when this was made
    vouched_ms: int | None  # store time before which nothing may be missing; None: the broker stopped in good order


def plan(files: Files, root: Path, split_bytes: int = SPLIT_BYTES) -> list[StoreRange]:
    """Ranges of the log of the store at *root*, in its order.

    Args:
        split_bytes: a range has at most so many, unless a record is longer.

    Raises:
        StoreLayoutError: no store that can be read; says which and what can be done.
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
    """Up to the last byte of a file that is not zero; at most the size that files of this log have."""
    opened = files.open(file.path, read_only=True)
    try:
        length = min(opened.size(), file_bytes)
        return last_nonzero(lambda at, size: opened.pread(size, at), 0, opened.written(0, length))
    finally:
        opened.close()
