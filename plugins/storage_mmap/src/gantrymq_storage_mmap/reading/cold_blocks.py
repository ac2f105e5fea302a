"""Old records without a thread: stretches of the log in memory, for consumers that catch up side by side.

The records of one queue lie scattered among those of the others, and the others' consumers are mostly close by. So one
read of the log takes a whole stretch (a block), if the system says that it is in its cache, and serves the gets of all
queues that have records in it:

    log     | a b c a b c a b c a b c ... | a b c ...
    block   |------ BLOCK_BYTES ------|--| OVERLAP_BYTES: a record that begins in a block ends in it

Only what is plain is served from here: records that `verified_queue_offset` vouches for, each where its entry says.
Anything else gets None, and the reader looks closer.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, NamedTuple

from gantrymq_storage_mmap.log.commit_log import CommitLog
from gantrymq_storage_mmap.log.file import LogFile
from gantrymq_store_files.check import verified_queue_offset
from gantrymq_store_files.queue_entry import ENTRY

__all__ = ["ColdBlocks"]

BLOCK_BYTES: Final = 128 * 1024
OVERLAP_BYTES: Final = 16 * 1024
MOST_BLOCKS: Final = 128  # 18 MB: queues of a topic whose consumers are 10,000 messages apart still share
MOST_SPREAD: Final = 16  # times the bytes that are wanted: records further apart are better read one by one


class Block(NamedTuple):
    """Bytes ``[start, end)`` of the log, which do not change any more."""

    start: int
    end: int
    data: bytes


class ColdBlocks:
    """The blocks that were used last. Belongs to the event loop."""

    def __init__(self, log: CommitLog) -> None:
        """Nothing is read before the first `take`."""
        self._log = log
        self._blocks: OrderedDict[int, Block] = OrderedDict()

    def take(self, entries: bytes, queue_offset: int, topic: bytes, size: int) -> bytes | None:
        """The records of *entries*, one behind the other; None unless all are in memory and plainly sound.

        Args:
            entries: packed, each with a record of its own, in the order of the log.
            queue_offset: of the first one.
            topic: of the queue.
            size: bytes of all the records.
        """
        first, _, _ = ENTRY.unpack_from(entries)
        if ENTRY.unpack_from(entries, len(entries) - ENTRY.size)[0] - first > MOST_SPREAD * size:
            return None
        parts: list[memoryview] = []
        begin, end, data, view = 0, 0, b"", memoryview(b"")
        for log_offset, record_bytes, _ in ENTRY.iter_unpack(entries):
            if log_offset < begin or log_offset + record_bytes > end:
                block = self.shared(log_offset, log_offset + record_bytes)
                if block is None:
                    return None
                begin, end, data = block
                view = memoryview(data)
            position = log_offset - begin
            if verified_queue_offset(data, position, log_offset, record_bytes, topic) != queue_offset:
                return None
            parts.append(view[position : position + record_bytes])
            queue_offset += 1
        return b"".join(parts)

    def holding(self, start: int, end: int, *, alone: bool = False) -> Block | None:
        """A block with bytes ``[start, end)`` of the log; None where the disk would have to be waited for.

        Args:
            start: log offset, and *end* behind it.
            end: within the same file.
            alone: read no others than these bytes: nobody will ask for them.
        """
        block = self._known(start, end) if alone else self.shared(start, end)
        if block is None:
            file = self._log.find(start)
            data = self._read(file, start, end) if file is not None and end <= self._log.end else None
            block = Block(start, end, data) if data is not None and len(data) == end - start else None
        return block

    def _known(self, start: int, end: int) -> Block | None:
        number = start // BLOCK_BYTES
        block = self._blocks.get(number)
        if block is None or start < block.start or block.end < end:
            return None
        self._blocks.move_to_end(number)
        return block

    def _read(self, file: LogFile, start: int, end: int) -> bytes | None:
        if start >= self._log.hot_offset:
            return file.file.pread(end - start, start - file.start)
        return file.pread_cached(start, end)

    def shared(self, start: int, end: int) -> Block | None:
        """The block with bytes ``[start, end)`` of the log; None where it is not in memory, or holds only some."""
        block = self._known(start, end)
        if block is not None:
            return block
        number, file = start // BLOCK_BYTES, self._log.find(start)
        if file is None:
            return None
        begin = max(number * BLOCK_BYTES, file.start)
        behind = min((number + 1) * BLOCK_BYTES + OVERLAP_BYTES, file.end, self._log.end)
        if end > behind:
            return None
        data = self._read(file, begin, behind)
        if data is None:
            return None
        self._blocks[number] = block = Block(begin, behind, data)
        self._blocks.move_to_end(number)
        if len(self._blocks) > MOST_BLOCKS:
            self._blocks.popitem(last=False)
        return block
