"""A log whose start was deleted, and reads of it."""

import errno

from retention_rig import BIG, FILE, ROOT, SECONDS_TO_FOUR, T0, fill, logs, run

from gantrymq.interfaces import Bounds, Cleaning, GetLimit, GetStatus
from gantrymq.model.queue import Queue
from gantrymq_store_files import log_entries
from gantrymq_testing.store_contract_bench import bodies


def test_a_store_whose_beginning_is_gone_opens_and_goes_on():
    async def case(bench):
        await fill(bench, 5)
        await fill(bench, 2, queue_id=1)
        await bench.world.clock.sleep(1)
        await bench.store.clean(Cleaning.EXPIRED_LOG)
        await bench.world.clock.sleep(1)
        report = await bench.restart()
        assert (report.clean, report.notes) == (True, ())
        assert bench.store.bounds(T0) == Bounds(5, 5)
        assert bench.store.bounds(Queue("T", 1)) == Bounds(1, 2)
        (result,) = await bench.add(BIG)
        assert result.queue_offset == 5
        assert bodies(await bench.read_all(T0, 5)) == [BIG.body]

    run(case, fileReservedTime=0)


def test_a_reader_of_a_deleted_file_gets_what_it_asked_for():
    async def case(bench):
        await fill(bench, 7)
        await bench.world.clock.sleep(1)
        held = await bench.get(T0, 6)
        cold = bench.store.get(T0, 0, GetLimit(max_count=1), None)
        waiting = bench.world.clock  # the cold read's thread has not answered when its file goes
        await bench.store.clean(Cleaning.EXPIRED_LOG)
        found = await cold
        await waiting.sleep(1)
        assert logs(bench) == [3]
        assert BIG.body in bytes(held.buffers[0])
        assert found.status in (GetStatus.FOUND, GetStatus.MESSAGE_WAS_REMOVING)

    run(case, fileReservedTime=0, hotReadWindow=100)


def test_a_scan_goes_on_where_the_log_begins_when_its_place_is_deleted(monkeypatch):
    async def case(bench):
        results = await fill(bench, 7)
        scan = bench.store.scan(0, results[-1].end)
        assert next(scan).log_offset == 0
        await bench.world.clock.sleep(1)
        await bench.store.clean(Cleaning.EXPIRED_LOG)
        await bench.world.clock.sleep(1)
        assert bench.store.state().min_log_offset == 3 * FILE
        assert [entry.log_offset for entry in scan][-1] == 3 * FILE  # those between were read with the first

    monkeypatch.setattr(log_entries, "CHUNK_BYTES", 1)
    run(case, fileReservedTime=0)


def test_a_log_file_goes_only_when_its_queue_entries_are_durable():
    async def case(bench):
        await fill(bench, 7)
        flusher = bench.store._checkpointer
        assert flusher.durable_offset == 0
        await bench.world.clock.sleep(1)
        hasten, asked = flusher.request, []
        flusher.request = lambda: asked.append(1)
        await bench.store.clean(Cleaning.EXPIRED_LOG)
        await bench.world.clock.sleep(5)
        assert logs(bench) == [0, 1, 2, 3]
        assert asked
        flusher.request = hasten
        await bench.world.clock.sleep(2)
        assert logs(bench) == [3]
        assert flusher.durable_offset >= 3 * FILE

    run(case, fileReservedTime=0)


def test_entries_in_memory_are_looked_through_too():
    async def case(bench):
        await fill(bench, 7)
        bench.store._checkpointer.durable_offset = 1 << 40  # as if their files had them
        assert bench.store._queues.pending.waiting_bytes == 7 * 20
        await bench.world.clock.sleep(1)
        await bench.store.clean(Cleaning.EXPIRED_LOG)
        await bench.world.clock.sleep(1)
        assert bench.store._queues.pending.waiting_bytes == 7 * 20
        assert bench.store.bounds(T0) == Bounds(6, 7)
        assert bodies(await bench.read_all(T0, 6)) == [BIG.body]

    run(case, fileReservedTime=0)


class StubbornFiles:
    """Some names cannot be removed."""

    def __init__(self, inner):
        self._inner, self.keep = inner, ""

    def remove(self, path):
        if self.keep and self.keep in str(path):
            raise OSError(errno.EIO, "Input/output error", str(path))
        self._inner.remove(path)

    def __getattr__(self, name):
        return getattr(self._inner, name)


def test_a_file_that_cannot_be_deleted_stays_readable_and_is_tried_again():
    async def case(bench):
        await fill(bench, 7)
        bench.world.files.keep = f"{FILE:020d}"
        await bench.world.clock.sleep(SECONDS_TO_FOUR + 60)
        assert logs(bench) == [1, 2, 3]
        assert bench.store.bounds(T0) == Bounds(2, 7)
        assert [s for s in bench.said if "retrying" in s] == [
            "expired files could not be deleted, retrying: [Errno 5] Input/output error: "
            f"'/store/commitlog/{FILE:020d}'"
        ]
        bench.world.files.keep = ""
        await bench.world.clock.sleep(20)
        assert logs(bench) == [3]

    run(case, fileReservedTime=0, files=StubbornFiles)


def test_entries_that_a_failed_sync_took_from_their_file_are_not_taken_for_gone():
    async def case(bench):
        await fill(bench, 6)
        bench.store._checkpointer.request()
        await bench.world.clock.sleep(2)
        await fill(bench, 2, queue_id=1)
        bench.store._queues.pending.write_all()
        path = ROOT / "consumequeue" / "T" / "1" / f"{0:020}"
        file = bench.world.files.open(path)
        file.pwrite(bytes(file.size()), 0)  # the kernel forgot pages that it could not write; memory has them
        file.close()
        bench.store._checkpointer.request = lambda: None
        await bench.store.clean(Cleaning.EXPIRED_LOG)
        await bench.world.clock.sleep(2)
        assert logs(bench)[0] == 2
        assert bench.store.bounds(Queue("T", 1)) == Bounds(0, 2)
        assert len(await bench.read_all(Queue("T", 1))) == 2

    run(case, fileReservedTime=0)
