"""The ends of all queues once the log was read: of those that records were listed in, and of those without any.

A queue without a record in the part of the log that was read ends where the checkpoint, or a search, says. Its newest
entry and the place behind are looked at, in one read: an entry that is missing has the whole log read; one whose record
is not in the log any more is cut off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gantrymq.formats.queue_entry import ENTRY_BYTES, is_pre_blank
from gantrymq.model.light_queues import is_light
from gantrymq.world import Files
from gantrymq_storage_mmap.checkpoint.saved_point import SavedPoint
from gantrymq_storage_mmap.queues.consume_queue import ConsumeQueue, entry_of
from gantrymq_storage_mmap.queues.table import QueueTable
from gantrymq_storage_mmap.recovery.batch_listing import BatchListing
from gantrymq_storage_mmap.recovery.holes import Holes
from gantrymq_storage_mmap.recovery.listing import Listing, first_in_log
from gantrymq_storage_mmap.recovery.queue_cut import QueueCut
from gantrymq_storage_mmap.recovery.replay import Replay

__all__ = ["QueueEnds"]


class QueueEnds:
    """Settles the queues of one table. Blocks."""

    def __init__(self, files: Files, queues: QueueTable, holes: Holes, cut: QueueCut, light: bool) -> None:
        """*light*: whether records were listed in light queues."""
        self._files = files
        self._queues = queues
        self._holes = holes
        self._cut = cut
        self._light = light

    def unlisted(self, replay: Replay, start: int, log_end: int) -> Iterator[str]:
        """Look at the queues without a record, and yield each, as "topic/id", whose newest entry is missing.

        Args:
            replay: gets those whose newest entries have no record.
            start: log offset from which records were shown.
            log_end: behind the last record.
        """
        tails, holes, listings = self._queues.tails, self._holes, replay.listings
        for name, queue in list(self._queues.by_name.items()):
            if name in listings:
                continue
            at = log_end if is_light(queue.topic) and not self._light else start
            last, following = self._around_end(queue)
            if last is None and queue.max_offset > queue.min_offset:
                queue.empty = not self._files.list(queue.folder)
                yield f"{queue.topic}/{queue.queue_id}"
            elif (last is not None and last[0] >= at and not is_pre_blank(*last[:2])) or (
                following is not None and holes.hold(following[0])
            ):
                listings[name] = Listing(queue, tails, holes, at, partial=False)
            elif following is not None:
                self._cut.cut(queue)
        for name, batch in list(self._queues.batch.items()):
            if name not in listings:
                if batch.number_end > batch.first and batch.entry(batch.number_end - 1) is None:
                    yield f"{batch.topic}/{batch.queue_id}"
                else:
                    listings[name] = BatchListing(batch, tails, holes, start, partial=False)

    def _around_end(self, queue: ConsumeQueue) -> tuple[tuple[int, int, int] | None, tuple[int, int, int] | None]:
        """The newest entry, and what stands behind it in the same file, or at the start of the next."""
        end, file_bytes = queue.end, queue.files.file_bytes
        if not end:
            return None, None
        at = (end - ENTRY_BYTES) % file_bytes
        data = queue.look(end - ENTRY_BYTES, 2 * ENTRY_BYTES)
        if at + ENTRY_BYTES == file_bytes:
            data += queue.look(end, ENTRY_BYTES)
        return entry_of(data), entry_of(data[ENTRY_BYTES:])

    def settle(self, replay: Replay, log_min: int, *, minima: bool, look_behind: bool) -> Iterator[str]:
        """Set every queue's offsets, and yield a sentence for each that lost messages.

        Args:
            replay: that was shown the records.
            log_min: where the log begins.
            minima: whether it began elsewhere when the minima were noted.
            look_behind: whether something may stand further behind the ends.
        """
        for listing in replay.listings.values():
            listing.finish()
            if listing.lost:
                queue = listing.queue
                yield f"queue {queue.topic}/{queue.queue_id}: {listing.lost} messages are not in the log"
        if minima:
            for queue in self._queues.by_name.values():
                queue.min_offset = min(first_in_log(queue, log_min), queue.max_offset)
            for batch in self._queues.batch.values():
                batch.begin_at(batch.last_where(lambda entry: entry.log_offset < log_min) + 1)
        for listing in replay.listings.values():
            ext = listing.queue.ext if isinstance(listing, Listing) else None
            if listing.leaves or (look_behind and self._cut.holds_more(listing.queue)):
                self._cut.cut(listing.queue)
            if ext is not None and self._cut.holds_more(ext):
                self._cut.cut(ext)

    def keep_numbers(self, saved: SavedPoint, deleted: Callable[[str], object]) -> None:
        """Let queues go on at the numbers that *saved* knows, where the log has nothing left of their last messages."""
        for topic, ids in saved.queues.items():
            for queue_id, (_, end) in ids.items():
                queue = self._queues.by_name.get((topic, int(queue_id)))
                if queue is None or queue.max_offset >= end or deleted(topic):
                    continue
                if queue.max_offset > queue.min_offset:
                    last = queue.entries(queue.max_offset - 1, 1)
                    if not queue.unwritten:
                        self._queues.tails.begin(queue)
                    queue.append(last * (end - queue.max_offset))
                    self._queues.tails.grown(len(last) * (end - queue.max_offset))
                    queue.next_offset = queue.max_offset
                else:
                    self._queues.tails.forget(queue)
                    queue.begin_at(end)
