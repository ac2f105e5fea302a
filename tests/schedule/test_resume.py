"""After a kill no message is delivered twice: a running broker's store is copied, and another broker opens it."""

from __future__ import annotations

import random

import pytest
from killed_cluster import SETTINGS, after_a_kill, counts

from gantrymq.interfaces import PutResult, PutStatus, QueueTargets, StoreMessage
from gantrymq.model import properties as props
from gantrymq.model.names import SCHEDULE_TOPIC
from gantrymq_schedule.levels import resume
from gantrymq_schedule.levels.delivery import LevelDelivery
from gantrymq_schedule.levels.resume import SavedLevel, find_delivered


def levels_of(cluster):
    return next(each for each in cluster.plugins.services if each.name == "schedule")._levels


@pytest.mark.parametrize("indexed", [True, False])
def test_what_was_delivered_before_a_kill_is_not_delivered_again(gantrymq_simulation, indexed):
    async def main(cluster):
        await cluster.create_topic("T", 2)
        for number in range(40):
            await cluster.send("T", b"%d" % number, system_properties={"DELAY": str(number % 2 + 1)})
        await cluster.send("T", b"pending", system_properties={"DELAY": "3"})
        await cluster.world.clock.sleep(3)
        for number in range(40, 45):
            await cluster.send("T", b"%d" % number, system_properties={"DELAY": "1"})
        async with after_a_kill(cluster, "again") as again:
            await cluster.world.clock.sleep(3)
            assert await counts(again) == {b"%d" % number: 1 for number in range(45)}
            assert levels_of(again).lateness.messages == 5
            assert [position for _, position, *_ in levels_of(again).positions.levels()] == [25, 20, 0]

    gantrymq_simulation(main, settings={**SETTINGS, "messageIndexEnable": indexed})


def test_kills_deliver_nothing_again_while_the_index_is_far_behind_the_log(gantrymq_simulation):
    async def one_more(cluster, lives):
        """Kill the broker, start it without an index, deliver a message, and kill it again."""

        def without_index(store):
            for name in cluster.world.files.list(store / "index"):
                cluster.world.files.remove(store / "index" / name)

        if lives:
            async with after_a_kill(cluster, f"life{lives}", without_index) as again:
                assert again.store.state().max_log_offset > 8 * 1024 * 1024
                await again.send("T", b"mark %d" % lives, system_properties={"DELAY": "1"})
                await again.world.clock.sleep(4)
                found = await counts(again)
                assert len(found) == 301 + 3 - lives
                assert set(found.values()) == {1}
                await one_more(again, lives - 1)

    async def main(cluster):
        for topic in ("T", "Other"):
            await cluster.create_topic(topic, 2)
        for number in range(300):
            await cluster.send("T", b"%d" % number, system_properties={"DELAY": str(number % 2 + 1)})
        for _ in range(10):
            await cluster.send("Other", random.Random(1).randbytes(900_000))
        await cluster.world.clock.sleep(3)
        await one_more(cluster, 3)

    gantrymq_simulation(main, settings=SETTINGS)


def test_progress_beyond_the_queue_is_not_believed(gantrymq_simulation, caplog):
    text = '{"dataVersion":{"counter":9,"stateVersion":0,"timestamp":1},"offsetTable":{1:1000,2:5,3:77}}'

    async def main(cluster):
        files = cluster.world.files
        await cluster.create_topic("T", 1)
        for number in range(10):
            await cluster.send("T", b"%d" % number, system_properties={"DELAY": str(number % 2 + 1)})
        await cluster.send("T", b"pending", system_properties={"DELAY": "3"})
        await cluster.world.clock.sleep(3)
        await cluster.send("T", b"waits", system_properties={"DELAY": "1"})
        wrong = lambda store: files.replace(store / "config/delayOffset.json", text.encode())  # noqa: E731
        async with after_a_kill(cluster, "again", wrong) as again:
            await cluster.world.clock.sleep(3)
            assert await counts(again) == {**{b"%d" % number: 1 for number in range(10)}, b"waits": 1}
            assert [position for _, position, *_ in levels_of(again).positions.levels()] == [6, 5, 0]

    gantrymq_simulation(main, settings=SETTINGS)
    assert len([each for each in caplog.messages if "the log is searched for what was delivered" in each]) == 2


def test_each_try_of_a_message_is_told_from_those_before(gantrymq_simulation):
    """All messages have the same unique key and target; the log order identifies the delivered ones."""

    async def main(cluster):
        broker, clock = cluster.broker, cluster.world.clock
        await cluster.create_topic("T", 1)
        text = props.encode({"UNIQ_KEY": "u", "DELAY": "1", "REAL_TOPIC": "T", "REAL_QID": "0"})
        for tries in range(3):
            await broker.messages.put(
                StoreMessage(SCHEDULE_TOPIC, 0, b"%d" % tries, text, queue_targets=QueueTargets(due_in_ms=1000))
            )
            await clock.sleep(1.5)
        await levels_of(cluster).stop()
        await broker.messages.put(
            StoreMessage(SCHEDULE_TOPIC, 0, b"3", text, queue_targets=QueueTargets(due_in_ms=1000))
        )
        await clock.sleep(1.5)
        for start in range(4):
            found = await find_delivered(broker, [SavedLevel(1, start, 1000)], (1000,), lambda: False)
            assert found.get(1, (3, set())) == (3, set())

    gantrymq_simulation(main, settings=SETTINGS)


@pytest.mark.parametrize("ahead", [10, 4096])
def test_what_was_delivered_after_one_that_the_store_refused_is_known(gantrymq_simulation, monkeypatch, ahead):
    monkeypatch.setattr(resume, "AHEAD", ahead)
    monkeypatch.setattr(resume, "_SCANNED_TOGETHER", 7)

    async def main(cluster):
        broker, clock = cluster.broker, cluster.world.clock
        await cluster.create_topic("T", 1)
        for number in range(50):
            own = {"UNIQ_KEY": f"k{number}", "DELAY": "1", "REAL_TOPIC": "T", "REAL_QID": "0"}
            waits = StoreMessage(
                SCHEDULE_TOPIC, 0, b"%d" % number, props.encode(own), queue_targets=QueueTargets(due_in_ms=1000)
            )
            await broker.messages.put(waits)
        levels = levels_of(cluster)
        store = levels._store

        async def refuses(messages):
            taken = iter(await store([each for each in messages if each.body not in (b"20", b"23")]))
            refused = PutResult(PutStatus.SERVICE_NOT_AVAILABLE, -1, -1, 0, 0, "no")
            return [refused if each.body in (b"20", b"23") else next(taken) for each in messages]

        monkeypatch.setattr(levels, "_store", refuses)
        await clock.sleep(2)
        await levels.stop()
        monkeypatch.undo()
        (found,) = (await find_delivered(broker, [SavedLevel(1, 3, 1000)], (1000,), lambda: False)).values()
        assert found == (20, {21, 22, *range(24, 50)})
        again = LevelDelivery(broker, cluster.root / "nowhere", (1000,))
        await again.start()
        await clock.sleep(5)
        await again.stop()
        assert sorted(int(each.body) for each in await cluster.pull("T")) == list(range(50))

    gantrymq_simulation(main, settings=SETTINGS)
