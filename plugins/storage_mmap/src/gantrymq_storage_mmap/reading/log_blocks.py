"""Blocks of the log in memory, shared by consumers that catch up together.

The records of one queue are interleaved with those of other queues, and the consumers of these are usually at similar
positions. So one read takes a whole block of the log and serves the gets of all queues that have records in it. Old
blocks are only read if the system has them in its cache, so that no get waits for the disk:

    log     | a b c a b c a b c a b c ... | a b c ...
    block   |------ BLOCK_BYTES ------|--| OVERLAP_BYTES: a record that begins in a block ends in it

Of old records, only plain ones are served from here: those that `sound_records` accepts, each at the position
that its entry says. For anything else the result is None, and the reader checks fully.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, NamedTuple

from gantrymq_storage_mmap.log.commit_log import CommitLog
from gantrymq_storage_mmap.log.file import LogFile
from gantrymq_store_files.check import sound_records
from gantrymq_store_files.queue_entry import ENTRY, ENTRY_BYTES

BLOCK_BYTES: Final = 128 * 1024
OVERLAP_BYTES: Final = 16 * 1024
MOST_SPREAD: Final = 16  # range divided by wanted bytes: beyond this, records are read one by one
_BLOCK_READS: Final = 10  # reads of single records that take as long as reading a block
_NOT_AGAIN: Final = -1_000_000
_FEW_RUNS: Final = 4  # this number of reads takes less than `_BLOCK_READS`
MOST_ASKED: Final = 128  # blocks
_USUAL_BYTES: Final = 2048  # a block has too few records that are larger on average


class Block(NamedTuple):
    """Bytes ``[start, end)`` of the log, which no longer change."""

    start: int
    end: int
    data: bytes


class LogBlocks:
    """The most recently used blocks. Belongs to the event loop."""

    def __init__(self, log: CommitLog, cache_bytes: int) -> None:
        """Keep at most *cache_bytes* of blocks. Nothing is read before the first get."""
        self._log = log
        self._most = cache_bytes // (BLOCK_BYTES + OVERLAP_BYTES)
        self._lowest = 0  # start of the log when blocks of deleted files were last dropped
        self._blocks: OrderedDict[int, Block] = OrderedDict()
        self._asked: dict[int, int] = {}  # records read one by one, by block number; the latest last

    def take(self, entries: bytes, queue_offset: int, topic: bytes, size: int) -> bytes | None:
        """Return the records of *entries* concatenated; None unless all are in memory and plain.

        Args:
            entries: packed, each with its own record, in log order.
            queue_offset: of the first one.
            topic: of the queue.
            size: total bytes of the records.
        """
        first, _, _ = ENTRY.unpack_from(entries)
        if ENTRY.unpack_from(entries, len(entries) - ENTRY.size)[0] - first > MOST_SPREAD * size:
            return None
        parts: list[bytes] = []
        index, count = 0, len(entries) // ENTRY_BYTES
        while index < count:
            log_offset, record_bytes, _ = ENTRY.unpack_from(entries, index * ENTRY_BYTES)
            block = self.shared(log_offset, log_offset + record_bytes)
            if block is None:
                return None
            taken, records = sound_records(block.data, block.start, entries, index, queue_offset + index, topic)
            if not taken:
                return None
            parts.append(records)
            index += taken
        return b"".join(parts)

    def hot(self, runs: Sequence[tuple[int, int]], size: int) -> Sequence[bytes | memoryview]:
        """Return the bytes of *runs*, which are ascending and within the hot part; *size* in total.

        Runs that are apart are copied from blocks where several gets needed records of the same block, and read one by
        one elsewhere. A block that the log may still grow into is not read.

        Raises:
            StoreError: a run is outside the log.
            OSError: the disk failed.
        """
        log, count = self._log, len(runs)
        if not self._most or count <= _FEW_RUNS or size > count * _USUAL_BYTES:
            return log.read_hot(runs)
        if runs[-1][1] + BLOCK_BYTES + OVERLAP_BYTES > log.end:
            return log.read_hot(runs)
        parts: list[bytes | memoryview] = []
        alone: list[int] = []  # runs to read one by one
        first = 0
        while first < count:
            limit = runs[first][0] // BLOCK_BYTES * BLOCK_BYTES + BLOCK_BYTES
            after = first + 1
            while after < count and runs[after][0] < limit:
                after += 1
            block = self._worth_reading(runs[first][0], runs[after - 1][1], after - first)
            if block is None:
                alone += range(first, after)
                parts += [b""] * (after - first)
            else:
                begin, view = block.start, memoryview(block.data)
                parts += [view[start - begin : stop - begin] for start, stop in runs[first:after]]
            first = after
        if len(alone) == count:
            return log.read_hot(runs)
        for index, data in zip(alone, log.read_hot([runs[each] for each in alone]), strict=True):
            parts[index] = data
        return [b"".join(parts)]

    def _worth_reading(self, start: int, end: int, records: int) -> Block | None:
        """Return the block with *records* records from *start* to *end*; None if they should be read one by one.

        A block is read once as many of its records were read one by one as take the time of reading the block.
        """
        block = self.known(start, end)
        if block is not None:
            return block
        number = start // BLOCK_BYTES
        asked = self._asked.pop(number, 0) + records
        if asked >= _BLOCK_READS:
            try:
                block = self.shared(start, end)
            except OSError:  # perhaps of other records than those wanted
                asked = _NOT_AGAIN
            if block is not None:
                return block
        self._asked[number] = asked
        if len(self._asked) > MOST_ASKED:
            del self._asked[next(iter(self._asked))]
        return None

    def clear(self) -> None:
        """Forget all blocks, because the log was truncated."""
        self._blocks.clear()
        self._asked.clear()
        self._lowest = 0

    def holding(self, start: int, end: int, *, alone: bool = False) -> Block | None:
        """Return a block with bytes ``[start, end)`` of the log; None if they are not in memory.

        Args:
            start: log offset.
            end: log offset after the bytes, within the same file.
            alone: read only these bytes, because no other get will need the block.
        """
        block = self.known(start, end) if alone else self.shared(start, end)
        if block is None:
            file = self._log.find(start)
            data = self._read(file, start, end) if file is not None and end <= self._log.end else None
            block = Block(start, end, data) if data is not None and len(data) == end - start else None
        return block

    def known(self, start: int, end: int) -> Block | None:
        """Return the block with bytes ``[start, end)`` of the log if it was read before and is still kept."""
        if self._log.min_offset > self._lowest:
            self._drop_deleted()
        number = start // BLOCK_BYTES
        block = self._blocks.get(number)
        if block is None or start < block.start or block.end < end:
            return None
        self._blocks.move_to_end(number)
        return block

    def _drop_deleted(self) -> None:
        self._lowest = lowest = self._log.min_offset
        for number in [number for number, block in self._blocks.items() if block.start < lowest]:
            del self._blocks[number]

    def _read(self, file: LogFile, start: int, end: int) -> bytes | None:
        if start >= self._log.hot_offset:
            return file.file.pread(end - start, start - file.start)
        return file.pread_cached(start, end)

    def shared(self, start: int, end: int) -> Block | None:
        """Return the block with bytes ``[start, end)`` of the log; None if it is not, or only partly, in memory."""
        block = self.known(start, end)
        if block is not None:
            return block
        number, file = start // BLOCK_BYTES, self._log.find(start)
        if file is None:
            return None
        begin = max(number * BLOCK_BYTES, file.start)
        block_end = min((number + 1) * BLOCK_BYTES + OVERLAP_BYTES, file.end, self._log.end)
        if end > block_end:
            return None
        data = self._read(file, begin, block_end)
        if data is None:
            return None
        self._blocks[number] = block = Block(begin, block_end, data)
        self._blocks.move_to_end(number)
        if len(self._blocks) > self._most:
            self._blocks.popitem(last=False)
        return block
