import asyncio
from inspect import isawaitable

import pytest

from gantrymq.errors import StoreError
from gantrymq.interfaces import BoundaryType, GetLimit, GetStatus
from gantrymq.model.queue import Queue
from gantrymq_storage_mmap.reading.entry_repair import EntryRepairer
from gantrymq_store_files.queue_entry import ENTRY, PRE_BLANK
from gantrymq_testing.store_contract_bench import START_MS, OnlyTags, ShortTurn, bodies, message, records_of

T0 = Queue("T", 0)
BIG = {"mappedFileSizeCommitLog": 1 << 20, "mappedFileSizeConsumeQueue": 20000}


def test_neighbours_in_the_log_leave_as_one_slice(rig):
    async def case(bench):
        await bench.add(message(), message(), message("Other"), message())
        got = bench.store.get(T0, 0, GetLimit(), None)
        assert (got.status, got.count, got.cold) == (GetStatus.FOUND, 3, False)
        assert [len(records_of(got)), len(got.buffers)] == [3, 2]
        assert all(isinstance(buffer, memoryview) for buffer in got.buffers)

    rig.run(case)


@pytest.mark.parametrize(("percent", "distant"), [(0, True), (40, False)])
def test_messages_beyond_the_share_of_the_memory_are_distant(rig, percent, distant):
    async def case(bench):
        await bench.add(*[message() for _ in range(3)])
        assert (await bench.get(T0, 0)).distant is distant
        assert (await bench.get(T0, 3)).distant is False

    rig.run(case, accessMessageInMemoryMaxRatio=percent)


def test_records_on_both_sides_of_a_roll_are_two_slices(rig):
    async def case(bench):
        await bench.add(*[message(body=b"x" * 3000) for _ in range(4)])
        got = await bench.get(T0, 0)
        assert (got.count, len(got.buffers)) == (4, 2)

    rig.run(case)


def test_recent_messages_have_their_own_limits(rig):
    async def case(bench):
        await bench.add(*[message(body=b"x" * 1000) for _ in range(20)])
        assert (await bench.get(T0, 0)).count == 5
        await bench.add(*[message(queue_id=1, body=b"x" * 1000) for _ in range(20)])
        size = (await bench.get(Queue("T", 1), 0, GetLimit(max_count=1))).size
        assert (await bench.get(Queue("T", 1), 0, GetLimit(max_bytes=3 * size))).count == 3

    rig.run(case, maxTransferCountOnMessageInMemory=5, **BIG)


def test_old_messages_have_their_own_limits(rig):
    async def case(bench):
        await bench.add(*[message(body=b"x" * 1000) for _ in range(20)])
        assert (await bench.get(T0, 0)).count == 8
        assert (await bench.get(T0, 0, match=OnlyTags("", needs_message=True))).count == 0

    rig.run(case, accessMessageInMemoryMaxRatio=0, **BIG)


def test_old_messages_have_a_byte_limit(rig):
    async def case(bench):
        await bench.add(*[message(body=b"x" * 1000) for _ in range(20)])
        assert (await bench.get(T0, 0)).count == 2

    rig.run(case, accessMessageInMemoryMaxRatio=0, maxTransferBytesOnMessageInDisk=3000, **BIG)


def test_a_filtered_get_looks_at_a_bounded_number_of_entries(rig):
    async def case(bench):
        await bench.add(*[message(tag="A") for _ in range(900)])
        got = await bench.get(T0, 0, match=OnlyTags("B"))
        assert (got.status, got.next_offset) == (GetStatus.NO_MATCHED_MESSAGE, 800)
        got = await bench.get(T0, 0, GetLimit(max_count=850), OnlyTags("B"))
        assert got.next_offset == 850
        await bench.add(*[message(tag="A") for _ in range(3300)])
        assert (await bench.get(T0, 0, GetLimit(max_count=10**6), OnlyTags("B"))).next_offset == 4096

    rig.run(case, **BIG)


@pytest.mark.parametrize("window", [0, 1 << 30], ids=["cold", "hot"])
def test_one_get_stays_within_one_queue_file(rig, window):
    async def case(bench):
        await bench.add(*[message() for _ in range(30)])
        await rig.checkpoint(bench)
        assert (await bench.get(T0, 15)).next_offset == 20
        assert (await bench.get(T0, 20)).next_offset == 30

    rig.run(case, hotReadWindow=window)


