"""Batch queues and ext files when their messages leave the log, or have had their topic's time."""

from placed_messages import alone, inner
from retention_rig import ROOT, fill, run

from gantrymq.interfaces import Bounds, Cleaning, CleanReport, GetStatus
from gantrymq.model.queue import Queue
from gantrymq_testing.store_contract_bench import OnlyTags, bodies, message

BATCHES = Queue("B", 0)
SMALL = {"mapperFileSizeBatchConsumeQueue": 92}


def files(bench, part, topic):
    return [int(name) for name in bench.world.files.list(ROOT / part / topic / "0")]


def test_a_batch_queue_follows_the_log_and_keeps_its_last_file():
    async def case(bench):
        for _ in range(5):
            await bench.add(inner(b"a", b"b", b"c"))
        bench.store._queues.pending.write_all()
        assert files(bench, "batchconsumequeue", "B") == [0, 92, 184]
        await fill(bench, 5)
        await bench.world.clock.sleep(1)
        await bench.store.clean(Cleaning.EXPIRED_LOG)
        await bench.world.clock.sleep(5)
        assert bench.store.bounds(BATCHES) == Bounds(15, 15)
        assert files(bench, "batchconsumequeue", "B") == [184]
        assert (await bench.get(BATCHES, 3)).status is GetStatus.OFFSET_TOO_SMALL
        assert (await bench.restart()).notes == ()
        (result,) = await bench.add(inner(b"d", b"e"))
        assert (result.queue_offset, bench.store.bounds(BATCHES)) == (15, Bounds(15, 17))
        assert (await bench.restart()).notes == ()
        assert bench.store.bounds(BATCHES) == Bounds(15, 17)

    run(case, fileReservedTime=0, **SMALL)


def test_a_topic_s_own_time_moves_its_batch_queues():
    async def case(bench):
        await bench.add(alone(), alone(), alone())
        await bench.world.clock.sleep(100)
        await bench.add(alone(b"later"))
        await bench.world.clock.sleep(950)
        assert bench.store.bounds(BATCHES) == Bounds(3, 4)
        assert files(bench, "batchconsumequeue", "B") == [92]
        assert bodies(await bench.read_all(BATCHES, 3)) == [b"later"]
        await bench.restart()
        assert bench.store.bounds(BATCHES) == Bounds(3, 4)
        assert await bench.store.clean(Cleaning.RESERVE_TIMES) == CleanReport()

    run(case, reserve=lambda topic: 1_000_000 if topic == "B" else -1, **SMALL)


def test_ext_files_whose_units_nothing_names_go():
    async def case(bench):
        await bench.add(*[message("E", tag="A") for _ in range(20)])
        bench.store._queues.pending.write_all()
        assert files(bench, "consumequeue_ext", "E") == [0, 128, 256, 384]
        await fill(bench, 5)
        await bench.add(message("E", tag="B"))
        await bench.world.clock.sleep(1)
        await bench.store.clean(Cleaning.EXPIRED_LOG)
        await bench.world.clock.sleep(10)
        assert bench.store.bounds(Queue("E", 0)) == Bounds(20, 21)
        assert files(bench, "consumequeue_ext", "E") == [384]
        assert (await bench.restart()).notes == ()
        await bench.add(message("E", tag="A"))
        found = await bench.read_all(Queue("E", 0), 20, match=OnlyTags("B"))
        assert [record.queue_offset for record in found] == [20]

    run(case, fileReservedTime=0, enableConsumeQueueExt=True, mappedFileSizeConsumeQueueExt=128)
