"""Timers in a whole broker, on a virtual clock."""

import pytest

DAY_MS = 24 * 3600 * 1000


def due(ms):
    return {"TIMER_DELIVER_MS": str(ms)}


async def bodies(cluster, topic="A"):
    return [each.body for each in await cluster.pull(topic)]


@pytest.mark.parametrize("store", ["memory", "mmap"])
def test_a_delayed_message_comes_at_its_time_and_not_before(gantrymq_simulation, store):
    async def work(cluster):
        await cluster.create_topic("A", 1)
        clock = cluster.world.clock
        await cluster.send("A", b"three", properties={"TIMER_DELAY_SEC": "3"})
        await cluster.send("A", b"one", properties={"TIMER_DELAY_MS": "1000"})
        at = clock.now_ms() + 2000
        await cluster.send("A", b"two", properties=due(at))
        await cluster.send("A", b"now")
        assert await bodies(cluster) == [b"now"]
        seen = {}
        for _ in range(60):
            await clock.sleep(0.1)
            for each in await bodies(cluster):
                seen.setdefault(each, clock.now_ms())
        assert list(seen) == [b"now", b"one", b"two", b"three"]
        return [seen[b"two"] - at]

    (late,) = gantrymq_simulation(work, settings={"store": store})
    assert 0 <= late <= 1100


def test_three_days_take_moments(gantrymq_simulation):
    async def work(cluster):
        await cluster.create_topic("A", 1)
        clock = cluster.world.clock
        wanted = clock.now_ms() + 3 * DAY_MS
        await cluster.send("A", b"late", properties=due(wanted))
        await clock.sleep(3 * 24 * 3600 - 2)
        assert await bodies(cluster) == []
        await clock.sleep(3)
        (message,) = await cluster.pull("A")
        return message

    message = gantrymq_simulation(work, limit_s=4 * 24 * 3600)
    assert message.body == b"late"
    assert message.properties["TIMER_ROLL_TIMES"] == "1"
