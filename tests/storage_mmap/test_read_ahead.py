"""Requests to the system about the log while a consumer catches up."""

import errno

import pytest

from gantrymq.interfaces import GetLimit
from gantrymq.model.queue import Queue
from gantrymq_storage_mmap.reading import read_ahead
from gantrymq_storage_mmap.reading.read_ahead import AHEAD_BYTES, GAP_BYTES, MOST_STREAMS, places
from gantrymq_store_files.queue_entry import ENTRY
from gantrymq_testing.store_contract_bench import OnlyTags, bodies, message

T0, T1 = Queue("T", 0), Queue("T", 1)
COLD = {"mappedFileSizeCommitLog": 1 << 20, "mappedFileSizeConsumeQueue": 200_000, "hotReadWindow": 0}
FEW = GetLimit(max_count=4)


@pytest.fixture
def told(rig, monkeypatch):
    """``(call, log offset, end)`` in order, for log files of `COLD`."""
    calls = []

    def noted(name):
        def call(file, start, end):
            calls.append((name, start, end))

        return call

    for name in ("prefetch", "drop_cache"):
        monkeypatch.setattr(f"gantrymq_storage_mmap.log.file.LogFile.{name}", noted(name))
    return calls


async def walk(bench, queue, offset, gets, match=None):
    """Make *gets* consecutive pulls of four messages; return the offset of the next one."""
    for _ in range(gets):
        offset = (await bench.get(queue, offset, FEW, match)).next_offset
    return offset


def test_a_second_get_in_a_row_has_the_next_records_read(rig, told):
    async def case(bench):
        results = await bench.add(*[message(body=b"x" * 1000) for _ in range(40)])
        await walk(bench, T0, 0, 1)
        assert told == []
        await walk(bench, T0, 4, 1)
        assert told == [("prefetch", results[8].log_offset, results[-1].end)]
        await walk(bench, T0, 8, 5)
        assert len(told) == 1

    rig.run(case, **COLD)


def test_single_gets_here_and_there_read_nothing_ahead(rig, told):
    async def case(bench):
        await bench.add(*[message() for _ in range(40)])
        for offset in (0, 20, 8, 30, 0, 20):
            await walk(bench, T0, offset, 1)
        assert told == []

    rig.run(case, **COLD)


def test_the_way_of_a_filter_that_matches_nothing_counts_too(rig, told):
    async def case(bench):
        await bench.add(*[message(tag="A") for _ in range(2000)])
        await walk(bench, T0, 0, 2, OnlyTags("B"))
        assert [name for name, *_ in told] == ["prefetch"]

    rig.run(case, **COLD)


def test_records_far_apart_are_read_without_the_bytes_between(rig, told):
    async def case(bench):
        results = []
        for _ in range(12):
            results += await bench.add(message(body=b"wanted"))
            await bench.add(message("Other", body=b"o" * (GAP_BYTES + 1)))
        await walk(bench, T0, 0, 2)
        assert told == [("prefetch", each.log_offset, each.end) for each in results[8:]]

    rig.run(case, **COLD)


def test_what_is_in_the_cache_at_both_ends_is_not_asked_for(rig, told, monkeypatch):
    monkeypatch.setattr(read_ahead, "PROBED_ENTRIES", 12)

    async def case(bench):
        results = await bench.add(*[message(body=b"x" * 1000) for _ in range(80)])
        rig.write_queues(bench)
        await bench.restart()
        rig.faults.cached = True
        await walk(bench, T0, 0, 5)
        assert told == []
        rig.faults.cached = False
        await walk(bench, T0, 20, 2)  # has to wait, so the system is asked from now on
        rig.faults.cached = True
        await walk(bench, T0, 28, 2)
        assert {name for name, _, _ in told} == {"prefetch"}
        assert told[-1][2] == results[-1].end

    rig.run(case, **COLD)


def test_ends_far_apart_do_not_describe_the_records_between(rig, told, monkeypatch):
    monkeypatch.setattr(read_ahead, "PROBED_BYTES", 5000)

    async def case(bench):
        await bench.add(*[message(body=b"x" * 1000) for _ in range(80)])
        rig.write_queues(bench)
        await bench.restart()
        rig.faults.cached = True
        await walk(bench, T0, 0, 2)
        assert len(told) == 1

    rig.run(case, **COLD)


def test_no_more_than_two_windows_lie_in_front_of_a_stream(rig, told, monkeypatch):
    monkeypatch.setattr(read_ahead, "AHEAD_BYTES", 10_000)

    async def case(bench):
        await bench.add(*[message(body=b"x" * 1000) for _ in range(200)])
        offset = await walk(bench, T0, 0, 6)
        assert len(told) == 3
        assert sum(end - start for _, start, end in told) < 4 * 10_000
        assert await walk(bench, T0, offset, 44) == 200
        assert [start for _, start, _ in told[1:]] == [end for *_, end in told[:-1]]

    rig.run(case, **COLD)


