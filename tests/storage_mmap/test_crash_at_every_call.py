"""The process ends before the first, the second, ... the last call of `Files` in a workload.

The page cache survives (as after a kill), so any appended message may exist; every acknowledged one must.
"""

import pytest

from gantrymq.model.queue import Queue
from gantrymq_testing.store_contract_bench import bodies, message

QUEUES = [Queue("A", 0), Queue("A", 1), Queue("B", 0)]


def body(number):
    return b"%04d" % number + b"x" * (number * 37 % 1500)


class Workload:
    """Sends batches, joined ones too, across several log and queue files, drops a topic, and stops cleanly.

    Meanwhile time passes, two ticks a batch, so that queues are written and synced, and the checkpoint moves.
    """

    def __init__(self):
        self.sent = {queue: [] for queue in QUEUES}
        self.acknowledged = {queue: [] for queue in QUEUES}
        self.dropper = False

    async def __call__(self, bench):
        number = 0
        for size in (1, 3, 2, 5, 1, 4, 8, 2, 6):
            batch, places = [], []
            for n in range(size):
                queue = QUEUES[number % 3]
                batch.append(message(*queue, body(number), same_file_as_previous=n > 0 and size == 5))
                places.append((queue, body(number)))
                self.sent[queue].append(body(number))
                number += 1
            results = await bench.add(*batch)
            assert len(results) == size
            for queue, stored in places:
                self.acknowledged[queue].append(stored)
            bench.store._entry_writer._tick()
            if size == 8:
                bench.store._checkpointer.request()
                await bench.store._checkpointer._task
            bench.store._entry_writer._tick()
        self.dropper = True
        bench.store.drop("B")
        await bench.store.stop()


def crash(rig, stop_at):
    workload = Workload()
    stopped = rig.kill(workload, stop_at=stop_at, mappedFileSizeConsumeQueue=100)
    said = len(rig.said)

    async def after(bench):
        assert bench.report.cut_bytes == 0, rig.said[said:]
        for queue in QUEUES:
            if queue.topic == "B" and workload.dropper:
                continue
            found = bodies(await bench.read_all(queue))
            acknowledged, sent = workload.acknowledged[queue], workload.sent[queue]
            assert found[: len(acknowledged)] == acknowledged
            assert found == sent[: len(found)]
            assert bench.store.bounds(queue) == (0, len(found))
        (result,) = await bench.add(message("A", 0, b"after"))
        assert bodies(await bench.read_all(QUEUES[0]))[-1] == b"after"
        assert result.queue_offset == bench.store.bounds(QUEUES[0]).max_offset - 1
        await bench.restart()
        assert bodies(await bench.read_all(QUEUES[0]))[-1] == b"after"

    rig.run(after, mappedFileSizeConsumeQueue=100)
    return stopped


@pytest.mark.slow
def test_every_acknowledged_message_is_there_wherever_the_process_ends(tmp_path, rig):
    stop_at = 1
    while crash(at(rig, tmp_path / str(stop_at)), stop_at):
        stop_at += 1
    assert stop_at > 150


def at(rig, root):
    """The rig on another folder."""
    rig.root = root
    rig.said.clear()
    return rig
