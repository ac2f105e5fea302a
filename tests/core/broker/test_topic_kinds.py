"""Topics with a declared message type (message.type): the attribute is stored, and the broker accepts any message.

Only RocketMQ's proxy enforces the type, which remoting clients do not use (DefaultTopicMessageTypeValidator).
"""

from __future__ import annotations

import attrs
import pytest
from broker_desk import body_of, topic_ext
from small_schedule import SmallSchedule

from gantrymq.model.topic import TopicConfig

KINDS = ("UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "PRIORITY", "MIXED")
MESSAGES = ("", "__SHARDINGKEY\x01order-7\x02", "DELAY\x011\x02")


def create(desk, kind):
    return desk.ask(17, topic_ext("T", 1, order="false", attributes=f"+message.type={kind}"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_topic_of_each_kind_takes_messages_of_every_kind(broker, plugins, kind):
    schedule = SmallSchedule()

    async def main(desk):
        answer = await create(desk, kind)
        assert answer.code == 0, answer.remark
        for own in MESSAGES:
            assert (await desk.send("T", properties=own)).code == 0
        assert body_of(await desk.ask(351, {"topic": "T"}))["attributes"] == {"message.type": kind}

    with_it = attrs.evolve(plugins, interceptors=(schedule,), services=(schedule,))
    broker(main, plugins=with_it, enableMixedMessageType=True)
    assert schedule.levels == [1]


def test_mixed_has_to_be_allowed(broker):
    async def main(desk):
        answer = await create(desk, "MIXED")
        assert (answer.code, "enableMixedMessageType=true" in answer.remark) == (29, True)
        assert desk.tables.topics.get("T") is None
        desk.tables.topics.put(
            TopicConfig("T", 1, 1, attributes={"message.type": "MIXED"})
        )  # as stored by an older version
        assert (await desk.send("T")).code == 0

    broker(main)
