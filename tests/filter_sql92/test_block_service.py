"""Block filters in a broker: built when a pull would have used them, and correct across restarts and deletions."""

from __future__ import annotations

import logging
import random

import pytest

from gantrymq.client import Client
from gantrymq.errors import StoreError
from gantrymq.formats.record import iter_records
from gantrymq.interfaces import PullRequest, StoreMessage
from gantrymq.model import properties as property_text
from gantrymq.model.queue import Queue
from gantrymq_filter_sql92.blocks import property_reader

pytest.importorskip("gantrymq_storage_mmap")

T0 = Queue("T", 0)
SETTINGS = {"store": "mmap", "filterBlockEntries": 64}
SLOW = {**SETTINGS, "filterBlocksEnable": False}


def service_of(cluster):
    return next(each for each in cluster.plugins.services if each.name == "filter_blocks")


async def put(cluster, values, topic="T", queue_id=0):
    for value in values:
        text = property_text.encode({"a": str(value), "n": "1"})
        await cluster.broker.messages.put(StoreMessage(topic, queue_id, b"%d" % len(str(value)), text))


async def pulled(cluster, expression, queue=T0, group="G"):
    """Values of ``a`` that a group gets from a queue, from its beginning to its end."""
    found, offset = [], 0
    cluster.broker.groups.require(group)
    while offset < cluster.broker.store.bounds(queue).max_offset:
        answer = await cluster.broker.messages.pull(
            PullRequest(group, *queue, offset, expression=expression, expression_type="SQL92")
        )
        assert answer.next_offset > offset, answer
        offset = answer.next_offset
        found += [record.properties["a"] for buffer in answer.buffers for record in iter_records(buffer)]
    return found


async def settled(cluster):
    """Wait until every pending block has its filter."""
    service = service_of(cluster)
    for _ in range(10_000):
        if service._working is None and not service._waiting:
            return
        await cluster.world.clock.sleep(0.01)
    raise AssertionError("block filters are never done")


def test_the_second_pull_skips(gantrymq_simulation):
    async def main(cluster):
        await cluster.create_topic("T", 1)
        counts = service_of(cluster).counts
        await put(cluster, ["x"] * 64 + ["y"] * 192 + ["x"] * 64 + ["y"] * 70)
        assert await pulled(cluster, "a = 'x'") == ["x"] * 128
        assert counts.checked == 0
        await settled(cluster)
        assert counts.made == 6
        assert await pulled(cluster, "a = 'x'", group="Other") == ["x"] * 128
        assert counts.skipped == 4
        assert await pulled(cluster, "a = 'z' AND n = 1") == []
        assert counts.skipped == 4 + 6
        assert counts.false_positives == 0
        assert await pulled(cluster, "n = 2") == []  # n is in no filter yet
        await settled(cluster)
        before = counts.skipped
        assert await pulled(cluster, "n = 2 OR a = 'z'") == []
        assert counts.skipped - before == 6
        shown = {each.name: each.values for each in cluster.broker.metrics.snapshot().plugin_metrics}
        assert shown["gantrymq_filter_blocks_skipped_total"] == {(): counts.skipped}
        assert shown["gantrymq_filter_blocks"] == {(): 6}

    gantrymq_simulation(main, settings=SETTINGS)


def test_a_block_gets_its_filter_when_it_is_complete(gantrymq_simulation):
    async def main(cluster):
        await cluster.create_topic("T", 1)
        counts = service_of(cluster).counts
        await put(cluster, "x")
        assert await pulled(cluster, "a = 'x'") == ["x"]
        await put(cluster, "y" * 200)
        await cluster.world.clock.sleep(3)
        await settled(cluster)
        assert counts.made == 3
        assert await pulled(cluster, "a = 'x'") == ["x"]
        assert counts.skipped == 2
        await cluster.world.clock.sleep(700)
        await put(cluster, "y" * 200)
        await cluster.world.clock.sleep(10)
        assert counts.made == 3  # no request for ten minutes

    gantrymq_simulation(main, settings=SETTINGS)


def test_nothing_is_made_where_it_is_of_no_use(gantrymq_simulation):
    async def main(cluster):
        await cluster.create_topic("T", 1)
        counts = service_of(cluster).counts
        await put(cluster, "x" * 200)
        assert await pulled(cluster, "a <> 'x' OR n IS NULL") == []
        assert len(await cluster.pull("T")) == 200
        await cluster.world.clock.sleep(10)
        assert (counts.made, counts.checked) == (0, 0)
        cluster.settings.set("filterBlocksEnable", False, "test")
        assert await pulled(cluster, "a = 'y'") == []
        await cluster.world.clock.sleep(10)
        assert (counts.made, counts.checked) == (0, 0)

    gantrymq_simulation(main, settings=SETTINGS)


def test_filters_are_taken_from_the_disk_after_a_restart(gantrymq_simulation):
    async def main(cluster):
        await cluster.create_topic("T", 1)
        await put(cluster, "x" * 64 + "y" * 128)
        await pulled(cluster, "a = 'x'")
        await settled(cluster)
        await cluster.restart()
        counts = service_of(cluster).counts
        made = counts.made
        assert await pulled(cluster, "a = 'x'") == ["x"] * 64
        await settled(cluster)
        assert await pulled(cluster, "a = 'x'") == ["x"] * 64
        assert counts.made == made and counts.skipped >= 2

    gantrymq_simulation(main, settings=SETTINGS)


