"""Warming the next log file before it is used: zeros in every block, pages in the cache, and locked there if allowed.

A reserved block that was never written costs its first sync a change of the file system's own tables as well: measured
on ext4, the median sync of 20 KB took 60 us in a file that was only reserved and 35 us in one filled with zeros. So
warming writes zeros, as RocketMQ does, but through the descriptor, as this store writes everything; the file is
then locked with ``mlock`` so that no other file's pages push its own out.

It costs a second writing of the whole log, and as much memory as the hot files have; therefore it is off by default.
The sync after every few pages keeps the zeros from piling up in front of a sender's sync. A file that is made because
it is needed at once is not warmed.

Source: apache/rocketmq store/.../logfile/DefaultMappedFile.java (warmMappedFile, mlock).
"""

from __future__ import annotations

import threading
from typing import Final

from gantrymq_storage_mmap.log.file import LogFile

__all__ = ["Warming"]

STEP_BYTES: Final = 64 * 1024  # one write of zeros; whoever takes the file waits for one at most
_ZEROS: Final = bytes(STEP_BYTES)


class Warming:
    """The warming of one file. `warm` runs in a thread, the rest belongs to the event loop.

    The file may be needed while it is being warmed; then another descriptor writes records to it, and a zero that is
    written afterwards would destroy one. So each step is made under a lock, and `stop` takes the same lock: when it has
    returned, no more zeros are written.
    """

    def __init__(self, sync_bytes: int, *, may_lock: bool = True) -> None:
        """Nothing happens before `warm`.

        Args:
            sync_bytes: sync after so many, and after the last.
            may_lock: whether to try ``mlock``.
        """
        self.problem: str | None = None  # why the file could not be locked, a sentence
        self._sync_bytes = sync_bytes
        self._may_lock = may_lock
        self._guard = threading.Lock()
        self._stopped = False

    def stop(self) -> None:
        """End it; returns when no more zeros will be written. Harmless when it is done or never began."""
        with self._guard:
            self._stopped = True

    def warm(self, file: LogFile) -> None:
        """Fill *file*, which holds no record, and lock it. Runs in a thread; returns early once stopped.

        Raises:
            OSError: the disk refused.
        """
        position, synced, size = 0, 0, file.end - file.start
        while position < size:
            length = min(STEP_BYTES, size - position)
            with self._guard:
                if self._stopped:
                    return
                file.file.pwrite(memoryview(_ZEROS)[:length], position)
            position += length
            if position - synced >= self._sync_bytes or position == size:
                file.file.datasync()
                synced = position
        if self._may_lock:
            try:
                file.lock()
            except OSError as error:
                self.problem = (
                    f"the commit log file {file.path.name} is warm but cannot be locked in memory: {error.strerror}; "
                    "allow the broker to lock more (ulimit -l, LimitMEMLOCK of systemd), or leave it as it is"
                )
