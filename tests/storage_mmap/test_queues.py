import errno

import pytest

from gantrymq.interfaces import BoundaryType, Bounds, PutStatus
from gantrymq.model.queue import Queue
from gantrymq_storage_mmap.queues.pending_entries import AGE_TICKS
from gantrymq_store_files.queue_entry import ENTRY, PRE_BLANK
from gantrymq_testing.store_contract_bench import bodies, message

T0 = Queue("T", 0)


def age(bench):
    """Let enough time pass that every queue entry is due to be written."""
    for _ in range(AGE_TICKS + 1):
        bench.store._entry_writer._tick()


def test_entries_have_the_bytes_the_format_says(rig):
    async def case(bench):
        first, second = await bench.add(message(tag="TagA"), message())
        rig.write_queues(bench)
        data = rig.queue().read_bytes()
        assert data[:40] == ENTRY.pack(0, first.size, 2598919) + ENTRY.pack(first.size, second.size, 0)
        assert data[40:] == bytes(360)
        assert rig.queue().stat().st_blocks * 512 <= 4096  # sparse

    rig.run(case)


def test_a_queue_goes_on_in_the_next_file(rig):
    async def case(bench):
        await bench.add(*[message(body=b"%d" % n) for n in range(45)])
        rig.write_queues(bench)
        assert [path.name for path in sorted(rig.queue().parent.iterdir())] == ["0" * 20, f"{400:020d}", f"{800:020d}"]
        assert bodies(await bench.read_all(T0)) == [b"%d" % n for n in range(45)]

    rig.run(case)


def test_the_size_of_a_queue_file_is_rounded_up_to_whole_entries(rig):
    async def case(bench):
        await bench.add(message())
        rig.write_queues(bench)
        assert rig.queue().stat().st_size == 60

    rig.run(case, mappedFileSizeConsumeQueue=41)


def test_many_publications_write_each_queue_once(rig):
    async def case(bench):
        before = rig.faults.calls["pwrite"]
        for _ in range(4):
            await bench.add(*[message(queue_id=n % 2) for n in range(10)])
        assert rig.faults.calls["pwrite"] == before + 4  # the appends
        rig.write_queues(bench)
        assert rig.faults.calls["pwrite"] == before + 6  # and one for each of the two queues

    rig.run(case)


def test_a_bounded_number_of_queue_files_is_open(rig):
    async def case(bench):
        for _ in range(2):
            await bench.add(*[message(queue_id=n, body=b"%d" % n) for n in range(20)])
            rig.write_queues(bench)
        assert bench.store._queues.queue_files.open_count == 20  # a written file stays open until it is synced
        await rig.checkpoint(bench)
        assert bench.store._queues.queue_files.open_count == 3
        for n in range(20):
            assert bodies(await bench.read_all(Queue("T", n))) == [b"%d" % n] * 2
        assert bench.store._queues.queue_files.open_count == 3

    rig.run(case, maxOpenQueueFiles=3)


@pytest.mark.parametrize("call", ["create", "open"])
def test_a_process_without_descriptors_left_keeps_fewer_queue_files_open(rig, call):
    async def case(bench):
        await bench.add(*[message(queue_id=n) for n in range(9)])
        rig.write_queues(bench)
        if call == "open":
            bench.store._queues.queue_files.forget(bench.store._queues.get(Queue("T", 8)))
        rig.faults.once, rig.faults.once_number = call, errno.EMFILE
        await bench.add(message(queue_id=8 + (call == "create")))
        rig.write_queues(bench)
        await rig.checkpoint(bench)
        assert bench.store._queues.queue_files.open_count == 4
        assert len(await bench.read_all(Queue("T", 8))) == 1 + (call == "open")

    rig.run(case, mappedFileSizeCommitLog=1 << 20)


def test_a_full_disk_under_the_queues_hides_nothing_refuses_writes_and_is_over_by_itself(rig):
    async def case(bench):
        await bench.add(message(body=b"0"))
        rig.write_queues(bench)
        await bench.add(message(body=b"1"), message(queue_id=1))
        rig.faults.failing["pwrite"], rig.faults.only = rig.NO_SPACE, "consumequeue"
        age(bench)
        assert "queue T/0 cannot be written" in bench.store.state().refusal
        assert "No space left" in bench.store.state().refusal
        assert bodies(await bench.read_all(T0)) == [b"0", b"1"]
        (refused,) = bench.store.put([message()])
        assert refused.status is PutStatus.DISK_FULL
        assert "No space left" in refused.problem
        bench.store._entry_writer._tick()
        assert "No space left" in bench.store.state().refusal
        rig.faults.failing.clear()
        bench.store._entry_writer._tick()
        assert bench.store.state().refusal is None
        assert bench.store._queues.pending.waiting_bytes == 0
        await bench.add(message(body=b"2"))
        assert bodies(await bench.read_all(T0)) == [b"0", b"1", b"2"]

    rig.run(case)


def test_a_store_whose_queues_cannot_be_written_at_stop_is_recovered_by_the_next_start(rig):
    async def case(bench):
        await bench.add(message(body=b"0"))
        rig.faults.failing["pwrite"], rig.faults.only = rig.NO_SPACE, "consumequeue"

    rig.run(case)
    assert (rig.root / "abort").exists()
    assert "No space left" in rig.said[-1]
    rig.faults.failing.clear()

    async def after(bench):
        assert (bench.report.clean, bench.report.entries_rebuilt) == (False, 1)
        assert bodies(await bench.read_all(T0)) == [b"0"]

    rig.run(after)


def test_a_queue_file_that_cannot_be_made_leaves_nothing_behind(rig):
    async def case(bench):
        await bench.add(message())
        rig.faults.failing["truncate"] = rig.NO_SPACE
        age(bench)
        assert "No space left" in bench.store.state().refusal
        assert not rig.queue().exists()
        rig.faults.failing.clear()
        rig.write_queues(bench)
        assert rig.queue().exists()

    rig.run(case)


