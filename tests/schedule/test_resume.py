"""After a kill nothing that was delivered comes again: a store is copied under its broker, and another opens it."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest


def levels_of(running):
    service = next(each for each in running.cluster.plugins.services if each.name == "schedule")
    return service._levels


async def delivered(running, count):
    """Wait until so many were delivered, and consumers see them."""
    for _ in range(1000):
        state = running.cluster.broker.store.state()
        if levels_of(running).lateness.messages >= count and state.published_offset == state.max_log_offset:
            return
        await running.cluster.world.clock.sleep(0.01)
    raise AssertionError(f"{levels_of(running).lateness.messages} of {count} were delivered")


@pytest.mark.parametrize("indexed", [True, False])
def test_what_was_delivered_before_a_kill_is_not_delivered_again(gantrymq_broker_factory, tmp_path, indexed):
    settings = {"store": "mmap", "messageDelayLevel": "1s 2s 3h", "messageIndexEnable": indexed}
    running = gantrymq_broker_factory(settings)
    running.create_topic("T", 2)
    for number in range(40):
        running.send("T", b"%d" % number, system_properties={"DELAY": str(number % 2 + 1)})
    running.send("T", b"pending", system_properties={"DELAY": "3"})
    running.run(delivered(running, 40))
    for number in range(40, 45):
        running.send("T", b"%d" % number, system_properties={"DELAY": "1"})
    source = Path(running.cluster.settings.text("storePathRootDir"))
    assert not (source / "config/delayOffset.json").exists()
    shutil.copytree(source, tmp_path / "copy")
    again = gantrymq_broker_factory({**settings, "storePathRootDir": str(tmp_path / "copy")})
    again.run(delivered(again, 5 if indexed else 45))
    found = Counter(message.body for message in again.pull("T"))
    assert set(found) == {b"%d" % number for number in range(45)}
    if indexed:
        assert set(found.values()) == {1}
    assert [position for _, position, *_ in levels_of(again).progress.levels()] == [25, 20, 0]


def test_the_end_of_what_was_delivered_is_found_wherever_it_lies(gantrymq_broker_factory):
    running = gantrymq_broker_factory({"store": "mmap", "messageDelayLevel": "1s 3h"})
    running.create_topic("T", 1)

    async def find():
        from gantrymq_schedule.levels.resume import first_undelivered
        from gantrymq_schedule.levels.table import queue_of

        broker = running.cluster.broker
        await delivered(running, 11)
        starts = range(12)
        return [await first_undelivered(broker, queue_of(1), start, 1000, [1000]) for start in starts]

    for number in range(11):
        running.send("T", b"%d" % number, system_properties={"DELAY": "1"})
    assert running.run(find()) == [11] * 12
