"""Corrects the queue offsets that records state, a field that no checksum protects.

The records of one queue have consecutive queue offsets, unless damage destroyed some between two of them (each takes at
least 91 bytes of the log), or the topic was deleted and recreated, which starts again at 0. A single record that breaks
the sequence is held until the next record decides: if that one continues as if the held record were in sequence, it is
moved into the sequence.

    0 1 2 | 900 | 4 5 6      900 is moved to 3
    0 1 2 | 900 901 902      the sequence continues at 900; offsets between have no record
    0 1 2 | 5 | 9 10         unchanged, if the log has room for the missing records
    0 1 2 | 0 1 2            the topic was recreated
"""

from __future__ import annotations

from typing import NamedTuple

from gantrymq.plugin.formats import MIN_RECORD_BYTES, can_be_folder
from gantrymq.plugin.model import Queue
from gantrymq_store_files.queue_entry import ENTRY, ENTRY_BYTES
from gantrymq_store_tools.record_entries import Run

_MAX_OFFSET = 1 << 48
_MAX_NAME_BYTES = 255  # of a folder


class SettledRun(NamedTuple):
    """A run with its final queue offset."""

    run: Run  # with the corrected queue offset
    stated: int  # queue offset stated by the first record; differs from the run's start if the run was moved


class QueueOrder:
    """The sequence of one queue. Call `feed` with runs in log order, then `finish`."""

    __slots__ = ("_waiting", "end", "first", "last")

    def __init__(self) -> None:
        self.first = -1  # queue offset of the first entry, -1 before there is one
        self.end = -1  # queue offset after the last entry
        self.last = (0, 0)  # log offset and size of the last record
        self._waiting: Run | None = None

    def feed(self, run: Run) -> list[SettledRun]:
        """Take *run*; return the runs that are settled by it, in log order."""
        settled = []
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            settled.append(self._place(waiting, self._settle(waiting, run.start)))
        usable = 0 <= run.start <= _MAX_OFFSET
        if usable and (run.start == self.end or run.end - run.start > 1):
            settled.append(self._place(run, run.start))
        else:
            self._waiting = run
        return settled

    def finish(self) -> list[SettledRun]:
        """Settle the run that still waits for a next one."""
        waiting, self._waiting = self._waiting, None
        if waiting is None:
            return []
        start = waiting.start
        if self.end < 0:
            return [self._place(waiting, start if 0 <= start <= _MAX_OFFSET else 0)]
        return [self._place(waiting, start if start == 0 or self._room(waiting) else self.end)]

    def _settle(self, waiting: Run, following: int) -> int:
        """Return the position of *waiting* if the next record states *following*."""
        start = waiting.start
        if not 0 <= start <= _MAX_OFFSET:
            return max(self.end if self.end >= 0 else following - 1, 0)
        if following == waiting.end:
            return start
        if self.end < 0:
            return start if following > start or following == 0 else max(following - 1, 0)
        if following == self.end + 1:
            return self.end
        if start == 0 and following < self.end:
            return 0
        return start if self._room(waiting) else self.end

    def _room(self, run: Run) -> bool:
        """Return whether the missing records had room in the log."""
        place: int = ENTRY.unpack_from(run.entries)[0]
        return 0 <= run.start - self.end <= (place - sum(self.last)) // MIN_RECORD_BYTES

    def _place(self, run: Run, start: int) -> SettledRun:
        placed = run if start == run.start else Run(start, run.entries, start + run.end - run.start)
        self.first = placed.start if self.first < 0 else min(self.first, placed.start)
        self.end = placed.end
        place, size, _ = ENTRY.unpack_from(run.entries, len(run.entries) - ENTRY_BYTES)
        self.last = (place, size)
        return SettledRun(placed, run.start)


def name_problem(queue: Queue) -> str | None:
    """Return why the queue's name cannot be a folder, or None."""
    topic = queue.topic
    if not can_be_folder(topic) or queue.queue_id < 0:
        return f"{topic!r}, queue {queue.queue_id}, cannot name a folder"
    if len(topic.encode("utf-8", "surrogatepass")) > _MAX_NAME_BYTES:
        return f"the topic {topic[:40]!r}... is too long for a folder's name"
    return None