@pytest.mark.parametrize("needs_message", [False, True])
def test_messages_behind_the_hot_window_are_read_in_a_thread(rig, needs_message):
    async def case(bench):
        await bench.add(*[message(body=b"%d" % n, tag="AB"[n % 2]) for n in range(200)])
        cold = bench.store.get(T0, 0, GetLimit(), None)
        assert isawaitable(cold)
        got = await cold
        assert (got.cold, got.count) == (True, 32)
        assert not isawaitable(bench.store.get(T0, 195, GetLimit(), None))
        found = await bench.read_all(T0, limit=GetLimit(max_count=3), match=OnlyTags("B", needs_message=needs_message))
        assert bodies(found) == [b"%d" % n for n in range(1, 200, 2)]

    rig.run(case, hotReadWindow=2000, **BIG)


@pytest.mark.parametrize("needs_message", [False, True])
def test_a_filter_whose_turn_is_over_ends_a_read_behind_the_hot_window(rig, needs_message):
    async def case(bench):
        await bench.add(*[message(body=b"%d" % n, tag="AB"[n % 2]) for n in range(200)])
        for asked in (0, 1, 2, 7, 40, 60):
            got = await bench.get(T0, 3, match=ShortTurn(asked, "B", needs_message=needs_message))
            expected = [b"%d" % n for n in range(3, 3 + asked, 2)]
            assert (got.count, got.next_offset, bodies(records_of(got))) == (len(expected), 3 + asked, expected)

    rig.run(case, hotReadWindow=2000, **BIG)


@pytest.mark.parametrize("needs_message", [False, True])
def test_messages_behind_the_hot_window_that_are_in_memory_are_read_at_once(rig, needs_message):
    async def case(bench):
        await bench.add(*[message(body=b"%d" % n, tag="AB"[n % 2]) for n in range(200)])
        rig.write_queues(bench)
        rig.faults.cached = True
        got = bench.store.get(T0, 0, GetLimit(), None)
        assert (got.status, got.cold, got.count) == (GetStatus.FOUND, True, 32)
        match = OnlyTags("B", needs_message=needs_message)
        first = bench.store.get(T0, 0, GetLimit(), match)
        assert isawaitable(first) == needs_message
        if needs_message:
            await first
        found = await bench.read_all(T0, limit=GetLimit(max_count=3), match=match)
        assert bodies(found) == [b"%d" % n for n in range(1, 200, 2)]
        await bench.restart()
        rig.faults.only = "commitlog"
        rig.faults.failing["pread_cached"] = rig.BROKEN
        with pytest.raises(StoreError, match="cannot be read"):
            bench.store.get(T0, 0, GetLimit(), None)
        rig.faults.failing.clear()
        assert not isawaitable(bench.store.get(T0, 0, GetLimit(), None))

    rig.run(case, hotReadWindow=2000, **BIG)


def test_everything_from_before_the_start_counts_as_cold(rig):
    async def case(bench):
        await bench.add(message())
        await bench.restart()
        assert (await bench.get(T0, 0)).cold
        await bench.add(message())
        assert not (await bench.get(T0, 1)).cold

    rig.run(case)


def test_what_a_get_returned_outlives_the_file_it_came_from(rig):
    async def case(bench):
        await bench.add(message(body=b"kept"), message("Other"), message(body=b"kept too"))
        got = await bench.get(T0, 0)
        assert [type(buffer) for buffer in got.buffers] == [memoryview, memoryview]
        await bench.add(*[message(body=b"x" * 3000) for _ in range(20)])
        bench.store._log.drop_first().close()
        rig.log().unlink()
        assert bodies(records_of(got)) == [b"kept", b"kept too"]

    rig.run(case, hotReadWindow=8192)


def test_an_entry_without_a_record_is_passed_over(rig):
    async def case(bench):
        await bench.add(*[message(body=b"%d" % n) for n in range(4)])
        await rig.checkpoint(bench)
        rig.patch(rig.queue(), 20, PRE_BLANK * 2)  # a message that is lost from the log too
        got = await bench.get(T0, 1, GetLimit(max_count=2))
        assert (got.status, got.next_offset, got.count) == (GetStatus.FOUND, 4, 1)
        got = await bench.get(T0, 1, GetLimit(max_count=1))
        assert (got.status, got.next_offset, got.count) == (GetStatus.MESSAGE_WAS_REMOVING, 3, 0)
        assert bodies(await bench.read_all(T0)) == [b"0", b"3"]

    rig.run(case)


