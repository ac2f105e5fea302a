"""The store of docs/plugins/tiered_store.md: deleted log files are read from its archive."""

import re
from pathlib import Path
from types import ModuleType

import pytest

from gantrymq.interfaces import Cleaning

PAGE = Path(__file__).resolve().parents[2] / "docs/plugins/tiered_store.md"
SETTINGS = {
    "store": "tiered",
    "mappedFileSizeCommitLog": 16384,
    "fileReservedTime": 0,
    "deleteCommitLogFilesInterval": 0,
}


def example():
    module = ModuleType("tiered")
    code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL))
    assert len(code.splitlines()) <= 150
    exec(compile(code, str(PAGE), "exec"), vars(module))
    return module


def test_consumers_read_old_messages_from_the_archive(gantrymq_simulation):
    pytest.importorskip("gantrymq_filter_tag")
    sent = [b"%d " % n + b"x" * 1000 for n in range(80)]

    async def work(cluster):
        for n, body in enumerate(sent):
            await cluster.send("Orders", body, tags="AB"[n % 2])
        await cluster.world.clock.sleep(1)
        store = cluster.store
        await store.clean(Cleaning.EXPIRED_LOG)
        await cluster.world.clock.sleep(30)
        assert store.raw_log.log_range().min_offset > 16384
        assert sorted(each.body for each in await cluster.pull("Orders")) == sorted(sent)
        assert sorted(each.body for each in await cluster.pull("Orders", "A")) == sorted(sent[::2])
        await cluster.restart()
        assert sorted(each.body for each in await cluster.pull("Orders")) == sorted(sent)
        return True

    assert gantrymq_simulation(work, settings=SETTINGS, plugins=[example()])


def test_a_log_file_that_is_not_archived_stays(gantrymq_simulation):
    module = example()

    class Failing(module.TieredStore):
        async def _archive_file(self, segment):
            raise OSError("the archive is away")

    module.TieredStore = Failing

    async def work(cluster):
        for n in range(60):
            await cluster.send("Orders", b"%d " % n + b"x" * 1000)
        await cluster.world.clock.sleep(1)
        await cluster.store.clean(Cleaning.EXPIRED_LOG)
        await cluster.world.clock.sleep(30)
        return cluster.store.raw_log.log_range().min_offset

    assert gantrymq_simulation(work, settings=SETTINGS, plugins=[module]) == 0
