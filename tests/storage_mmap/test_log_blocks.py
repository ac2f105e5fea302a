"""Stretches of the log in memory: read once for all queues, never served where something is odd."""

import pytest

from gantrymq.formats.record import encode_record, iter_records
from gantrymq.interfaces import GetLimit, GetStatus
from gantrymq.model.queue import Queue
from gantrymq_storage_mmap.log.commit_log import CommitLog
from gantrymq_storage_mmap.reading import log_blocks
from gantrymq_storage_mmap.reading.log_blocks import BLOCK_BYTES, OVERLAP_BYTES, LogBlocks
from gantrymq_store_files.queue_entry import ENTRY
from gantrymq_testing.store_contract_bench import message

FILE_BYTES = 64 * BLOCK_BYTES
ONE = BLOCK_BYTES + OVERLAP_BYTES  # bytes of a block in memory


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
    min_offset = 0

    def __init__(self, file, end):
        self.file, self.end, self.hot_offset = file, end, 1 << 62

    def find(self, log_offset):
        return self.file if log_offset < FILE_BYTES else None


def made(sizes, queues=1, blocks=128):
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
    return log, entries, file, LogBlocks(OneFileLog(file, len(log)), blocks * ONE)


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


def test_the_oldest_stretches_are_let_go():
    log, entries, file, blocks = made([1000] * 500, blocks=2)
    assert take(blocks, entries[0]) == expected(log, entries[0])
    before = len(file.reads)
    take(blocks, entries[0][-ENTRY.size :], first=499)
    assert len(file.reads) == before
    take(blocks, entries[0][: ENTRY.size])
    assert len(file.reads) == before + 1
    assert len(blocks._blocks) == 2


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


# --- the hot part -----------------------------------------------------------------------------------------------------


class HotFile(OneFile):
    """A log file that is read without asking what is in memory; counts bytes."""

    def __init__(self, data):
        super().__init__(data)
        self.file, self.broken = self, ()

    def pread(self, length, position):
        if any(position <= each < position + length for each in self.broken):
            raise OSError(5, "Input/output error")
        self.reads.append((position, position + length))
        return self.data[position : position + length]


class HotLog(CommitLog):
    """A log of one file, all of it hot."""

    def __init__(self, file, end):
        super().__init__([], FILE_BYTES, FILE_BYTES, None)
        self._starts, self.files, self.end, self._table = [0], [file], end, ([0], [file])


def hot(sizes, queues, blocks=128):
    log, entries, _, _ = made(sizes, queues)
    file = HotFile(log)
    return log, entries, file, LogBlocks(HotLog(file, len(log)), blocks * ONE)


def get_all(log, blocks, entries, most=32):
    """Read every queue 32 records at a time, in turn; check each answer and return the number of gets."""
    gets = 0
    for at in range(0, max(map(len, entries)), most * ENTRY.size):
        for queue in entries:
            part = queue[at : at + most * ENTRY.size]
            runs = [(each, each + size) for each, size, _ in ENTRY.iter_unpack(part)]
            if runs:
                found = b"".join(blocks.hot(runs, sum(stop - start for start, stop in runs)))
                assert found == expected(log, part)
                gets += 1
    return gets


@pytest.mark.parametrize("queues", [1, 3, 8, 16, 64])
@pytest.mark.parametrize("size", [100, 1000, 4000])
def test_hot_gets_in_turn_return_what_single_reads_return(queues, size):
    log, entries, file, blocks = hot([size] * min(3_000_000 // size, 6000), queues)
    get_all(log, blocks, entries)
    if size < 4000 and queues in (8, 16):
        assert len(file.reads) < min(3_000_000 // size, 6000) / 2


def test_one_queue_among_others_is_read_without_its_neighbours():
    log, entries, file, blocks = hot([1000] * 4000, queues=32)
    get_all(log, blocks, entries[:1])
    assert sum(end - start for start, end in file.reads) < 2 * len(expected(log, entries[0]))


def test_the_end_of_a_growing_log_is_never_stale():
    log, entries, _file, blocks = hot([1000] * 2000, queues=8)
    whole = blocks._log.end
    for end in range(len(expected(log, entries[0])), whole, 50_000):
        blocks._log.end = end
        parts = [b"".join(ENTRY.pack(*e) for e in ENTRY.iter_unpack(q) if e[0] + e[1] <= end) for q in entries]
        get_all(log, blocks, [each[-32 * ENTRY.size :] for each in parts])


def test_after_a_truncation_new_records_are_returned():
    log, entries, file, blocks = hot([1000] * 2000, queues=8)
    get_all(log, blocks, entries)
    other, entries, changed, _ = hot([1001] * 1990, queues=8)
    blocks.clear()
    file.data = changed.data
    blocks._log.end = len(other)
    get_all(other, blocks, entries)


def test_a_bad_sector_fails_only_the_gets_that_need_it():
    log, entries, file, blocks = hot([1000] * 2000, queues=8)
    places = [each for each, _, _ in ENTRY.iter_unpack(entries[7])]
    file.broken = (places[20] + 500,)
    get_all(log, blocks, entries[:7])
    with pytest.raises(OSError, match="Input/output"):
        get_all(log, blocks, entries[7:])
    failed = len(file.reads)
    get_all(log, blocks, entries[:1])
    assert len(file.reads) > failed  # its other records are still read


def test_blocks_of_hot_gets_are_bounded(monkeypatch):
    monkeypatch.setattr(log_blocks, "MOST_ASKED", 4)
    log, entries, _file, blocks = hot([500] * 6000, queues=16, blocks=4)
    get_all(log, blocks, entries)
    assert len(blocks._blocks) <= 4
    assert len(blocks._asked) <= 4


def test_a_hot_get_of_a_record_longer_than_a_block():
    sizes = [100] * 400
    sizes[200] = 3 * BLOCK_BYTES
    log, entries, _file, blocks = hot(sizes + [100] * 4000, queues=8)
    get_all(log, blocks, entries)
    get_all(log, blocks, entries)


def test_without_memory_for_a_block_hot_records_are_read_one_by_one():
    log, entries, file, blocks = hot([500] * 2000, queues=8, blocks=0)
    get_all(log, blocks, entries)
    assert not blocks._blocks
    assert len(file.reads) == 2000


def test_without_memory_for_a_block_old_records_are_still_returned():
    log, entries, _file, blocks = made([1000] * 100, blocks=0)
    assert take(blocks, entries[0]) == expected(log, entries[0])
    assert not blocks._blocks


def test_blocks_of_a_deleted_file_are_dropped():
    log, entries, _file, blocks = hot([500] * 6000, queues=16)
    get_all(log, blocks, entries)
    first = 4 * BLOCK_BYTES  # as if a file ended here
    assert min(blocks._blocks) < 4
    blocks._log._starts = [first]
    left = [b"".join(ENTRY.pack(*e) for e in ENTRY.iter_unpack(q) if e[0] >= first) for q in entries]
    get_all(log, blocks, left)
    assert min(blocks._blocks) == 4
