"""A disk of limited size: a number of bytes may be used, in blocks of 4 KiB; removing files frees them.

An existing file counts with its full length; names and folders use nothing. A sparse file uses what was written to it.
"""

from __future__ import annotations

import errno
import os

from gantrymq.plugin.world import DiskUsage
from gantrymq_storage_faults.pages import PAGE_BYTES, Node


class DiskSpace:
    """Remaining disk space."""

    def __init__(self, left: int | None) -> None:
        """*left*: bytes; None for no limit."""
        self.left = left

    def take(self, node: Node, start: int, end: int) -> None:
        """Allocate the missing blocks of ``[start, end)`` of *node*. Raises OSError (ENOSPC), allocating none."""
        if end <= start:
            return
        first, last = start // PAGE_BYTES, (end - 1) // PAGE_BYTES + 1
        missing = last - first - node.blocks.count(1, first, last)
        if self.left is not None and missing:
            if missing * PAGE_BYTES > self.left:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(node.path))
            self.left -= missing * PAGE_BYTES
        if last > len(node.blocks):
            node.blocks += bytes(last - len(node.blocks))
        node.blocks[first:last] = b"\1" * (last - first)

    def cut(self, node: Node, length: int) -> None:
        """Free the blocks after *length*."""
        kept = -(-length // PAGE_BYTES)
        if self.left is not None:
            self.left += node.blocks.count(1, kept) * PAGE_BYTES
        del node.blocks[kept:]

    def use(self, inner: DiskUsage) -> DiskUsage:
        """Return the disk usage as processes see it: used bytes unchanged, free bytes as remaining here."""
        return inner if self.left is None else DiskUsage(inner.total - inner.free + self.left, self.left, self.left)
