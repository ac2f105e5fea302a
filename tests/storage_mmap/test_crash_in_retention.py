"""The process ends before each call of `Files` in a cleaning: the log has no gap, and only old data is gone."""

import asyncio

import pytest
from turning import until

from gantrymq.interfaces import Cleaning
from gantrymq.model.queue import Queue
from gantrymq_testing.store_contract_bench import bodies, keyed, message

QUEUES = [Queue("A", 0), Queue("A", 1)]
SETTINGS = {
    "mappedFileSizeConsumeQueue": 60,  # three entries
    "fileReservedTime": 0,
    "deleteCommitLogFilesInterval": 0,
    "deleteConsumeQueueFilesInterval": 0,
}
MESSAGES = 26


def body(number):
    return b"%04d" % number + b"x" * 900


class Workload:
    """Fills log files and queue files, has them deleted, and sends on; notes which calls the cleaning made."""

    def __init__(self, calls):
        self.calls, self.first, self.last = calls, 0, 0
        self.acknowledged = {queue: [] for queue in QUEUES}

    async def add(self, bench, numbers):
        for number in numbers:
            queue = QUEUES[number % 2]
            await bench.add(message(*queue, body(number)))
            self.acknowledged[queue].append(body(number))

    async def __call__(self, bench):
        bench.clock.now = 4_000_000_000_000  # every file is old
        await self.add(bench, range(MESSAGES))
        self.first = self.calls.total() + 1
        await bench.store.clean(Cleaning.EXPIRED_LOG)
        await bench.store._retention._task
        self.last = self.calls.total() + 1
        await self.add(bench, range(MESSAGES, MESSAGES + 4))
        await bench.store.stop()


def crash(rig, stop_at):
    workload = Workload(rig.faults.calls)
    stopped = rig.kill(workload, stop_at=stop_at, **SETTINGS)
    said = len(rig.said)

    async def after(bench):
        assert bench.report.cut_bytes == 0, rig.said[said:]
        log_min = bench.store.state().min_log_offset
        for queue in QUEUES:
            records = await bench.read_all(queue, bench.store.bounds(queue).min_offset)
            assert [record.queue_offset for record in records] == list(range(*bench.store.bounds(queue)))
            assert all(record.log_offset >= log_min for record in records)
            acknowledged = workload.acknowledged[queue]
            first = bench.store.bounds(queue).min_offset
            assert bodies(records)[: len(acknowledged) - first] == acknowledged[first:]
            if log_min == 0:
                assert first == 0
        (result,) = await bench.add(message("A", 0, b"after"))
        assert result.queue_offset == bench.store.bounds(QUEUES[0]).max_offset - 1
        assert (await bench.restart()).clean

    rig.run(after, **SETTINGS)
    return stopped


@pytest.mark.slow
def test_wherever_a_cleaning_ends_the_store_opens_and_holds_what_has_not_expired(tmp_path, rig):
    began = rig.clock.now
    rig.root = tmp_path / "whole"
    whole = Workload(rig.faults.calls)
    assert not rig.kill(whole, **SETTINGS)
    assert sorted(path.name for path in (rig.root / "commitlog").iterdir())[0] == f"{3 * 8192:020d}"
    assert len(list((rig.root / "consumequeue" / "A" / "0").iterdir())) < 4
    for stop_at in range(whole.first, whole.last + 1):
        rig.root = tmp_path / str(stop_at)
        rig.clock.now = began
        rig.said.clear()
        assert crash(rig, stop_at)
    assert whole.last - whole.first > 40


def test_minima_that_move_during_a_checkpoint_are_looked_for_by_the_next_start(rig):
    """The checkpoint has read where queues begin; then the first log file goes; then the process is killed."""
    bounds = {}

    async def case(bench):
        bench.clock.now = 4_000_000_000_000
        for number in range(MESSAGES):
            await bench.add(message(*QUEUES[number % 2], body(number)))
        await rig.checkpoint(bench)
        await bench.add(keyed(b"one more", "k", "U", topic="A"))
        await bench.query("k", topic="A")
        rig.workers.held_runs = True
        bench.store._checkpointer.request()
        task = bench.store._checkpointer._task
        await until(lambda: rig.workers.waiting)
        while rig.workers.waiting[0][0].__name__ != "write":  # everything except the slots of the index
            rig.workers.step()
            await until(lambda: rig.workers.waiting)
        slots = rig.workers.waiting.pop(0)
        cleaning = asyncio.ensure_future(bench.store.clean(Cleaning.EXPIRED_LOG))
        while not bench.store.state().min_log_offset:
            await asyncio.sleep(0)
            while rig.workers.waiting:
                rig.workers.step()
        rig.workers.held_runs = False
        rig.workers.waiting.insert(0, slots)
        while rig.workers.waiting:
            rig.workers.step()
        await asyncio.wait([task, cleaning])
        bounds.update({queue: bench.store.bounds(queue) for queue in QUEUES})
        assert all(found.min_offset for found in bounds.values())

    async def after(bench):
        assert {queue: bench.store.bounds(queue) for queue in QUEUES} == bounds

    rig.kill(case, **{**SETTINGS, "deleteFileBatchMax": 1})
    rig.run(after, **SETTINGS)