def test_an_ext_address_is_no_code_so_the_entry_passes_the_first_stage(rig):
    async def case(bench):
        (result,) = await bench.add(message(tag="A"))
        await rig.checkpoint(bench)
        rig.patch(rig.queue(), 0, ENTRY.pack(0, result.size, -(2**63) + 34))
        assert (await bench.get(T0, 0, match=OnlyTags("B"))).count == 1

    rig.run(case)


def test_a_missing_queue_file_that_cannot_be_made_again_leads_to_the_next_one(rig, monkeypatch):
    async def case(bench):
        await bench.add(*[message() for _ in range(30)])
        await rig.checkpoint(bench)
        bench.store._queues.queue_files.forget(bench.store._queues.get(T0))
        rig.queue().unlink()
        monkeypatch.setattr(EntryRepairer, "can_repair", lambda self, queue, number: False)
        got = await bench.get(T0, 3)
        assert (got.status, got.next_offset) == (GetStatus.OFFSET_FOUND_NULL, 20)

    rig.run(case)


def test_a_disk_that_fails_a_cold_read_is_a_store_error(rig):
    async def case(bench):
        await bench.add(message())
        rig.faults.failing["pread"] = rig.BROKEN
        with pytest.raises(StoreError, match="cannot be read"):
            await bench.get(T0, 0)
        rig.faults.only = "commitlog"
        with pytest.raises(StoreError, match="queue T/0 cannot be read at 0"):
            await bench.get(T0, 0)
        with pytest.raises(StoreError, match="cannot be read"):
            bench.store.read(0)
        with pytest.raises(StoreError, match="cannot be read"):
            await bench.store.offset_at(T0, 0, BoundaryType.LOWER)
        rig.faults.failing.clear()

    rig.run(case, hotReadWindow=0)


@pytest.mark.parametrize("window", [0, 1 << 20])
def test_a_search_by_time_is_a_thread_s_and_sees_what_waits_in_memory(rig, window):
    async def case(bench):
        for n in range(12):
            bench.clock.now = START_MS + n * 1000
            await bench.add(message())
            if n == 7:
                rig.write_queues(bench)  # the others are in no file yet
        reads = rig.faults.calls["pread"]
        rig.workers.held_runs = True
        for time_ms, lower, upper in ((0, 0, 0), (7000, 7, 7), (7500, 8, 7), (11000, 11, 11), (99000, 12, 11)):
            for edge, wanted in ((BoundaryType.LOWER, lower), (BoundaryType.UPPER, upper)):
                asked = asyncio.ensure_future(bench.store.offset_at(T0, START_MS + time_ms, edge))
                await asyncio.sleep(0)
                assert not asked.done() and rig.faults.calls["pread"] == reads
                rig.workers.step()
                assert await asked == wanted, (time_ms, edge)
                reads = rig.faults.calls["pread"]

    rig.run(case, hotReadWindow=window)


def test_records_after_a_file_that_is_deleted_during_a_read_are_returned(rig):
    async def case(bench):
        results = await bench.add(*[message(body=b"%d" % n + b"x" * 900) for n in range(14)])
        rig.workers.held = True
        asked = asyncio.ensure_future(bench.get(T0, 0))
        await asyncio.sleep(0)
        log = bench.store._log
        log.drop_first().close()
        rig.workers.step()  # reads the records
        got = await asked
        left = [n for n, result in enumerate(results) if result.log_offset >= log.min_offset]
        assert 0 < len(left) < 14
        assert (got.status, got.next_offset) == (GetStatus.FOUND, 14)
        assert [int(body.rstrip(b"x")) for body in bodies(records_of(got))] == left
        rig.workers.held = False

    rig.run(case, hotReadWindow=0)


@pytest.mark.parametrize("needs_message", [False, True])
@pytest.mark.parametrize("window", [0, 1 << 20])
def test_a_repeated_entry_is_returned_once(rig, window, needs_message):
    async def case(bench):
        await bench.add(*[message(body=b"%d" % n, tag="A") for n in range(10)])
        rig.write_queues(bench)

    rig.run(case)
    rig.patch(rig.queue(), 20 * 4, rig.queue().read_bytes()[20 * 5 : 20 * 6])  # message 4 was lost to damage

    async def then(bench):
        got = await bench.get(T0, 0, match=OnlyTags("A", needs_message=needs_message))
        assert (got.status, got.next_offset) == (GetStatus.FOUND, 10)
        assert bodies(records_of(got)) == [b"%d" % n for n in range(10) if n != 4]

    rig.run(then, hotReadWindow=window)
