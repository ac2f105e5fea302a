import errno

import pytest

from gantrymq.model.queue import Queue
from gantrymq_storage_mmap.log.preallocation import STEP_BYTES, Warming
from gantrymq_testing.store_contract_bench import bodies, message

HALF = message(body=b"h" * 4100)
ON = {"warmMapedFileEnable": "true"}
FILE_BYTES = 4 * STEP_BYTES
LARGE = {**ON, "mappedFileSizeCommitLog": FILE_BYTES, "flushLeastPagesWhenWarmMapedFile": 2 * STEP_BYTES // 4096}
HALF_OF_LARGE = message(body=b"h" * (FILE_BYTES // 2 + 4))


def test_the_next_file_is_filled_and_synced_step_by_step(rig):
    async def case(bench):
        await bench.add(message())
        before = rig.faults.calls.copy()
        bench.store.put([HALF_OF_LARGE])
        calls = rig.faults.calls - before
        assert calls["pwrite"] == 1 + 4
        assert calls["datasync"] == 1 + 2  # the length, and two of the steps
        assert rig.log(FILE_BYTES).read_bytes() == bytes(FILE_BYTES)
        assert rig.said == []
        (result,) = await bench.add(HALF_OF_LARGE)
        assert result.log_offset == FILE_BYTES

    rig.run(case, **LARGE)


def test_nothing_is_filled_by_default(rig):
    async def case(bench):
        bench.store.put([message(), HALF])
        assert rig.log(8192).exists()
        assert rig.faults.calls["pwrite"] == 1

    rig.run(case)


def test_a_disk_that_fails_while_the_file_is_warmed_is_told_and_the_file_made_again_when_it_is_needed(rig):
    async def case(bench):
        await bench.add(message())
        rig.faults.failing, rig.faults.only = {"pwrite": errno.EIO}, f"{FILE_BYTES:020d}"
        await bench.add(HALF_OF_LARGE)
        assert ["could not be preallocated" in sentence for sentence in rig.said] == [True]
        assert not rig.log(FILE_BYTES).exists()
        rig.faults.failing = {}
        (result,) = await bench.add(HALF_OF_LARGE)
        assert result.log_offset == FILE_BYTES

    rig.run(case, **LARGE)


def test_a_file_that_is_needed_before_it_is_warm_gets_no_zeros_over_its_records(rig):
    async def case(bench):
        rig.workers.held = True
        results = bench.store.put([HALF_OF_LARGE, HALF_OF_LARGE])
        assert [result.log_offset for result in results] == [0, FILE_BYTES]
        written = rig.log(FILE_BYTES).read_bytes()
        while rig.workers.waiting:
            rig.workers.step()  # the thread comes late
        assert rig.log(FILE_BYTES).read_bytes() == written
        assert b"h" * 1000 in written

    rig.run(case, **LARGE)


class HalfWay:
    """Replaces a log file; after two steps the file is needed."""

    def __init__(self, warming):
        self.start, self.end = 0, FILE_BYTES
        self.steps = []
        self.file = self
        self._warming = warming

    def pwrite(self, data, position):
        self.steps.append((position, bytes(data)))

    def datasync(self):
        self._warming.stop()


def test_stopping_ends_it_between_two_steps():
    warming = Warming(2 * STEP_BYTES)
    file = HalfWay(warming)
    warming.warm(file)
    assert file.steps == [(0, bytes(STEP_BYTES)), (STEP_BYTES, bytes(STEP_BYTES))]
    again = HalfWay(warming)
    warming.warm(again)
    assert again.steps == []


def test_a_clean_stop_does_not_wait_for_a_file_to_become_warm(rig):
    async def case(bench):
        rig.workers.held = True
        written = rig.faults.calls["pwrite"]
        bench.store.put([HALF_OF_LARGE])
        bench.store._log.ahead.close()
        while rig.workers.waiting:
            rig.workers.step()
        assert rig.faults.calls["pwrite"] == written + 1
        assert rig.log(FILE_BYTES).stat().st_size == FILE_BYTES

    rig.run(case, **LARGE)


@pytest.mark.slow
def test_a_store_stopped_at_any_call_while_it_warms_keeps_what_it_had(rig):
    async def case(bench):
        await bench.add(message(body=b"first"), HALF)
        await bench.add(HALF)

    for stop_at in range(1, 200):
        rig.root = rig.root.with_name(f"store{stop_at}")
        stopped = rig.kill(case, stop_at=stop_at, **ON)

        async def again(bench):
            rest = bodies(await bench.read_all(Queue("T", 0)))
            assert rest == [b"first", HALF.body, HALF.body][: len(rest)]
            await bench.add(message(body=b"more"))
            assert bodies(await bench.read_all(Queue("T", 0))) == [*rest, b"more"]

        rig.run(again, **ON)
        if not stopped:
            break
    else:
        raise AssertionError("the run never came to its end")
