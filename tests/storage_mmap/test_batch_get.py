import asyncio
import shutil
from inspect import isawaitable

import pytest
from placed_messages import alone, inner
from turning import until

from gantrymq.interfaces import BoundaryType, GetLimit, GetStatus
from gantrymq.model.queue import Queue
from gantrymq_storage_mmap.reading.entry_repair import EntryRepairer
from gantrymq_testing.store_contract_bench import START_MS, OnlyTags, ShortTurn, message, records_of

QUEUE = Queue("B", 0)
SMALL = {"mapperFileSizeBatchConsumeQueue": 92}  # two entries a file
COLD = {"hotReadWindow": 0}


async def get(bench, queue_offset, max_count=32, match=None):
    result = bench.store.get(QUEUE, queue_offset, GetLimit(max_count), match)
    return await result if isawaitable(result) else result


async def ten_batches(bench):
    """Offsets 0 to 54: batches of 1, 2, ... 10 messages, one more each 10 ms."""
    for size in range(1, 11):
        await bench.add(inner(*[b"%d" % size] * size))
        bench.clock.now += 10


STARTS = [0, 1, 3, 6, 10, 15, 21, 28, 36, 45]


@pytest.mark.parametrize("settings", [SMALL, SMALL | COLD, {}])
@pytest.mark.parametrize("again", [False, True])
def test_every_offset_leads_to_the_record_that_covers_it(rig, settings, again):
    async def case(bench):
        await ten_batches(bench)
        if again:
            await bench.restart()
        assert bench.store.bounds(QUEUE) == (0, 55)
        for offset in range(55):
            result = await get(bench, offset, 1)
            (record,) = records_of(result)
            start = max(each for each in STARTS if each <= offset)
            assert record.queue_offset == start
            assert (result.status, result.next_offset - start) == (GetStatus.FOUND, result.count)

    rig.run(case, **settings)


def test_outside_the_bounds_the_answers_are_those_of_any_queue(rig):
    async def case(bench):
        assert (await get(bench, 3))[:4] == (GetStatus.NO_MESSAGE_IN_QUEUE, 0, 0, 0)
        await ten_batches(bench)
        assert (await get(bench, -1))[:4] == (GetStatus.OFFSET_TOO_SMALL, 0, 0, 55)
        assert (await get(bench, 55))[:4] == (GetStatus.OFFSET_OVERFLOW_ONE, 55, 0, 55)
        assert (await get(bench, 56))[:4] == (GetStatus.OFFSET_OVERFLOW_BADLY, 55, 0, 55)

    rig.run(case)


@pytest.mark.parametrize("settings", [{}, COLD])
def test_messages_count_and_a_batch_is_returned_whole_or_not_at_all(rig, settings):
    async def case(bench):
        await ten_batches(bench)
        result = await get(bench, 0, 5)
        assert (result.count, result.next_offset, len(records_of(result))) == (3, 3, 2)
        result = await get(bench, 50, 5)
        assert (result.count, result.next_offset) == (10, 55)

    rig.run(case, **settings)


@pytest.mark.parametrize("settings", [{}, COLD])
@pytest.mark.parametrize("needs_message", [False, True])
def test_filters_skip_single_messages_and_let_untagged_batches_pass_by_entry(rig, settings, needs_message):
    async def case(bench):
        await bench.add(alone(tag="A"), alone(tag="C"), inner(b"x", b"y"), alone(tag="A"))
        result = await get(bench, 0, match=OnlyTags("A", needs_message=needs_message))
        expected = [0, 4] if needs_message else [0, 2, 4]
        assert [record.queue_offset for record in records_of(result)] == expected
        assert result.next_offset == 5
        result = await get(bench, 1, match=OnlyTags("Z", needs_message=True))
        assert (result.status, result.next_offset) == (GetStatus.NO_MATCHED_MESSAGE, 5)

    rig.run(case, **settings)


@pytest.mark.parametrize("settings", [{}, COLD])
def test_a_filter_whose_turn_is_over_ends_a_get_before_the_entry(rig, settings):
    async def case(bench):
        await bench.add(alone(tag="A"), alone(tag="C"), inner(b"x", b"y"), alone(tag="A"))
        for asked, expected, end in ((0, [], 0), (1, [0], 1), (2, [0], 2), (3, [0], 4), (4, [0, 4], 5)):
            result = await get(bench, 0, match=ShortTurn(asked, "A", needs_message=True))
            assert ([record.queue_offset for record in records_of(result)], result.next_offset) == (expected, end)
        result = await get(bench, 3, match=ShortTurn(0, "A", needs_message=True))
        assert (result.count, result.next_offset) == (0, 3)

    rig.run(case, **settings)