def test_a_dropped_topic_leaves_no_files_and_does_not_come_back(rig):
    async def case(bench):
        await bench.add(message("IsExpired"), message("Stays"), message("IsExpired"))
        rig.write_queues(bench)
        await bench.store.drop("IsExpired")
        assert not rig.queue("IsExpired").parent.parent.exists()
        assert not any((rig.root / "dropped").iterdir())
        await bench.restart()
        assert bench.store.queues() == [Queue("Stays", 0)]

    rig.run(case)

    async def again(bench):
        await bench.add(message("IsExpired", body=b"anew"))

    rig.kill(again)

    async def after(bench):
        assert not bench.report.clean
        assert bodies(await bench.read_all(Queue("IsExpired", 0))) == [b"anew"]

    rig.run(after)


def test_a_queue_file_that_lost_its_length_is_made_again(rig):
    async def case(bench):
        await bench.add(*[message() for _ in range(50)])

    rig.run(case)
    (rig.root / "abort").touch()
    (rig.root / "checkpoint").unlink()
    (rig.root / "checkpoint.json").unlink()
    whole = rig.queue(start=400).read_bytes()
    rig.queue(start=400).write_bytes(b"")

    async def after(bench):
        assert bench.report.entries_rebuilt >= 20
        assert len(await bench.read_all(Queue("T", 0))) == 50
        rig.write_queues(bench)
        assert rig.queue(start=400).read_bytes() == whole

    rig.run(after)


def test_a_queue_file_whose_length_was_not_durable_gets_it_back(rig):
    async def case(bench):
        await bench.add(*[message() for _ in range(15)])
        await rig.checkpoint(bench)
        await bench.add(*[message() for _ in range(35)])
        rig.write_queues(bench)

    rig.kill(case)
    whole = [rig.queue(start=start).read_bytes() for start in (400, 800)]
    rig.queue(start=400).write_bytes(b"")
    rig.queue(start=800).write_bytes(b"")

    async def after(bench):
        assert bench.report.entries_rebuilt == 35
        assert len(await bench.read_all(T0)) == 50

    rig.run(after)
    assert [rig.queue(start=start).read_bytes() for start in (400, 800)] == whole


@pytest.mark.parametrize("clean", [True, False])
def test_a_dropped_queue_that_a_power_cut_brought_back_goes_again(rig, clean):
    async def case(bench):
        await bench.add(message("IsExpired"), message("Stays"), message("IsExpired"))
        await bench.restart()  # entries are in memory only before
        kept = rig.queue("IsExpired").read_bytes()
        bench.store.drop("IsExpired")
        rig.queue("IsExpired").parent.mkdir(parents=True)
        rig.queue("IsExpired").write_bytes(kept)

    (rig.run if clean else rig.kill)(case)

    async def after(bench):
        assert bench.store.queues() == [Queue("Stays", 0)]
        assert not rig.queue("IsExpired").exists()
        (result,) = await bench.add(message("IsExpired", body=b"anew"))
        assert result.queue_offset == 0
        await bench.restart()
        assert bodies(await bench.read_all(Queue("IsExpired", 0))) == [b"anew"]

    rig.run(after)


def test_a_topic_made_anew_is_not_taken_for_the_dropped_one_when_the_log_lost_its_end(rig):
    async def case(bench):
        await bench.add(message("Stays"))
        results = await bench.add(*[message("IsExpired") for _ in range(5)])
        bench.store.drop("IsExpired")
        rig.patch(rig.log(), results[0].log_offset, bytes(2000))  # asynchronous flush, and the power went

    rig.kill(case)

    async def after(bench):
        await bench.add(message("IsExpired", body=b"anew"))

    rig.kill(after)

    async def again(bench):
        assert bodies(await bench.read_all(Queue("IsExpired", 0))) == [b"anew"]

    rig.run(again)


def test_remains_of_a_drop_go_at_the_next_start(rig):
    remains = rig.root / "dropped" / "T.0" / "0"
    remains.mkdir(parents=True)
    (remains / ("0" * 20)).write_bytes(b"x")

    async def case(bench):
        assert not any((rig.root / "dropped").iterdir())

    rig.run(case)


def test_a_queue_that_starts_above_zero_is_filled_with_pre_blank_entries(rig):
    async def case(bench):
        await bench.add(*[message(body=b"x" * 2000) for _ in range(12)])

    rig.run(case)
    rig.log().unlink()
    rig.queue().unlink()

    async def after(bench):
        first = bench.store.read(8192)
        assert first is not None
        assert bench.store.bounds(T0) == Bounds(first.queue_offset, 12)
        rig.write_queues(bench)
        data = rig.queue().read_bytes()
        assert data[: first.queue_offset * 20] == PRE_BLANK * first.queue_offset
        assert len(await bench.read_all(T0, first.queue_offset)) == 12 - first.queue_offset
        assert await bench.store.offset_at(T0, 0, BoundaryType.LOWER) == first.queue_offset

    rig.run(after)


def test_the_minimum_follows_the_log_and_an_emptied_queue_keeps_its_end(rig):
    async def case(bench):
        await bench.add(message("Old"), *[message(body=b"x" * 2000) for _ in range(12)])

    rig.run(case)
    rig.log().unlink()

    async def after(bench):
        assert bench.store.bounds(Queue("Old", 0)) == Bounds(1, 1)
        first = bench.store.read(8192)
        assert bench.store.bounds(T0) == Bounds(first.queue_offset, 12)
        (result,) = await bench.add(message("Old"))
        assert result.queue_offset == 1

    rig.run(after)
