"""Priority messages (RIP-80): the priority is the queue, as in RocketMQ 5.5.0."""

from __future__ import annotations

import asyncio

import attrs
import pytest
from broker_desk import records
from small_schedule import SmallSchedule

from gantrymq.model.topic import TopicConfig

PROPERTIES = "_SYS_MSG_PRIORITY_\x01{}\x02UNIQ_KEY\x01{}\x02"


async def send(desk, priority, unique_id="ID", more="", **fields):
    answer = await desk.send("T", properties=PROPERTIES.format(priority, unique_id) + more, **fields)
    assert answer.code == 0, answer.remark
    return int(answer.ext["queueId"])


def with_topic(desk, writes=4, reads=4):
    desk.tables.topics.put(TopicConfig("T", reads, writes, attributes={"message.type": "PRIORITY"}))


@pytest.mark.parametrize(
    ("priority", "queue_id"), [("0", 0), ("1", 1), ("3", 3), ("4", 3), ("2147483647", 3), ("-1", 2), ("x", 2), ("٣", 2)]
)
def test_the_priority_is_the_queue_up_to_the_last_one(broker, priority, queue_id):
    async def main(desk):
        with_topic(desk)
        assert await send(desk, priority, queue_id=2) == queue_id
        (record,) = records(await desk.pull("T", queueId=str(queue_id)))
        assert (record.queue_id, record.properties["_SYS_MSG_PRIORITY_"]) == (queue_id, priority)

    broker(main)


def test_the_last_queue_is_the_last_that_is_written(broker):
    async def main(desk):
        with_topic(desk, writes=2, reads=4)
        assert await send(desk, 9) == 1
        with_topic(desk, writes=0, reads=4)
        assert await send(desk, 9) == 0

    broker(main)


def test_sends_that_differ_in_queue_only_are_placed_again(broker):
    async def main(desk):
        with_topic(desk)
        for round_number in range(4):
            sends = [send(desk, each, f"ID{round_number}{each}", queue_id=each) for each in (3, 1, 1, 0)]
            assert await asyncio.gather(*sends) == [3, 1, 1, 0]
            assert await send(desk, 2, f"other{round_number}", queue_id=round_number) == 2

    broker(main)


@pytest.mark.parametrize("more", ["__SHARDINGKEY\x01k\x02", "DELAY\x011\x02"])
def test_an_ordered_or_delayed_message_loses_its_priority(broker, plugins, more):
    schedule = SmallSchedule()

    async def main(desk):
        with_topic(desk)
        assert await send(desk, 3, more=more, queue_id=1) == 1
        if not schedule.levels:
            (record,) = records(await desk.pull("T", queueId="1"))
            assert "_SYS_MSG_PRIORITY_" not in record.properties
            assert record.properties["__SHARDINGKEY"] == "k"

    broker(main, plugins=attrs.evolve(plugins, interceptors=(schedule,), services=(schedule,)))


def test_the_entries_of_a_batch_keep_its_queue(broker):
    async def main(desk):
        with_topic(desk)
        own = PROPERTIES.format(3, "ID").encode()
        answer = await desk.send_batch("T", [(b"a", own), (b"b", own)], queue_id=1)
        assert (answer.code, answer.ext["queueId"]) == (0, "1")

    broker(main)


@pytest.mark.parametrize("value", ["101", "-1", "x", "", "1.5"])
def test_the_factor_of_a_group_is_a_percentage(broker, value):
    async def main(desk):
        config = '{"groupName":"G","attributes":{"+priority.factor":"%s"}}'
        answer = await desk.ask(200, None, (config % value).encode())
        assert answer.code == 1
        assert f"priority.factor={value} is not a whole number from 0 to 100" in answer.remark
        assert (await desk.ask(200, None, (config % 0).encode())).code == 0
        assert desk.tables.groups.get("G").attributes == {"priority.factor": "0"}

    broker(main)