def test_one_get_examines_no_more_than_its_share(rig):
    async def case(bench):
        await bench.add(*[alone(tag="A") for _ in range(20)])
        result = await get(bench, 0, 2, OnlyTags("Z"))
        assert (result.status, result.next_offset) == (GetStatus.NO_MATCHED_MESSAGE, 3)

    rig.run(case, maxFilterMessageSize=46 * 3)


def test_offsets_by_time_are_those_of_whole_batches(rig):
    async def case(bench):
        await ten_batches(bench)
        for number, start in enumerate(STARTS):
            assert await bench.offsets_at(QUEUE, START_MS + 10 * number) == (start, start)
        assert await bench.offsets_at(QUEUE, START_MS + 11) == (3, 1)
        assert await bench.store.offset_at(QUEUE, START_MS + 91, BoundaryType.LOWER) == 55
        assert await bench.offsets_at(QUEUE, START_MS - 1) == (0, 0)

    rig.run(case, **SMALL)


def test_a_missing_queue_file_that_cannot_be_made_again_is_passed_over(rig, monkeypatch):
    async def case(bench):
        await ten_batches(bench)
        await bench.restart()
        bench.store._queues.batch_files.forget(bench.store._queues.get(QUEUE))
        (rig.root / "batchconsumequeue" / "B" / "0" / f"{92:020d}").unlink()
        monkeypatch.setattr(EntryRepairer, "can_repair", lambda self, queue, number: False)
        result = await get(bench, 3)
        assert (result.status, result.next_offset) == (GetStatus.OFFSET_FOUND_NULL, 10)

    rig.run(case, **SMALL)


def test_a_dropped_topic_starts_anew(rig):
    async def case(bench):
        await ten_batches(bench)
        bench.store.drop("B")
        assert not (rig.root / "batchconsumequeue" / "B").exists()
        assert bench.store.bounds(QUEUE) == (0, 0)
        (result,) = await bench.add(inner(b"new", b"er"))
        assert result.queue_offset == 0
        await bench.restart()
        assert bench.store.bounds(QUEUE) == (0, 2)
        bench.store.drop("B")
        (result,) = await bench.add(message("B"))
        assert result.queue_offset == 0

    rig.run(case, **SMALL)


def test_records_that_left_the_log_are_below_the_minimum(rig):
    async def fill(bench):
        for _ in range(4):
            await bench.add(inner(b"x" * 3000, b"y" * 3000))

    rig.run(fill, **SMALL)
    for start in (0, 8192):
        rig.log(start).unlink()
    shutil.rmtree(rig.root / "consumequeue", ignore_errors=True)

    async def look(bench):
        assert bench.store.bounds(QUEUE) == (4, 8)
        assert (await get(bench, 3)).status is GetStatus.OFFSET_TOO_SMALL
        assert records_of(await get(bench, 5))[0].queue_offset == 4
        await bench.add(alone())
        assert bench.store.bounds(QUEUE) == (4, 9)

    rig.run(look, **SMALL)
    shutil.rmtree(rig.root / "batchconsumequeue")

    async def rebuilt(bench):
        assert bench.store.bounds(QUEUE) == (4, 9)
        assert records_of(await get(bench, 5))[0].queue_offset == 4

    rig.run(rebuilt, **SMALL)


def test_batches_after_a_file_that_is_deleted_during_a_read_are_returned(rig):
    async def case(bench):
        for _ in range(6):
            await bench.add(inner(b"x" * 1500, b"y" * 1500))
        rig.workers.held = True
        asked = asyncio.ensure_future(get(bench, 0))
        await asyncio.sleep(0)
        rig.workers.step()  # reads the entries
        await until(lambda: rig.workers.waiting)
        bench.store._log.drop_first().close()
        while not asked.done():
            if rig.workers.waiting:
                rig.workers.step()  # reads a record
            await asyncio.sleep(0)
        result = await asked
        rig.workers.held = False
        assert (result.status, result.next_offset) == (GetStatus.FOUND, 12)
        assert [record.queue_offset for record in records_of(result)] == [4, 6, 8, 10]

    rig.run(case, **COLD)


def test_a_repeated_entry_is_returned_once(rig):
    rig.run(ten_batches)
    path = rig.root / "batchconsumequeue" / "B" / "0" / f"{0:020d}"
    rig.patch(path, 46 * 4, path.read_bytes()[46 * 5 : 46 * 6])  # batch 4 was lost to damage

    async def then(bench):
        result = await get(bench, 0, 100)
        assert [record.queue_offset for record in records_of(result)] == [each for each in STARTS if each != STARTS[4]]
        assert (result.count, result.size) == (50, sum(map(len, result.buffers)))

    rig.run(then)
