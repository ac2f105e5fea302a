"""Delayed messages of a Java broker: ours writes the same records, and continues from its saved offsets."""

from __future__ import annotations

import asyncio
import shutil

import pytest

pytest.importorskip("gantrymq_schedule")

from mmap_stores import TAKEN_OVER

from gantrymq.formats.record import RecordView
from gantrymq.formats.tags_code import DEFAULT_DELAY_LEVELS, parse_delay_levels
from gantrymq.interfaces import StoreMessage
from gantrymq.loose_json import loads
from gantrymq.model import properties as props
from gantrymq.model.names import SCHEDULE_TOPIC
from gantrymq.model.queue import Queue
from gantrymq.world.real import real_world
from gantrymq_schedule.levels.due import real_message
from gantrymq_schedule.levels.positions import DelayOffsetsFile
from gantrymq_schedule.levels.table import LevelTable
from gantrymq_testing.cluster import Cluster

LEVELS = parse_delay_levels(DEFAULT_DELAY_LEVELS)
KEPT = ("body", "flag", "sys_flag", "born_timestamp", "born_host", "store_host", "reconsume_times")


def pairs(scenario) -> list[tuple[RecordView, RecordView]]:
    """Waiting records, each with its delivered record; pending ones are left out."""
    waited: dict[tuple[str, str, int, int], RecordView] = {}
    found = []
    for record in scenario.log_records():
        own = record.properties
        key = own.get("UNIQ_KEY", ""), own.get("DELAY", ""), record.born_timestamp, record.reconsume_times
        if record.topic == SCHEDULE_TOPIC:
            waited[key] = record
        elif "REAL_TOPIC" in own and key in waited:
            found.append((waited[key], record))
    return found


def same(name, text, record) -> bool:
    """4.9 has another order, and omits the last 0x02."""
    if name == "v497":
        return props.decode(text) == record.properties
    return text == bytes(record.properties_bytes)


@pytest.mark.parametrize(("name", "count"), [("delay", 7), ("v497", 7), ("retry", 8)])
def test_what_is_delivered_is_what_java_delivered(golden, name, count):
    found = pairs(golden(name))
    assert len(found) == count
    for waited, delivered in found:
        assert 0 <= delivered.store_timestamp - waited.store_timestamp - LEVELS[waited.queue_id] < 1000
        message = real_message(waited)
        assert (message.topic, message.queue_id) == (delivered.topic, delivered.queue_id)
        assert same(name, message.properties, delivered)
        assert [getattr(message, name) for name in KEPT] == [getattr(delivered, name) for name in KEPT]
        assert message.prepared_offset == delivered.prepared_offset == 0


@pytest.mark.parametrize("name", ["delay", "v497", "retry"])
def test_what_waits_is_what_java_moved(golden, name):
    table, waiting = LevelTable(LEVELS), [r for r in golden(name).log_records() if r.topic == SCHEDULE_TOPIC]
    assert waiting
    for record in waiting:
        own = dict(record.properties)
        message = StoreMessage(own.pop("REAL_TOPIC"), int(own.pop("REAL_QID")), record.body, b"")
        moved = table.move(message, own)
        assert (moved.topic, moved.queue_id) == (record.topic, record.queue_id)
        assert same(name, moved.properties, record)
        assert moved.queue_targets.due_in_ms == LEVELS[record.queue_id]


@pytest.mark.parametrize("name", ["delay", "retry", "timer"])
def test_the_file_of_the_progress_is_java_s_byte_for_byte(golden, name):
    text = (golden(name).store / "config/delayOffset.json").read_bytes()
    assert DelayOffsetsFile.from_json(loads(text)).to_text().encode() == text


def test_a_file_of_4_9_has_no_version(golden):
    text = (golden("v497").store / "config/delayOffset.json").read_bytes()
    read = DelayOffsetsFile.from_json(loads(text))
    assert (read.offsets, read.version.counter) == ({1: 3, 2: 2, 3: 2}, 0)


def test_what_java_left_pending_fires_once_and_what_it_delivered_does_not(golden_copy, tmp_path):
    scenario = golden_copy("delay")
    before = [record for record in scenario.log_records() if record.topic == "GoldenDelay"]
    waiting = [record for record in scenario.log_records() if record.topic == SCHEDULE_TOPIC]
    shutil.move(scenario.store, tmp_path / "cluster/store")
    settings = {key: scenario.conf[key] for key in TAKEN_OVER if key in scenario.conf}

    async def main(world):
        cluster = Cluster(world, tmp_path / "cluster", {**settings, "store": "mmap"})
        await cluster.start()
        try:
            keys = [[]]
            for _ in range(2):
                async with asyncio.timeout(60):  # a slow disk confirms later than the levels move
                    while not all(end == position for _, position, end, _ in levels(cluster)) or len(keys[-1]) < wanted:
                        await world.clock.sleep(0.01)
                        keys[-1] = sorted(record.properties["KEYS"] for record in await cluster.pull("GoldenDelay"))
                keys.append([])
                await cluster.restart()
            return keys, cluster.broker.store.bounds(Queue(SCHEDULE_TOPIC, 0)).max_offset
        finally:
            await cluster.stop()

    def levels(cluster):
        (service,) = [each for each in cluster.plugins.services if each.name == "schedule"]
        return service._levels.positions.levels()

    async def run():
        world = real_world()
        try:
            return await main(world)
        finally:
            await world.workers.close()

    delivered = {record.properties["KEYS"] for record in before}
    pending = [record.properties["KEYS"] for record in waiting if record.properties["KEYS"] not in delivered]
    wanted = len(before) + len(pending)
    (first, second, _), end = asyncio.run(run())
    assert first == second
    assert sorted([*(record.properties["KEYS"] for record in before), *pending]) == first
    assert end == 3
    saved = DelayOffsetsFile.from_json(loads((tmp_path / "cluster/store/config/delayOffset.json").read_bytes()))
    assert saved.offsets == {**dict.fromkeys(saved.offsets, 0), 1: 3, 2: 2, 3: 2, 5: 1, 6: 1, 14: 1, 18: 3}
    assert saved.version.counter > 3
