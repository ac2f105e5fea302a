"""Queues after their messages: files that go, queues that go, and topics with a time of their own."""

from retention_rig import ROOT, T0, fill, logs, run

from gantrymq.interfaces import Bounds, Cleaning, CleanReport, GetStatus
from gantrymq.model.queue import Queue
from gantrymq_testing.store_contract_bench import bodies, message


def test_queue_files_below_the_minimum_go_and_the_last_of_each_queue_stays():
    async def case(bench):
        small = message(body=b"s" * 100)
        await bench.add(*[small] * 100)  # five full queue files of 20 entries
        await bench.add(message("Quiet"))
        await fill(bench, 4, queue_id=1)
        await bench.world.clock.sleep(1)
        await bench.store.clean(Cleaning.EXPIRED_LOG)
        await bench.world.clock.sleep(5)
        files = bench.world.files
        assert bench.store.bounds(T0) == Bounds(100, 100)
        assert files.list(ROOT / "consumequeue" / "T" / "0") == [f"{80 * 20:020d}"]
        assert files.list(ROOT / "consumequeue" / "Quiet" / "0") == [f"{0:020d}"]
        assert (await bench.restart()).notes == ()
        (result,) = await bench.add(small)
        assert result.queue_offset == 100

    run(case, fileReservedTime=0)


def test_queues_whose_messages_are_all_gone_are_removed_on_demand():
    async def case(bench):
        await bench.add(message("Old"), message("Old", 1), message("RMQ_SYS_TRACE_TOPIC"))
        await fill(bench, 5)
        assert await bench.store.clean(Cleaning.EXPIRED_QUEUES) == CleanReport()
        await bench.world.clock.sleep(1)
        await bench.store.clean(Cleaning.EXPIRED_LOG)
        await bench.world.clock.sleep(1)
        (again,) = await bench.add(message("Old", 1))
        assert again.queue_offset == 1
        assert await bench.store.clean(Cleaning.EXPIRED_QUEUES) == CleanReport(queues=1)
        assert set(bench.store.queues()) == {Queue("Old", 1), Queue("RMQ_SYS_TRACE_TOPIC", 0), T0}
        await bench.world.clock.sleep(1)
        assert bench.world.files.list(ROOT / "consumequeue" / "Old") == ["1"]
        assert bench.world.files.list(ROOT / "dropped") == []
        (anew,) = await bench.add(message("Old"))
        assert anew.queue_offset == 0
        assert (await bench.restart()).notes == ()
        assert bodies(await bench.read_all(Queue("Old", 0))) == [b"body"]

    run(case, fileReservedTime=0)


def test_a_topic_s_own_time_moves_its_queues_while_the_log_stays():
    async def case(bench):
        await bench.add(message("Short"), message("Long"))
        await bench.world.clock.sleep(100)
        await bench.add(message("Short", body=b"later"))
        await bench.world.clock.sleep(950)
        assert bench.store.bounds(Queue("Short", 0)) == Bounds(1, 2)
        assert bench.store.bounds(Queue("Long", 0)) == Bounds(0, 1)
        assert logs(bench) == [0]
        assert (await bench.get(Queue("Short", 0), 0)).status is GetStatus.OFFSET_TOO_SMALL
        await bench.world.clock.sleep(100)
        assert bench.store.bounds(Queue("Short", 0)) == Bounds(2, 2)
        await bench.restart()
        assert bench.store.bounds(Queue("Short", 0)) == Bounds(2, 2)
        assert await bench.store.clean(Cleaning.RESERVE_TIMES) == CleanReport()

    run(case, reserve=lambda topic: 1_000_000 if topic == "Short" else -1)


def test_files_of_a_queue_that_its_topic_s_time_emptied_come_back_from_the_log_after_a_crash():
    async def case(bench):
        await bench.add(*[message("Short")] * 45)
        await bench.world.clock.sleep(100)
        await bench.add(message("Long"))
        assert bench.store.bounds(Queue("Short", 0)) == Bounds(45, 45)
        folder = ROOT / "consumequeue" / "Short" / "0"
        assert bench.world.files.list(folder) == [f"{40 * 20:020d}"]
        await bench.store.stop()
        bench.world.files.replace(ROOT / "abort", b"1")
        bench.world.files.remove(ROOT / "checkpoint")
        report = await bench.restart()
        assert not report.clean
        await bench.world.clock.sleep(10)  # its entries are in files again
        await bench.store.clean(Cleaning.RESERVE_TIMES)
        assert bench.store.bounds(Queue("Short", 0)) == Bounds(45, 45)
        assert bench.store.bounds(Queue("Long", 0)) == Bounds(0, 1)

    run(case, reserve=lambda topic: 1000 if topic == "Short" else -1)
