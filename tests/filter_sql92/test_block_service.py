"""Block filters in a broker: groups share them, metrics show them, a setting switches them off."""

import pytest

pytest.importorskip("gantrymq_storage_mmap")

from bitmap_rig import shown

from gantrymq.interfaces import PullRequest, StoreMessage
from gantrymq.model.queue import Queue
from gantrymq_filter_sql92 import block_filters


def test_groups_share_block_filters_and_a_setting_switches_them_off(gantrymq_simulation, monkeypatch):
    monkeypatch.setattr(block_filters, "BLOCK_ENTRIES", 8)

    async def main(cluster):
        broker = cluster.broker

        async def read(group):
            broker.groups.require(group)
            offset = 0
            while offset < broker.store.bounds(Queue("T", 0)).max_offset:
                asked = PullRequest(group, "T", 0, offset, expression=f"a = '{group}'", expression_type="SQL92")
                answer = await broker.messages.pull(asked)
                assert not answer.buffers
                offset = answer.next_offset

        def size():
            families = broker.metrics.snapshot().plugin_metrics
            return next(each for each in families if each.name.endswith("blocks_bytes")).values[()]

        await cluster.create_topic("T", 1)
        for _ in range(16):
            await broker.messages.put(StoreMessage("T", 0, b"", b"a\x01x\x02"))
        await cluster.world.clock.sleep(0.01)
        for group in ("p", "q", "r"):
            await read(group)
        assert shown(cluster, "gantrymq_filter_blocks_asked_total") == {"hit": 2, "miss": 0}
        assert size() > 1000
        assert broker.offsets.last_pull("r", Queue("T", 0)).checked == 16
        cluster.settings.set("sql92BlockFilterBytes", 0, "a test")
        assert size() == 0
        await read("s")
        assert shown(cluster, "gantrymq_filter_blocks_asked_total") == {"hit": 2, "miss": 0}

    gantrymq_simulation(main, settings={"store": "mmap"})