def test_what_a_stream_left_behind_is_let_go_where_memory_could_not_hold_it(rig, told, monkeypatch):
    monkeypatch.setattr(read_ahead, "AHEAD_BYTES", 10_000)

    async def case(bench):
        await bench.add(*[message(body=b"x" * 1000) for _ in range(200)])
        await walk(bench, T0, 0, 20)
        ahead = [call[1:] for call in told if call[0] == "prefetch"]
        gone = [call[1:] for call in told if call[0] == "drop_cache"]
        assert len(gone) >= 3
        assert gone == ahead[: len(gone)]

    rig.run(case, accessMessageInMemoryMaxRatio=0, **COLD)


def test_nothing_is_released_if_memory_suffices(rig, told, monkeypatch):
    monkeypatch.setattr(read_ahead, "AHEAD_BYTES", 10_000)

    async def case(bench):
        await bench.add(*[message(body=b"x" * 1000) for _ in range(200)])
        await walk(bench, T0, 0, 50)
        assert {name for name, *_ in told} == {"prefetch"}

    rig.run(case, **COLD)


def test_what_another_stream_is_about_to_read_stays(rig, told, monkeypatch):
    monkeypatch.setattr(read_ahead, "AHEAD_BYTES", 10_000)

    async def case(bench):
        await bench.add(*[message(queue_id=n % 2, body=b"x" * 1000) for n in range(200)])
        await walk(bench, T1, 0, 2)  # is at its ninth message
        await walk(bench, T0, 0, 20)
        assert "drop_cache" not in {name for name, *_ in told}
        await walk(bench, T1, 8, 14)
        gone = [call for call in told if call[0] == "drop_cache"]
        assert gone
        assert all(end <= 100 * 1100 * 2 for *_, end in gone)

    rig.run(case, accessMessageInMemoryMaxRatio=0, **COLD)


def test_it_can_be_switched_off(rig, told):
    async def case(bench):
        await bench.add(*[message() for _ in range(40)])
        await walk(bench, T0, 0, 10)
        assert told == []

    rig.run(case, dataReadAheadEnable="false", **COLD)


def test_streams_that_ended_are_forgotten_and_never_too_many_kept(rig, monkeypatch):
    monkeypatch.setattr(read_ahead, "MOST_STREAMS", 3)

    async def case(bench):
        await bench.add(*[message() for _ in range(40)])
        streams = bench.store._reader._ahead._streams
        for offset in range(10):
            await walk(bench, T0, offset, 1)
        assert [key[1] for key in streams] == [11, 12, 13]
        monkeypatch.setattr(read_ahead, "FORGOTTEN_S", 0.0)
        await walk(bench, T0, 20, 1)
        assert [key[1] for key in streams] == [24]

    rig.run(case, **COLD)
    assert MOST_STREAMS == 1024


def test_a_disk_that_takes_no_hints_does_not_keep_anybody_from_reading(rig):
    async def case(bench):
        await bench.add(*[message(body=b"%d" % n) for n in range(40)])
        rig.faults.failing = {"prefetch": errno.EIO}
        found = await bench.read_all(T0, limit=FEW)
        assert bodies(found) == [b"%d" % n for n in range(40)]
        assert rig.faults.calls["prefetch"]

    rig.run(case, **COLD)


def test_a_thread_that_reads_ahead_is_counted_until_it_has_ended(rig):
    async def case(bench):
        await bench.add(*[message() for _ in range(40)])
        bench.store._reader._ahead.follow(bench.store._queues.get(T0), 0, 4, cached=False)
        rig.workers.held = True
        bench.store._reader._ahead.follow(bench.store._queues.get(T0), 4, 8, cached=False)
        assert bench.store._cold.busy == 1
        rig.workers.step()
        assert bench.store._cold.busy == 0

    rig.run(case, **COLD)


def test_places_end_with_the_window_with_what_is_no_entry_and_where_the_log_goes_back():
    def packed(*entries):
        return b"".join(ENTRY.pack(offset, size, 0) for offset, size in entries)

    assert places(7, packed((0, 100), (100, 50), (GAP_BYTES + 151, 10))) == (
        10,
        ((0, 150), (GAP_BYTES + 151, GAP_BYTES + 161)),
    )
    assert places(0, packed((0, AHEAD_BYTES), (AHEAD_BYTES, 10))) == (1, ((0, AHEAD_BYTES),))
    assert places(0, packed((10, 10), (0, 0), (20, 10))) == (1, ((10, 20),))
    assert places(0, packed((100, 10), (50, 10))) == (1, ((100, 110),))
    assert places(5, b"") == (5, ())
    assert places(5, packed((10, 10)) + b"half") == (6, ((10, 20),))
