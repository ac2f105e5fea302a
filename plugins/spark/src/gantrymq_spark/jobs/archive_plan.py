"""Decides what to archive next, and what brokers may delete."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from gantrymq.errors import StoreError
from gantrymq.plugin.model import Queue
from gantrymq_spark.jobs.archive_layout import ArchivedFile, ArchiveState, QueueProgress
from gantrymq_store_tools.layout import Series, StoreFile


@attrs.frozen
class ArchiveRange:
    """Queue offsets of one queue that a commit archives."""

    broker_name: str
    queue: Queue
    start: int
    end: int  # exclusive
    lost: tuple[int, int] | None = None  # offsets before *start* that were deleted before they were archived

    @property
    def key(self) -> tuple[str, Queue]:
        """Key of the queue in the state."""
        return self.broker_name, self.queue

    def after(self, before: QueueProgress | None) -> QueueProgress:
        """Return the queue's progress after the range is archived."""
        lost = (*(before.lost if before is not None else ()), *((self.lost,) if self.lost is not None else ()))
        return QueueProgress(before.start if before is not None else self.start, self.end, lost)


def refuse_unnamed(state: ArchiveState, broker_names: Iterable[str], root: str) -> None:
    """Raise StoreError if queues with and without a broker name would be mixed, which could duplicate messages."""
    known, given = {broker_name for broker_name, _ in state.progress}, set(broker_names)
    if given and known and ("" in given) != ("" in known):
        there, here = ("no name", "one") if "" in known else (f"the name {min(known)}", "none")
        raise StoreError(
            f"the archive {root} has queues of a broker with {there}, and this run has {here}, so messages could "
            "be duplicated; name a store's broker with --option brokerName=NAME, as in the first run"
        )


def next_ranges(
    state: ArchiveState, broker_name: str, bounds: Mapping[Queue, tuple[int, int]], most: int | None = None
) -> list[ArchiveRange]:
    """Return the available offsets that are not archived, by queue; empty if everything is archived.

    Args:
        bounds: by queue, the smallest queue offset that the broker has, and the end after the largest.
        most: approximate maximum of messages in all, divided among queues in proportion; the rest waits for the next
            commit.

    Raises:
        StoreError: a queue ends before its archived offset: its topic was deleted and recreated.
    """
    found = []
    for queue, (smallest, end) in sorted(bounds.items()):
        before = state.progress.get((broker_name, queue))
        if before is not None and end < before.next:
            raise StoreError(
                f"queue {queue.topic}/{queue.queue_id} of {broker_name} ends at {end}, and the archive has it up to "
                f"{before.next}: its topic was deleted and recreated; archive the new one to another folder"
            )
        begin = before.next if before is not None else smallest
        lost = (begin, smallest) if before is not None and smallest > begin else None
        start = max(begin, smallest)
        if end > start or lost is not None:
            found.append(ArchiveRange(broker_name, queue, start, max(end, start), lost))
    total = sum(each.end - each.start for each in found)
    if most is None or total <= most:
        return found
    return [attrs.evolve(each, end=each.start + -(-(each.end - each.start) * most // total)) for each in found]


def deletable_offsets(state: ArchiveState, broker_name: str) -> dict[Queue, int]:
    """Return by queue the offset before which the broker may delete messages."""
    return {queue: each.next for (broker, queue), each in state.progress.items() if broker == broker_name}


def deletable_log_files(state: ArchiveState, broker_name: str, log: Series) -> list[StoreFile]:
    """Return the files of the commit log whose records are all archived: the oldest ones, never the newest.

    Always empty for an archive of selected topics, because other topics are not archived.
    """
    end = state.logs.get(broker_name, 0)
    return [file for file in log.files[:-1] if file.start + log.file_bytes <= end]


def live_from(state: ArchiveState, broker_name: str, bounds: Mapping[Queue, tuple[int, int]]) -> dict[Queue, int]:
    """Return where to read each queue from, so that archive and broker together give each message once.

    A queue that ends before its archived offset is a new one of the same name: it is read from its first message.
    """
    starts = {}
    for queue, (smallest, end) in bounds.items():
        before = state.progress.get((broker_name, queue))
        starts[queue] = smallest if before is None or end < before.next else max(smallest, before.next)
    return starts


def days_before(state: ArchiveState, date: str, topics: Iterable[str] | None = None) -> list[ArchivedFile]:
    """Return files of days before *date* (yyyy-mm-dd), which the archive's retention removes by a commit."""
    chosen = None if topics is None else set(topics)
    return [file for file in state.files.values() if file.date < date and (chosen is None or file.topic in chosen)]
