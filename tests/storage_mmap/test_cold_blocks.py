"""Stretches of the log in memory: read once for all queues, never served where something is odd."""

import pytest

from gantrymq.formats.record import encode_record, iter_records
from gantrymq.interfaces import GetLimit, GetStatus
from gantrymq.model.queue import Queue
from gantrymq_storage_mmap.reading import cold_blocks
from gantrymq_storage_mmap.reading.cold_blocks import BLOCK_BYTES, MOST_BLOCKS, OVERLAP_BYTES, ColdBlocks
from gantrymq_store_files.queue_entry import ENTRY
from gantrymq_testing.store_contract_bench import message

FILE_BYTES = 64 * BLOCK_BYTES


class OneFile:
    """A log of one file, its bytes in memory; counts reads."""

    start, end = 0, FILE_BYTES

    def __init__(self, data):
        self.data = data.ljust(FILE_BYTES, b"\0")
        self.reads = []
        self.cached = True

    def pread_cached(self, start, end):
        self.reads.append((start, end))
        return self.data[start:end] if self.cached else None


class OneFileLog:
    def __init__(self, file, end):
        self.file, self.end, self.hot_offset = file, end, 1 << 62

    def find(self, log_offset):
        return self.file if log_offset < FILE_BYTES else None


def made(sizes, queues=1):
    """Return a log of records whose bodies have *sizes*, in turn for *queues* queues, and the entries of each queue."""
    log, entries = b"", [b""] * queues
    for number, size in enumerate(sizes):
        record = encode_record(
            topic="T",
            queue_id=number % queues,
            body=b"%05d" % number + b"x" * size,
            properties=b"TAGS\x01A\x02",
            log_offset=len(log),
            queue_offset=number // queues,
        )
        entries[number % queues] += ENTRY.pack(len(log), len(record), 0)
        log += record
    file = OneFile(log)
    return log, entries, file, ColdBlocks(OneFileLog(file, len(log)))


def expected(log, entries):
    return b"".join(log[at : at + size] for at, size, _ in ENTRY.iter_unpack(entries))


def take(blocks, entries, first=0):
    size = sum(size for _, size, _ in ENTRY.iter_unpack(entries))
    return blocks.take(entries, first, b"T", size)


def test_queues_side_by_side_share_one_read_of_each_stretch():
    log, entries, file, blocks = made([1000] * 1000, queues=8)
    for queue in entries:
        assert take(blocks, queue) == expected(log, queue)
    stretches = -(-len(log) // BLOCK_BYTES)
    assert file.reads == [
        (n * BLOCK_BYTES, min((n + 1) * BLOCK_BYTES + OVERLAP_BYTES, len(log))) for n in range(stretches)
    ]


def test_a_record_longer_than_the_overlap_is_left_to_others():
    log, entries, _, blocks = made([BLOCK_BYTES - 1000, OVERLAP_BYTES + 2000, 10])
    assert take(blocks, entries[0]) is None
    assert take(blocks, entries[0][: ENTRY.size]) == expected(log, entries[0][: ENTRY.size])


def test_records_far_apart_are_left_to_others():
    _, entries, file, blocks = made([1000] * 200)
    apart = entries[0][: ENTRY.size] + entries[0][-ENTRY.size :]
    assert take(blocks, apart) is None
    assert file.reads == []


def test_nothing_is_served_of_a_stretch_that_is_not_in_memory():
    _, entries, file, blocks = made([100])
    file.cached = False
    assert take(blocks, entries[0]) is None
    file.cached = True
    assert take(blocks, entries[0]) is not None


def test_what_was_appended_behind_a_stretch_is_read_anew():
    log, entries, file, blocks = made([100, 100])
    first, both = entries[0][: ENTRY.size], entries[0]
    blocks._log.end = ENTRY.unpack(first)[1]
    assert take(blocks, first) == expected(log, first)
    assert take(blocks, both) is None  # not yet part of the log
    blocks._log.end = len(log)
    assert take(blocks, both) == expected(log, both)
    assert len(file.reads) == 2


@pytest.mark.parametrize("at", [2, 5, 9, 26, 30, 86, 100], ids=str)
def test_a_flipped_bit_is_not_served(at):
    _, entries, file, blocks = made([100] * 3)
    place = ENTRY.unpack_from(entries[0], ENTRY.size)[0] + at
    file.data = file.data[:place] + bytes([file.data[place] ^ 2]) + file.data[place + 1 :]
    assert take(blocks, entries[0]) is None
    assert take(blocks, entries[0][: ENTRY.size]) is not None


def test_an_entry_of_another_place_in_the_queue_is_not_served():
    _, entries, _, blocks = made([100] * 3)
    assert take(blocks, entries[0], first=1) is None


def test_the_oldest_stretches_are_let_go(monkeypatch):
    monkeypatch.setattr(cold_blocks, "MOST_BLOCKS", 2)
    log, entries, file, blocks = made([1000] * 500)
    assert take(blocks, entries[0]) == expected(log, entries[0])
    before = len(file.reads)
    take(blocks, entries[0][-ENTRY.size :], first=499)
    assert len(file.reads) == before
    take(blocks, entries[0][: ENTRY.size])
    assert len(file.reads) == before + 1
    assert len(blocks._blocks) == 2 < MOST_BLOCKS


def test_queues_of_a_store_are_read_through_them(rig):
    async def case(bench):
        await bench.add(*[message(queue_id=n % 4, body=b"%d" % n) for n in range(400)])
        rig.write_queues(bench)
        await bench.restart()
        rig.faults.cached = True
        got = bench.store.get(Queue("T", 1), 3, GetLimit(), None)
        assert (got.status, got.cold, got.count, got.next_offset) == (GetStatus.FOUND, True, 32, 35)
        assert len(got.buffers) == 1
        assert sum(map(len, got.buffers)) == got.size
        records = iter_records(b"".join(got.buffers))
        assert [bytes(record.body) for record in records] == [b"%d" % n for n in range(13, 13 + 4 * 32, 4)]

    rig.run(case, hotReadWindow=0, mappedFileSizeCommitLog=1_000_000, mappedFileSizeConsumeQueue=200_000)
