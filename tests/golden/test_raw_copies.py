"""The log of a golden store, copied through `RawLog.append_raw`, gets the queues and the index that Java built."""

import asyncio
import shutil

import pytest
from golden_stores import SCENARIOS, Scenario
from mmap_stores import contents, make_store
from test_index_stores import BUILT_OTHERWISE, index_of, settle

from gantrymq.world.real import real_world

# Their queues have entries of deleted records.
OTHER_QUEUES = ("cleaned/cleaned", "cleaned/rebuilt")
CHUNK_BYTES = 32768  # haTransferBatchSize


def pieces(scenario):
    """The log as a master sends it: the whole of each file but the last."""
    last = max(place.file for place in scenario.log())
    for path in scenario.log_files():
        data = path.read_bytes()
        if path.name == last:
            data = data[: sum(place.check.size for place in scenario.log() if place.file == last)]
        yield from (data[at : at + CHUNK_BYTES] for at in range(0, len(data), CHUNK_BYTES))


def copied(scenario, root):
    """A copy of the log of *scenario* below *root*, with the topics that a slave would have."""
    copy = Scenario(scenario.name, root)
    (copy.store / "config").mkdir(parents=True)
    shutil.copy(scenario.folder / "broker.conf", root)
    if (scenario.store / "config" / "topics.json").exists():
        shutil.copy(scenario.store / "config" / "topics.json", copy.store / "config")

    async def main():
        world = real_world()
        store = make_store(copy, world)
        await store.start()
        end, data = int(scenario.log_files()[0].name), b""
        for piece in pieces(scenario):
            data += piece
            now = store.raw_log.append_raw(end, data)
            data, end = data[now - end :], now
            await store.flushed(end)
            store.publish(end)
        assert data == b""
        await settle(store, None)
        await store.stop()
        await world.workers.close()

    asyncio.run(main())
    return copy


def written(scenario, part):
    """Contents of the queue files with an entry."""
    return {name: data for name, data in contents(scenario.store / part).items() if any(data)}


@pytest.mark.parametrize("name", [name for name in SCENARIOS if name not in ("crash/killed", "crash/torn", "sql")])
def test_a_raw_copy_has_the_log_the_queues_and_the_index_of_the_original(golden, tmp_path, name):
    scenario = golden(name)
    copy = copied(scenario, tmp_path)
    logs = [[path.read_bytes() for path in each.log_files() if any(path.read_bytes())] for each in (scenario, copy)]
    assert logs[0] == logs[1]
    if name not in OTHER_QUEUES:
        for part in ("consumequeue", "batchconsumequeue"):
            assert written(copy, part) == written(scenario, part)
    if name not in BUILT_OTHERWISE:
        assert index_of(copy) == index_of(scenario)


def test_a_raw_copy_of_a_store_with_ext_files_has_a_unit_for_each_entry(golden, tmp_path):
    """The bits of a unit come from the filters of a broker's groups, so the addresses of units differ."""
    scenario = golden("sql")
    copy = copied(scenario, tmp_path)
    ours, theirs = written(copy, "consumequeue"), written(scenario, "consumequeue")
    assert ours.keys() == theirs.keys()
    for name, data in ours.items():
        for at in range(0, len(data), 20):
            assert data[at : at + 12] == theirs[name][at : at + 12]
    for name in written(copy, "consumequeue"):
        assert name in written(copy, "consumequeue_ext")
    assert index_of(copy) == index_of(scenario)