def test_a_damaged_file_is_made_again(gantrymq_simulation):
    async def main(cluster):
        await cluster.create_topic("T", 1)
        await put(cluster, "x" * 64 + "y" * 128)
        await pulled(cluster, "a = 'x'")
        await settled(cluster)
        folder = cluster.broker.state_folder("filter_sql92") / "blocks" / "T" / "0"
        files = cluster.world.files
        assert files.list(folder) == [f"{first:020d}" for first in (0, 64, 128)]
        path = folder / f"{64:020d}"
        files.replace(path, files.read(path)[:-1] + b"?")
        await cluster.restart()
        counts = service_of(cluster).counts
        made, dropped = counts.made, counts.dropped
        for _ in range(2):
            assert await pulled(cluster, "a = 'x'") == ["x"] * 64
            await settled(cluster)
        assert (counts.made - made, counts.dropped - dropped) == (1, 1)
        assert len(files.list(folder)) == 3

    gantrymq_simulation(main, settings=SETTINGS)


@pytest.mark.parametrize("restart", [False, True])
def test_filters_of_a_deleted_topic_say_nothing_of_a_new_one(gantrymq_simulation, restart):
    async def main(cluster):
        await cluster.create_topic("T", 1)
        await put(cluster, "x" * 200)
        await pulled(cluster, "a = 'y'")
        await settled(cluster)
        async with Client(cluster.namesrv, world=cluster.world) as client, client.admin as admin:
            await admin.delete_topic("T")
        await cluster.create_topic("T", 1)
        await put(cluster, "y" * 200)
        if restart:
            await cluster.restart()
        for _ in range(2):
            assert await pulled(cluster, "a = 'y'") == ["y"] * 200
            await settled(cluster)
        assert await pulled(cluster, "a = 'x'") == []

    gantrymq_simulation(main, settings=SETTINGS)


def test_filters_of_truncated_messages_say_nothing_of_those_that_replace_them(gantrymq_simulation):
    async def main(cluster):
        await cluster.create_topic("T", 1)
        await put(cluster, "x" * 64)
        end = cluster.store.state().max_log_offset
        await put(cluster, "x" * 136)
        await pulled(cluster, "a = 'y'")
        await settled(cluster)
        await cluster.store.raw_log.truncate(end)
        await put(cluster, "y" * 136)
        skipped = service_of(cluster).counts.skipped
        assert await pulled(cluster, "a = 'y'") == ["y"] * 136
        assert service_of(cluster).counts.skipped == skipped + 1

    gantrymq_simulation(main, settings=SETTINGS)


def test_files_of_topics_that_are_gone_are_removed(gantrymq_simulation):
    async def main(cluster):
        await cluster.create_topic("T", 1)
        await cluster.create_topic("U", 1)
        for topic in ("T", "U"):
            await put(cluster, "x" * 70, topic)
            await pulled(cluster, "a = 'y'", Queue(topic, 0))
        await settled(cluster)
        async with Client(cluster.namesrv, world=cluster.world) as client, client.admin as admin:
            await admin.delete_topic("T")
        await cluster.world.clock.sleep(1300)
        folder = cluster.broker.state_folder("filter_sql92") / "blocks"
        assert cluster.world.files.list(folder) == ["U"]

    gantrymq_simulation(main, settings=SETTINGS)


def test_a_disk_that_fails_stops_no_pull(gantrymq_simulation, monkeypatch, caplog):
    async def no_texts(*args):
        raise StoreError("the disk failed")

    async def main(cluster):
        await cluster.create_topic("T", 1)
        await put(cluster, "x" * 200)
        with caplog.at_level(logging.WARNING):
            for _ in range(2):
                assert await pulled(cluster, "a = 'x'") == ["x"] * 200
                await settled(cluster)
        assert service_of(cluster).counts.made == 0
        assert len([each for each in caplog.records if "cannot be made" in each.message]) == 1

    monkeypatch.setattr(property_reader, "_got", no_texts)
    gantrymq_simulation(main, settings=SETTINGS)


@pytest.mark.parametrize("seed", range(3))
def test_the_same_messages_with_and_without(gantrymq_simulation, seed):
    expressions = ["a = 'v1'", "a = 1", "a IN ('v2', 'v3') AND n = 1", "a = 'v4' OR a = 01", "a = 'v1' OR n = '2'"]
    runs = []

    def run(settings):
        async def main(cluster):
            rng = random.Random(seed)
            await cluster.create_topic("T", 1)
            found = []
            for _ in range(4):
                few = rng.sample(["v1", "v2", "v3", "v4", "v5", "1", "01", "1.0", "v11"], 3)
                await put(cluster, [rng.choice(few) for _ in range(rng.randrange(40, 200))])
                for expression in expressions:
                    found.append(await pulled(cluster, expression))
                await settled(cluster)
            runs.append(found)
            if settings is SETTINGS:
                assert service_of(cluster).counts.skipped > 0

        gantrymq_simulation(main, settings=settings, seed=seed)

    run(SETTINGS)
    run(SLOW)
    assert runs[0] == runs[1]
