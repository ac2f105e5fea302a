"""Delay levels beside a simulated broker: moved aside, delivered at their time, progress kept."""

from __future__ import annotations

from gantrymq.model.names import SCHEDULE_TOPIC
from gantrymq.model.queue import Queue


def test_a_message_comes_when_its_level_s_time_is_up(gantrymq_simulation):
    async def main(cluster):
        clock = cluster.world.clock
        await cluster.create_topic("T", 2)
        sent_ms = clock.now_ms()
        await cluster.send("T", b"later", tags="A", properties={"DELAY": "3"})
        await cluster.send("T", b"now")
        assert [each.body for each in await cluster.pull("T")] == [b"now"]
        await clock.sleep(9.9)
        assert len(await cluster.pull("T")) == 1
        await clock.sleep(0.2)
        (late,) = [each for each in await cluster.pull("T", "A") if each.body == b"later"]
        assert 0 <= late.store_timestamp - sent_ms - 10_000 <= 50
        assert late.properties["DELAY"] == "3"
        assert cluster.broker.bounds(Queue(SCHEDULE_TOPIC, 2)) == (0, 1)

    gantrymq_simulation(main)
