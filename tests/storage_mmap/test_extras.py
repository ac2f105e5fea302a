"""Batch queues, ext files and light queues when the disk fails, and when the process ends at any call."""

import errno

import pytest
from apart_messages import EXT, LIGHT, alone, fanned, inner

from gantrymq.errors import StoreError
from gantrymq.interfaces import GetLimit
from gantrymq.model.queue import Queue
from gantrymq.testing.store_contract_bench import message

SETTINGS = {
    **EXT,
    **LIGHT,
    "mapperFileSizeBatchConsumeQueue": 92,
    "mappedFileSizeConsumeQueue": 60,
    "mappedFileSizeConsumeQueueExt": 64,
}
QUEUES = [Queue("B", 0), Queue("T", 0), Queue("%LMQ%a", 0), Queue("%LMQ%b", 0)]


@pytest.mark.parametrize("part", ["batchconsumequeue", "consumequeue_ext"])
def test_nothing_is_shown_when_one_of_the_writes_fails_and_all_is_when_it_succeeds_later(rig, part):
    async def case(bench):
        await bench.add(alone(), message())
        results = bench.store.put([inner(b"a", b"b"), message(), alone()])
        rig.faults.failing["pwrite"], rig.faults.only = errno.ENOSPC, part
        with pytest.raises(StoreError, match=part):
            bench.store.publish(results[-1].end)
        assert [bench.store.bounds(queue).max_offset for queue in QUEUES[:2]] == [1, 1]
        assert part in bench.store.refusal()
        rig.faults.failing.clear()
        bench.store._extras.retry()
        assert bench.store.refusal() is None
        assert [entry.topic for entry in bench.store.publish(results[-1].end)] == ["B", "T", "B"]
        assert [bench.store.bounds(queue).max_offset for queue in QUEUES[:2]] == [4, 2]

    rig.run(case, **SETTINGS)


def test_files_that_could_not_be_synced_are_synced_at_the_next_attempt(rig):
    async def case(bench):
        await bench.add(alone(), message())
        unsynced, files, folders = bench.store._extras.take_dirty()
        assert sorted(folder.parts[-3] for folder, _ in files) == ["batchconsumequeue", "consumequeue_ext"]
        assert set(folders) > {folder for folder, _ in files}
        assert bench.store._extras.take_dirty() == ([], [], {})
        bench.store._extras.give_dirty(unsynced)
        assert bench.store._extras.take_dirty()[1] == files

    rig.run(case, **SETTINGS)


class Workload:
    """Sends of every kind, across several files of every kind."""

    def __init__(self):
        self.acknowledged = dict.fromkeys(QUEUES, 0)

    async def __call__(self, bench):
        for n in range(4):
            batch = [
                inner(*[b"%d" % n] * (n % 3 + 1)),
                message(tag="A"),
                fanned(*["%LMQ%a", "%LMQ%b"][: n % 2 + 1], body=b"f" * 1800),
                alone(),
            ]
            await bench.add(*batch)
            for queue, more in zip(QUEUES, (n % 3 + 2, 2, 1, n % 2), strict=True):
                self.acknowledged[queue] += more
        await bench.store.stop()


def crash(rig, stop_at):
    workload = Workload()
    stopped = rig.kill(workload, stop_at=stop_at, **SETTINGS)

    async def after(bench):
        for queue in QUEUES:
            found = bench.store.bounds(queue)
            assert found.max_offset >= workload.acknowledged[queue], (queue, stop_at)
            offset = 0
            while offset < found.max_offset:
                result = bench.store.get(queue, offset, GetLimit(), None)
                result = result if isinstance(result, tuple) else await result
                assert result.next_offset > offset
                offset = result.next_offset
        results = await bench.add(inner(b"x", b"y"), message(tag="A"), fanned("%LMQ%a"))
        assert [result.status.name for result in results] == ["OK"] * 3

    rig.run(after, **SETTINGS)
    return stopped


def test_whatever_call_the_process_ends_at_every_queue_has_what_was_acknowledged(tmp_path, rig):
    stop_at, stopped = 1, True
    while stopped:
        rig.root = tmp_path / str(stop_at)
        rig.said.clear()
        stopped = crash(rig, stop_at)
        stop_at += 1
    assert stop_at > 100
