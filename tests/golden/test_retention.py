"""Retention on stores written by Java: the queues start where the records do, and the store continues from there."""

import pytest
from golden_stores import Scenario
from mmap_stores import read_queue, with_open_store
from polling import until

from gantrymq.interfaces import Cleaning
from gantrymq.model.queue import Queue

SEVERAL_LOG_FILES = ("crash/recovered", "crash/torn-recovered", "normal", "v497", "v550")
AT_ONCE = {"fileReservedTime": 0, "deleteCommitLogFilesInterval": 0, "deleteConsumeQueueFilesInterval": 0}


async def cleaned(store):
    """Delete all log files but the newest; some seconds of patience for a busy machine."""
    wanted = (await store.clean(Cleaning.EXPIRED_LOG)).log_files
    start = store.state().min_log_offset
    await until(lambda: store._retention._task is None, "end of the cleaning", poll_s=0.01)
    return wanted, start


@pytest.mark.parametrize("name", SEVERAL_LOG_FILES)
def test_what_is_left_of_a_store_of_java_s_is_its_newest_file(golden_copy, name):
    scenario: Scenario = golden_copy(name)
    files = scenario.log_files()
    newest = int(files[-1].name)
    said = [line for line in scenario.records if line["kind"] == "record"]
    kept = [line for line in said if line["commitLogOffset"] >= newest]

    async def look(store, report):
        ends = {queue: store.bounds(queue).max_offset for queue in store.queues()}
        assert (await cleaned(store))[0] == len(files) - 1
        assert store.state().min_log_offset == newest
        assert [path.name for path in scenario.log_files()] == [files[-1].name]
        for queue, end in ends.items():
            bounds = store.bounds(queue)
            assert bounds.max_offset == end
            records = await read_queue(store, queue)
            assert [record.queue_offset for record in records] == list(range(*bounds))
            assert all(record.log_offset >= newest for record in records)
        return {queue: store.bounds(queue) for queue in ends}

    before = with_open_store(scenario, look, **AT_ONCE)
    visible = {
        (line["topic"], line["queueId"], line["queueOffset"])
        for line in kept
        if Queue(line["topic"], line["queueId"]) in before
    }
    read = {(*queue, offset) for queue, bounds in before.items() for offset in range(*bounds)}
    assert read == visible

    async def again(store, report):
        assert (report.clean, report.notes, report.entries_rebuilt) == (True, (), 0)
        assert {queue: store.bounds(queue) for queue in before} == before

    with_open_store(scenario, again)
