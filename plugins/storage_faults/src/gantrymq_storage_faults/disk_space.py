"""A disk that runs full: so many bytes may be taken, in blocks of 4 KiB, and what is removed gives them back.

A file that was there before counts as taking all of its length; names and folders take nothing. A sparse file takes
what was written to it.
"""

from __future__ import annotations

import errno
import os

from gantrymq.world import DiskUse
from gantrymq_storage_faults.pages import PAGE_BYTES, Node

__all__ = ["DiskSpace"]


class DiskSpace:
    """What is left."""

    def __init__(self, left: int | None) -> None:
        """*left*: bytes; None for a disk whose end is not watched."""
        self.left = left

    def take(self, node: Node, start: int, end: int) -> None:
        """Take the blocks of ``[start, end)`` that *node* does not have. Raises OSError (ENOSPC), taking none."""
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
        """Give back what lies behind *length*."""
        kept = -(-length // PAGE_BYTES)
        if self.left is not None:
            self.left += node.blocks.count(1, kept) * PAGE_BYTES
        del node.blocks[kept:]

    def use(self, inner: DiskUse) -> DiskUse:
        """What a look at the disk tells: what is used stays, and the disk is only so much larger as there is room."""
        return inner if self.left is None else DiskUse(inner.total - inner.free + self.left, self.left, self.left)
